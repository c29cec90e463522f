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

func someRecoveryData(t *testing.T) protocol.RecoveryData {
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
	return protocol.RecoveryData{
		Recovery:     protocol.Recovery{Token: rulestest.BoundJWT("account", time.Time{}), Ticket: "ticket", HubKey: "key", WorkspaceKey: []byte{0, 1, 255}},
		APIServerURL: "https://hub.example", APIServerCA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca}),
		ClusterNamespace: "ws", SystemRegistrationNamespace: "sys", ClientID: "client", Serial: 5,
		RecoverySpread: 2 * time.Minute,
	}
}

func TestKept_IsReadAsItWasWritten(t *testing.T) {
	for name, recovery := range map[string]protocol.RecoveryData{"everything": someRecoveryData(t), "nothing": {}, "a serial": {Serial: 1 << 40}} {
		rulestest.ExpectEqual(t, name, protocol.ParseRecoveryData(recovery.Encode()), recovery)
	}
	if got := (protocol.RecoveryData{}).Encode(); len(got) != 0 {
		t.Errorf("data without a value: %v", got)
	}
}

// Each damaged value is left out, and all others are used.
func TestParseRecoveryData_LeavesOutDamagedValues(t *testing.T) {
	for key, test := range map[string]struct {
		damaged []string
		without func(*protocol.RecoveryData)
	}{
		"recoveryToken":               {[]string{"", "a.b", "a.b.c", strings.Repeat("a", 1<<20)}, func(k *protocol.RecoveryData) { k.Token = "" }},
		"recoveryTicket":              {[]string{"", strings.Repeat("a", 1<<20)}, func(k *protocol.RecoveryData) { k.Ticket = "" }},
		"hubKey":                      {[]string{"", strings.Repeat("a", 1<<20)}, func(k *protocol.RecoveryData) { k.HubKey = "" }},
		"workspaceKey":                {[]string{"", "?", strings.Repeat("a", 1<<20)}, func(k *protocol.RecoveryData) { k.WorkspaceKey = nil }},
		"apiServerURL":                {[]string{"", "http://hub.example", "hub", "https://" + strings.Repeat("a", 1<<20)}, func(k *protocol.RecoveryData) { k.APIServerURL = "" }},
		"apiServerCA":                 {[]string{"", "-----BEGIN CERTIFICATE-----", strings.Repeat("a", 1<<20)}, func(k *protocol.RecoveryData) { k.APIServerCA = nil }},
		"clusterNamespace":            {[]string{"", "../x", "A", strings.Repeat("a", 64)}, func(k *protocol.RecoveryData) { k.ClusterNamespace = "" }},
		"systemRegistrationNamespace": {[]string{"", "a/b", strings.Repeat("a", 1<<20)}, func(k *protocol.RecoveryData) { k.SystemRegistrationNamespace = "" }},
		"clientID":                    {[]string{"", strings.Repeat("a", 1<<20)}, func(k *protocol.RecoveryData) { k.ClientID = "" }},
		"serial":                      {[]string{"", "-1", "0", "1e3", "9223372036854775808"}, func(k *protocol.RecoveryData) { k.Serial = 0 }},
		"recoverySpread":              {[]string{"", "-1", "0", "1m", "9223372036854775807"}, func(k *protocol.RecoveryData) { k.RecoverySpread = 0 }},
	} {
		for _, value := range test.damaged {
			want := someRecoveryData(t)
			data := want.Encode()
			data[key] = []byte(value)
			test.without(&want)
			rulestest.ExpectEqual(t, key+" "+value[:min(len(value), 20)], protocol.ParseRecoveryData(data), want)
		}
	}
}

func TestKept_ReplacesOnlyItsOwnKeys(t *testing.T) {
	data := map[string][]byte{"key": []byte("private"), "theirs": []byte("x"), "serial": []byte("7"), "hubKey": []byte("old")}
	protocol.RecoveryData{ClientID: "c"}.Replace(data)
	rulestest.ExpectEqual(t, "data", data, map[string][]byte{"key": []byte("private"), "theirs": []byte("x"), "clientID": []byte("c")})
}

func TestKeptAccess_NeedsEveryPart(t *testing.T) {
	access, complete := someRecoveryData(t).Access()
	if !complete || access.TokenName != "" || access.APIServerURL != "https://hub.example" || access.Token == "" {
		t.Errorf("access %+v, complete %t", access, complete)
	}
	for name, remove := range map[string]func(*protocol.RecoveryData){
		"token":                  func(k *protocol.RecoveryData) { k.Token = "" },
		"ticket":                 func(k *protocol.RecoveryData) { k.Ticket = "" },
		"address":                func(k *protocol.RecoveryData) { k.APIServerURL = "" },
		"workspace":              func(k *protocol.RecoveryData) { k.ClusterNamespace = "" },
		"registration namespace": func(k *protocol.RecoveryData) { k.SystemRegistrationNamespace = "" },
	} {
		recovery := someRecoveryData(t)
		remove(&recovery)
		if _, complete := recovery.Access(); complete {
			t.Errorf("complete without %s", name)
		}
	}
}

// FuzzParseRecoveryData checks that no data of a recovery Secret causes a panic, and that parsed data is encoded unchanged.
func FuzzParseRecoveryData(f *testing.F) {
	f.Add("recoveryToken", []byte("e30.e30.x"))
	f.Add("serial", []byte("12"))
	f.Add("apiServerURL", []byte("https://hub"))
	f.Add("workspaceKey", []byte("AAAA"))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		recovery := protocol.ParseRecoveryData(map[string][]byte{key: value, "clientID": []byte("c")})
		if key != "clientID" && recovery.ClientID != "c" {
			t.Errorf("client ID %q", recovery.ClientID)
		}
		rulestest.ExpectEqual(t, key, protocol.ParseRecoveryData(recovery.Encode()), recovery)
	})
}
