package jointext

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
)

const canary = "canary-token-5f1e"

// newCA returns a certificate in PEM.
func newCA(t testing.TB) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func sample(t testing.TB) Text {
	expires := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	return Text{
		URL: "https://hub.example.com:6443", CA: newCA(t), Workspace: "fleet-default", Token: canary, TokenName: "west",
		ClientID: "west-1", Cluster: "moor", Expires: &expires, SystemRegistrationNamespace: "cattle-fleet-clusters-system", SystemNamespace: "other-system",
	}
}

func encode(t testing.TB, text Text) string {
	t.Helper()
	encoded, err := Encode(text)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// pack returns a join text with this JSON document.
func pack(t testing.TB, document []byte) string {
	t.Helper()
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(document); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return prefix + base64.RawURLEncoding.EncodeToString(packed.Bytes())
}

func TestEncodedText_IsParsedAsItWas(t *testing.T) {
	ca := newCA(t)
	err := quick.Check(func(client string, token [20]byte, seconds uint32, reusable, forever bool) bool {
		text := sample(t)
		text.CA, text.Token = ca, base64.RawURLEncoding.EncodeToString(token[:])
		if text.ClientID = strings.ToValidUTF8(client, ""); reusable || len(text.ClientID) > maxClientID {
			text.ClientID = ""
		}
		expires := time.Unix(int64(seconds), 0).UTC()
		if text.Expires = &expires; forever {
			text.Expires = nil
		}
		got, err := Parse([]byte(encode(t, text)))
		return err == nil && cmp.Equal(text, got) && encode(t, text) == encode(t, got)
	}, nil)
	if err != nil {
		t.Error(err)
	}
}

func TestTextWithLineBreaks_IsParsed(t *testing.T) {
	text := sample(t)
	var broken strings.Builder
	for i, r := range encode(t, text) {
		if i%60 == 59 {
			broken.WriteString(" \r\n\t")
		}
		broken.WriteRune(r)
	}
	got, err := Read(strings.NewReader("\n" + broken.String() + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBadText_IsRejectedWithItsProblem(t *testing.T) {
	good := encode(t, sample(t))
	middle := len(good) / 2
	flipped := "A"
	if good[middle] == 'A' {
		flipped = "B"
	}
	change := func(modify func(*Text)) string {
		text := sample(t)
		modify(&text)
		return encode(t, text)
	}
	const again = "fix: print the text again on the hub, and paste all of it: fleet token show TOKEN --with-secret\n"
	const setCA = "fix: on the hub, set its CA in PEM: helm upgrade -n cattle-fleet-system fleet charts/fleet --reset-then-reuse-values --set-file apiServerCA=hub-ca.pem\n"
	tests := map[string]struct {
		in, want string
	}{
		"no text":                  {" \n", "error: there is no join text: standard input is empty\n" + again},
		"the command was pasted":   {"fleet join --context west", "error: the input is not a join text: fleet-join-v1: is missing at its start\n" + again},
		"half of the prefix":       {"fleet-join", "error: the join text is truncated: its end is missing\n" + again},
		"only the prefix":          {prefix, "error: the join text is truncated: its end is missing\n" + again},
		"the last character":       {good[:len(good)-1], "error: the join text is truncated: its end is missing\n" + again},
		"the last four characters": {good[:len(good)-4], "error: the join text is truncated: its end is missing\n" + again},
		"the second half":          {good[:middle], "error: the join text is truncated: its end is missing\n" + again},
		"another version": {
			strings.Replace(good, "v1", "v2", 1),
			"error: the join text has another version: it has version 2, and this program reads version 1\nfix: use the fleet binary of the hub's release\n",
		},
		"a version that is not a number": {strings.Replace(good, "v1", "vx", 1), "error: the input is not a join text: fleet-join-v1: is missing at its start\n" + again},
		"a changed character":            {good[:middle] + flipped + good[middle+1:], "error: the join text is corrupted: it was changed after it was printed\n" + again},
		"a character of another kind":    {good[:middle] + "?" + good[middle+1:], "error: the join text is corrupted: it was changed after it was printed\n" + again},
		"not gzip":                       {prefix + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("x", 40))), "error: the join text is corrupted: it was changed after it was printed\n" + again},
		"not JSON":                       {pack(t, []byte("url: x")), "error: the join text is corrupted: it was changed after it was printed\n" + again},
		"another checksum":               {pack(t, []byte(`{"checksum":"00","join":{"token":"`+canary+`"}}`)), "error: the join text is corrupted: it was changed after it was printed\n" + again},
		"too long":                       {prefix + strings.Repeat("A", MaxBytes), "error: the join text is too large: more than 256 KiB\n" + again},
		"a decompression bomb":           {pack(t, bytes.Repeat([]byte(" "), 64<<20)), "error: the join text is too large: more than 512 KiB when decompressed\n" + again},
		"host that is not what it seems": {change(func(x *Text) { x.URL = "https://hub.example.org:6443@example.com" }), "error: the join text is not valid: the hub's URL is not an https URL\n" + again},
		"terminal in the URL":            {change(func(x *Text) { x.URL = "https://hub\u009b2J" }), "error: the join text is not valid: the hub's URL is not an https URL\n" + again},
		"letter of another alphabet":     {change(func(x *Text) { x.URL = "https://h\u0443b" }), "error: the join text is not valid: the hub's URL is not an https URL\n" + again},
		"query in the URL":               {change(func(x *Text) { x.URL = "https://hub?x" }), "error: the join text is not valid: the hub's URL is not an https URL\n" + again},
		"http":                           {change(func(x *Text) { x.URL = "http://hub" }), "error: the join text is not valid: the hub's URL is not an https URL\n" + again},
		"all problems at once": {
			change(func(x *Text) {
				*x = Text{CA: "x", ClientID: strings.Repeat("x", maxClientID+1), SystemNamespace: "A", AgentNamespace: "B"}
			}),
			"error: the join text is not valid: the hub's URL is not an https URL, the hub's CA does not consist of certificates, " +
				"the workspace is not a name of a namespace, the token's name is not valid, the registration namespace is not a name of a namespace, " +
				"the system namespace is not a name of a namespace, the agent's namespace is not a name of a namespace, the client ID is too long, the token is missing or not a bearer token\n" + setCA + again,
		},
		"a hub with a wrong CA": {
			change(func(x *Text) { x.CA = "-----BEGIN CERTIFICATE-----\n" }),
			"error: the join text is not valid: the hub's CA does not consist of certificates\n" + setCA + again,
		},
		"a Cluster that is no name": {change(func(x *Text) { x.Cluster = "a;b" }), "error: the join text is not valid: the Cluster's name is not valid\n" + again},
		"an image with a space":     {change(func(x *Text) { x.Image = "a b" }), "error: the join text is not valid: the image is not a name of an image\n" + again},
		"a token with a line break": {change(func(x *Text) { x.Token = canary + "\nX-Header: x" }), "error: the join text is not valid: the token is missing or not a bearer token\n" + again},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Read(strings.NewReader(test.in))
			if err == nil {
				t.Fatal("it was parsed")
			}
			if diff := cmp.Diff(test.want, exit.Text(err)); diff != "" || exit.CodeOf(err) != exit.Preflight {
				t.Errorf("code %d (-want +got):\n%s", exit.CodeOf(err), diff)
			}
			if strings.Contains(err.Error(), canary) {
				t.Error("the error contains the token")
			}
		})
	}
}

