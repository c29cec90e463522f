package protocol_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
)

func someKept(t *testing.T) protocol.Kept {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
	ca, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return protocol.Kept{
		Recovery:     protocol.Recovery{Token: rulestest.BoundJWT("account", time.Time{}), Ticket: "ticket", HubKey: "key", WorkspaceKey: []byte{0, 1, 255}},
		APIServerURL: "https://hub.example", APIServerCA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca}),
		ClusterNamespace: "ws", SystemRegistrationNamespace: "sys", ClientID: "client", Serial: 5,
		RecoverySpread: 2 * time.Minute,
	}
}

func TestKept_IsReadAsItWasWritten(t *testing.T) {
	for name, kept := range map[string]protocol.Kept{"everything": someKept(t), "nothing": {}, "a serial": {Serial: 1 << 40}} {
		rulestest.ExpectEqual(t, name, protocol.ParseKept(kept.Encode()), kept)
	}
	if got := (protocol.Kept{}).Encode(); len(got) != 0 {
		t.Errorf("data without a value: %v", got)
	}
}

// Each damaged value is left out, and all others are used.
func TestParseKept_LeavesOutDamagedValues(t *testing.T) {
	for key, test := range map[string]struct {
		damaged []string
		without func(*protocol.Kept)
	}{
		"recoveryToken":               {[]string{"", "a.b", "a.b.c", strings.Repeat("a", 1<<20)}, func(k *protocol.Kept) { k.Token = "" }},
		"recoveryTicket":              {[]string{"", strings.Repeat("a", 1<<20)}, func(k *protocol.Kept) { k.Ticket = "" }},
		"hubKey":                      {[]string{"", strings.Repeat("a", 1<<20)}, func(k *protocol.Kept) { k.HubKey = "" }},
		"workspaceKey":                {[]string{"", "?", strings.Repeat("a", 1<<20)}, func(k *protocol.Kept) { k.WorkspaceKey = nil }},
		"apiServerURL":                {[]string{"", "http://hub.example", "hub", "https://" + strings.Repeat("a", 1<<20)}, func(k *protocol.Kept) { k.APIServerURL = "" }},
		"apiServerCA":                 {[]string{"", "-----BEGIN CERTIFICATE-----", strings.Repeat("a", 1<<20)}, func(k *protocol.Kept) { k.APIServerCA = nil }},
		"clusterNamespace":            {[]string{"", "../x", "A", strings.Repeat("a", 64)}, func(k *protocol.Kept) { k.ClusterNamespace = "" }},
		"systemRegistrationNamespace": {[]string{"", "a/b", strings.Repeat("a", 1<<20)}, func(k *protocol.Kept) { k.SystemRegistrationNamespace = "" }},
		"clientID":                    {[]string{"", strings.Repeat("a", 1<<20)}, func(k *protocol.Kept) { k.ClientID = "" }},
		"serial":                      {[]string{"", "-1", "0", "1e3", "9223372036854775808"}, func(k *protocol.Kept) { k.Serial = 0 }},
		"recoverySpread":              {[]string{"", "-1", "0", "1m", "9223372036854775807"}, func(k *protocol.Kept) { k.RecoverySpread = 0 }},
	} {
		for _, value := range test.damaged {
			want := someKept(t)
			data := want.Encode()
			data[key] = []byte(value)
			test.without(&want)
			rulestest.ExpectEqual(t, key+" "+value[:min(len(value), 20)], protocol.ParseKept(data), want)
		}
	}
}

func TestKept_ReplacesOnlyItsOwnKeys(t *testing.T) {
	data := map[string][]byte{"key": []byte("private"), "theirs": []byte("x"), "serial": []byte("7"), "hubKey": []byte("old")}
	protocol.Kept{ClientID: "c"}.Replace(data)
	rulestest.ExpectEqual(t, "data", data, map[string][]byte{"key": []byte("private"), "theirs": []byte("x"), "clientID": []byte("c")})
}

func TestKeptAccess_NeedsEveryPart(t *testing.T) {
	access, complete := someKept(t).Access()
	if !complete || access.TokenName != "" || access.APIServerURL != "https://hub.example" || access.Token == "" {
		t.Errorf("access %+v, complete %t", access, complete)
	}
	for name, remove := range map[string]func(*protocol.Kept){
		"token":                  func(k *protocol.Kept) { k.Token = "" },
		"ticket":                 func(k *protocol.Kept) { k.Ticket = "" },
		"address":                func(k *protocol.Kept) { k.APIServerURL = "" },
		"workspace":              func(k *protocol.Kept) { k.ClusterNamespace = "" },
		"registration namespace": func(k *protocol.Kept) { k.SystemRegistrationNamespace = "" },
	} {
		kept := someKept(t)
		remove(&kept)
		if _, complete := kept.Access(); complete {
			t.Errorf("complete without %s", name)
		}
	}
}

// FuzzParseKept checks that no data of a recovery Secret causes a panic, and that parsed data is encoded unchanged.
func FuzzParseKept(f *testing.F) {
	f.Add("recoveryToken", []byte("e30.e30.x"))
	f.Add("serial", []byte("12"))
	f.Add("apiServerURL", []byte("https://hub"))
	f.Add("workspaceKey", []byte("AAAA"))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		kept := protocol.ParseKept(map[string][]byte{key: value, "clientID": []byte("c")})
		if key != "clientID" && kept.ClientID != "c" {
			t.Errorf("client ID %q", kept.ClientID)
		}
		rulestest.ExpectEqual(t, key, protocol.ParseKept(kept.Encode()), kept)
	})
}
