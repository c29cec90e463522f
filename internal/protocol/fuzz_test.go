package protocol_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
)

func FuzzParseValues(f *testing.F) {
	for _, seed := range []string{
		"token: jwt\n", "", "token: ''", "- a", "token: \"\\u2028\"\ninternal: {systemNamespace: x}\n", `{"token": "a", "apiServerCA": "x\r\ny \n"}`,
		"token: jwt\ninternal: {systemNamespace: cattle-fleet-system}\n", "token: \"\\ud800\"\n", "a: &a [*a]\n", "token: \"\\x80\"", "token: \"\\x7f\"", "token: \"\\x85\"", "token: jwt\n<<: {tokenName: x}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		parsed, err := protocol.ParseValues(document)
		if err != nil {
			if parsed != (protocol.Values{}) {
				t.Errorf("an error, and yet %+v", parsed)
			}
			return
		}
		if holdsControls(parsed) {
			return // YAML refuses some of them and folds others; none is in a name, an address or a PEM file
		}
		encoded, err := parsed.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := protocol.ParseValues(encoded)
		if err != nil {
			t.Fatalf("what was encoded cannot be read: %v\n%s", err, encoded)
		}
		if parsed.SystemNamespace == names.SystemNamespace {
			parsed.SystemNamespace = "" // the default is not written
		}
		if diff := cmp.Diff(parsed, again); diff != "" {
			t.Errorf("a document does not keep what it says (-first +second):\n%s", diff)
		}
		if twice, err := again.Encode(); err != nil || !bytes.Equal(encoded, twice) {
			t.Errorf("encoding is not stable: %q, then %q (%v)", encoded, twice, err)
		}
	})
}

// holdsControls says whether a value holds what no YAML document may hold as it is.
func holdsControls(v protocol.Values) bool {
	all := v.ClusterNamespace + v.APIServerURL + v.APIServerCA + v.Token + v.SystemRegistrationNamespace + v.TokenName + v.SystemNamespace
	return strings.ContainsFunc(all, func(r rune) bool {
		return unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r) || r == 0xFFFE || r == 0xFFFF
	})
}

// entriesOf is a Secret's data with these values, without the ones that are empty.
func entriesOf(entries map[string]string) map[string][]byte {
	data := rulestest.Flat(entries)
	for key, value := range data {
		if len(value) == 0 {
			delete(data, key)
		}
	}
	return data
}

// stable says that what was read is read again from what it is encoded as.
func stable[T any](t *testing.T, parse func(map[string][]byte) (T, error), encode func(T) map[string][]byte, data map[string][]byte) {
	t.Helper()
	parsed, err := parse(data)
	if err != nil {
		var none T
		if diff := cmp.Diff(none, parsed); diff != "" {
			t.Errorf("an error, and yet (-nothing +something):\n%s", diff)
		}
		return
	}
	again, err := parse(encode(parsed))
	if err != nil {
		t.Fatalf("what was encoded cannot be read: %v", err)
	}
	if diff := cmp.Diff(parsed, again, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("a Secret does not keep what it says (-first +second):\n%s", diff)
	}
}

func FuzzParseBootstrap(f *testing.F) {
	f.Add("", rulestest.HubURL, rulestest.HubCA, rulestest.Workspace, "jwt", "t1", "cattle-fleet-clusters-system")
	f.Add("apiServerURL: https://x\ntoken: jwt\nclusterNamespace: a\nsystemRegistrationNamespace: b\n", "", "", "", "", "", "")
	f.Add("token: [", "u", "c", "n", "t", "", "r")
	f.Add("\xff", "\xff", "\x00", " ", "\n", "t", "r")
	f.Fuzz(func(t *testing.T, values, url, ca, namespace, token, tokenName, registration string) {
		stable(t, protocol.ParseBootstrap, protocol.Bootstrap.Encode, entriesOf(map[string]string{
			"values": values, "apiServerURL": url, "apiServerCA": ca, "clusterNamespace": namespace, "token": token,
			"tokenName": tokenName, "systemRegistrationNamespace": registration,
		}))
	})
}

func FuzzParseCredential(f *testing.F) {
	f.Add("jwt", "cluster-a", rulestest.Workspace, "a", "cattle-fleet-system")
	f.Add("jwt", "", rulestest.Workspace, "a", "")
	f.Add("\xff", "\x00", "\n", " ", "")
	f.Fuzz(func(t *testing.T, token, deployment, namespace, name, system string) {
		stable(t, protocol.ParseCredential, protocol.Credential.Encode, entriesOf(map[string]string{
			"token": token, "deploymentNamespace": deployment, "clusterNamespace": namespace, "clusterName": name, "systemNamespace": system,
		}))
	})
}

func FuzzParseIdentity(f *testing.F) {
	f.Add([]byte("apiVersion: v1"), "cluster-a", rulestest.Workspace, "a")
	f.Add([]byte{}, "cluster-a", rulestest.Workspace, "a")
	f.Add([]byte{0xff, 0}, "\x00", "\n", " ")
	f.Fuzz(func(t *testing.T, kubeconfig []byte, deployment, namespace, name string) {
		data := entriesOf(map[string]string{"deploymentNamespace": deployment, "clusterNamespace": namespace, "clusterName": name})
		data["kubeconfig"] = kubeconfig
		stable(t, protocol.ParseIdentity, protocol.Identity.Encode, data)
	})
}

func FuzzParseAccountToken(f *testing.F) {
	for _, seed := range []string{
		"", "a.b.c", rulestest.BoundJWT("uid-1", rulestest.Noon()), rulestest.SecretJWT("uid-2"), "..", "a.e30.c", rulestest.JWT(map[string]any{"exp": 1e300, "kubernetes.io/serviceaccount/service-account.uid": "u"}),
		rulestest.JWT(map[string]any{"exp": -1, "kubernetes.io/serviceaccount/service-account.uid": "u"}),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		parsed, err := protocol.ParseAccountToken(token)
		switch {
		case err != nil && !errors.Is(err, protocol.ErrNotAToken):
			t.Errorf("error %v is not ErrNotAToken", err)
		case err != nil && parsed != (protocol.AccountToken{}):
			t.Errorf("an error, and yet %+v", parsed)
		case err == nil && parsed.AccountUID == "":
			t.Error("a token of nobody")
		}
		if err != nil || parsed.Expires.IsZero() {
			return
		}
		again, err := protocol.ParseAccountToken(rulestest.BoundJWT(parsed.AccountUID, parsed.Expires))
		if err != nil || again != parsed {
			t.Errorf("%+v made into a token is read as %+v (%v)", parsed, again, err)
		}
	})
}