func TestExpiry(t *testing.T) {
	text := sample(t)
	if err := text.CheckExpiry(text.Expires.Add(-time.Second)); err != nil {
		t.Errorf("before: %v", err)
	}
	err := text.CheckExpiry(text.Expires.Add(time.Minute))
	const want = "error: the join text has expired at 2030-01-02T03:04:05Z: this clock shows 2030-01-02T03:05:05Z\nfix: on the hub: fleet repair moor -n fleet-default\n"
	if exit.Text(err) != want || !errors.Is(err, ErrExpired) {
		t.Errorf("after: %s", exit.Text(err))
	}
	text.Expires = nil
	if err := text.CheckExpiry(time.Now()); err != nil {
		t.Errorf("without: %v", err)
	}
}

func TestRenewal_NamesWhatTheTextIsFor(t *testing.T) {
	for want, text := range map[string]Text{
		"on the hub: fleet repair moor -n team":         {Workspace: "team", TokenName: "west", ClientID: "c", Cluster: "moor"},
		"on the hub: fleet repair CLUSTER -n team":      {Workspace: "team", TokenName: "west", ClientID: "c"}, // of an earlier release
		"on the hub: fleet token create shared -n team": {Workspace: "team", TokenName: "shared"},
	} {
		if got := text.Renewal(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestPrintedText_HidesTheToken(t *testing.T) {
	text := sample(t)
	for _, printed := range []string{fmt.Sprint(text), fmt.Sprintf("%+v", text), fmt.Sprintf("%#v", text)} {
		if strings.Contains(printed, canary) {
			t.Errorf("the token is printed: %s", printed)
		}
	}
}

func TestValuesOfAText_AreThoseItWasMadeOf(t *testing.T) {
	text := sample(t)
	text.Cluster = "" // values do not name it
	if diff := cmp.Diff(text, Of(text.Values(), text.ClientID, text.Expires)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFingerprint_IsThatOfTheCertificate(t *testing.T) {
	text := sample(t)
	before := text.Fingerprint()
	text.CA = "\n" + text.CA + "\n\n"
	if text.Fingerprint() != before || !strings.HasPrefix(before, "sha256:") || len(before) != len("sha256:")+64 {
		t.Errorf("%s, with white space %s", before, text.Fingerprint())
	}
	if text.CA = ""; text.Fingerprint() != "none (the CAs of the system)" {
		t.Error(text.Fingerprint())
	}
}

func FuzzParse(f *testing.F) {
	good := encode(f, sample(f))
	for _, seed := range []string{good, good[:len(good)/2], prefix, "fleet-join-v2:", pack(f, []byte(`{"checksum":"","join":null}`))} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		text, err := Parse(input)
		if err != nil {
			if exit.CodeOf(err) != exit.Preflight {
				t.Errorf("code %d", exit.CodeOf(err))
			}
			return
		}
		again, err := Parse([]byte(encode(t, text)))
		if err != nil || !cmp.Equal(text, again) {
			t.Errorf("it is parsed otherwise again: %v", err)
		}
	})
}

// FuzzDocument covers what is inside: the checksum keeps a mutated text out.
func FuzzDocument(f *testing.F) {
	join, err := json.Marshal(sample(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(join)
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, join []byte) {
		document, err := json.Marshal(envelope{Checksum: checksum(join), Join: join})
		if err != nil {
			return // not JSON
		}
		text, err := Parse([]byte(pack(t, document)))
		if err != nil {
			return
		}
		again, err := Parse([]byte(encode(t, text)))
		if err != nil || !cmp.Equal(text, again) {
			t.Errorf("it is parsed otherwise again: %v", err)
		}
	})
}
