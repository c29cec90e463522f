package protocol_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
)

// shortCA has the form of a CA.
const shortCA = "-----BEGIN CERTIFICATE-----\nhub\n-----END CERTIFICATE-----\n"

func someValues() protocol.Values {
	return protocol.Values{
		ClusterNamespace: rulestest.Workspace, APIServerURL: rulestest.HubURL, APIServerCA: shortCA, Token: "jwt",
		SystemRegistrationNamespace: "cattle-fleet-clusters-system", TokenName: "t1",
	}
}

func TestValuesEncode(t *testing.T) {
	tests := map[string]struct {
		change func(*protocol.Values)
		want   []string
	}{
		"all values, keys sorted": {
			change: func(*protocol.Values) {},
			want: []string{
				"apiServerCA: |", "  -----BEGIN CERTIFICATE-----", "  hub", "  -----END CERTIFICATE-----",
				"apiServerURL: https://hub.example:6443", "clusterNamespace: fleet-default",
				"systemRegistrationNamespace: cattle-fleet-clusters-system", "token: jwt", "tokenName: t1", "",
			},
		},
		"hub without a CA: an empty CA": {
			change: func(v *protocol.Values) { v.APIServerCA = "" },
			want: []string{
				`apiServerCA: ""`, "apiServerURL: https://hub.example:6443", "clusterNamespace: fleet-default",
				"systemRegistrationNamespace: cattle-fleet-clusters-system", "token: jwt", "tokenName: t1", "",
			},
		},
		"default system namespace: omitted": {
			change: func(v *protocol.Values) { v.APIServerCA, v.SystemNamespace = "", "cattle-fleet-system" },
			want: []string{
				`apiServerCA: ""`, "apiServerURL: https://hub.example:6443", "clusterNamespace: fleet-default",
				"systemRegistrationNamespace: cattle-fleet-clusters-system", "token: jwt", "tokenName: t1", "",
			},
		},
		"another system namespace: below the key internal": {
			change: func(v *protocol.Values) { v.APIServerCA, v.SystemNamespace = "", "hub-system" },
			want: []string{
				`apiServerCA: ""`, "apiServerURL: https://hub.example:6443", "clusterNamespace: fleet-default",
				"internal:", "  systemNamespace: hub-system",
				"systemRegistrationNamespace: cattle-fleet-clusters-system", "token: jwt", "tokenName: t1", "",
			},
		},
		"text that looks like another YAML type: quoted": {
			change: func(v *protocol.Values) { v.APIServerCA, v.TokenName, v.Token = "", "1e3", "yes" },
			want: []string{
				`apiServerCA: ""`, "apiServerURL: https://hub.example:6443", "clusterNamespace: fleet-default",
				"systemRegistrationNamespace: cattle-fleet-clusters-system", `token: "yes"`, `tokenName: "1e3"`, "",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			values := someValues()
			test.change(&values)
			document, err := values.Encode()
			if err != nil {
				t.Fatal(err)
			}
			rulestest.ExpectEqual(t, "document", strings.Split(string(document), "\n"), test.want)
			read, err := protocol.ParseValues(document)
			if err != nil {
				t.Fatal(err)
			}
			if values.SystemNamespace == "cattle-fleet-system" {
				values.SystemNamespace = "" // not written, so not read
			}
			rulestest.ExpectEqual(t, "read again", read, values)
		})
	}
}

func TestParseValues(t *testing.T) {
	tests := map[string]struct {
		document   string
		want       protocol.Values
		incomplete bool
		broken     bool
	}{
		"entries that are not text are ignored": {
			document: "token: jwt\ntokenName: 5\nclusterNamespace: [a]\napiServerURL: {a: b}\n",
			want:     protocol.Values{Token: "jwt"},
		},
		"other values of the chart are ignored": {
			document: "token: jwt\nlabels: {env: dev}\ndebug: true\ninternal: {managedReleaseName: fleet-agent, systemNamespace: hub-system}\n",
			want:     protocol.Values{Token: "jwt", SystemNamespace: "hub-system"},
		},
		"internal is not a mapping: no system namespace": {
			document: "token: jwt\ninternal: hub-system\n",
			want:     protocol.Values{Token: "jwt"},
		},
		"JSON": {
			document: `{"token": "jwt", "tokenName": "t1"}`,
			want:     protocol.Values{Token: "jwt", TokenName: "t1"},
		},
		"without a token it is incomplete":        {document: "tokenName: t1\n", incomplete: true},
		"with an empty token it is incomplete":    {document: "token: ''\n", incomplete: true},
		"with a number as token it is incomplete": {document: "token: 7\n", incomplete: true},
		"empty: incomplete":                       {document: "", incomplete: true},
		"a list is an error":                      {document: "- token\n", broken: true},
		"text is an error":                        {document: "token\n", broken: true},
		"invalid YAML is an error":                {document: "token: [\n", broken: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := protocol.ParseValues([]byte(test.document))
			expectError(t, err, test.incomplete, test.broken)
			rulestest.ExpectEqual(t, "values", got, test.want)
		})
	}
}

// expectError tells incomplete documents from broken ones.
func expectError(t *testing.T, err error, incomplete, broken bool) {
	t.Helper()
	if errors.Is(err, protocol.ErrIncomplete) != incomplete || (err != nil) != (incomplete || broken) {
		t.Errorf("error %v, want incomplete %v, broken %v", err, incomplete, broken)
	}
}

func TestParseBootstrap(t *testing.T) {
	full := protocol.Bootstrap{
		APIServerURL: rulestest.HubURL, APIServerCA: []byte(shortCA), ClusterNamespace: rulestest.Workspace, Token: "jwt", TokenName: "t1",
		SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	}
	document, err := someValues().Encode()
	if err != nil {
		t.Fatal(err)
	}
	without := func(keys ...string) map[string][]byte {
		data := full.Encode()
		for _, key := range keys {
			delete(data, key)
		}
		return data
	}
	tests := map[string]struct {
		data       map[string][]byte
		want       protocol.Bootstrap
		missing    string
		incomplete bool
		broken     bool
	}{
		"encoded values":                           {data: full.Encode(), want: full},
		"values of a token in one key":             {data: map[string][]byte{"values": document}, want: full},
		"values of a token replace all other keys": {data: map[string][]byte{"values": document, "token": []byte("other"), "tokenName": []byte("other")}, want: full},
		"empty key values: ignored": {
			data: rulestest.Flat(map[string]string{"values": "", "apiServerURL": rulestest.HubURL, "clusterNamespace": rulestest.Workspace, "token": "jwt", "systemRegistrationNamespace": "r"}),
			want: protocol.Bootstrap{APIServerURL: rulestest.HubURL, ClusterNamespace: rulestest.Workspace, Token: "jwt", SystemRegistrationNamespace: "r"},
		},
		"older hub: no token name": {
			data: without("tokenName"),
			want: protocol.Bootstrap{APIServerURL: rulestest.HubURL, APIServerCA: []byte(shortCA), ClusterNamespace: rulestest.Workspace, Token: "jwt", SystemRegistrationNamespace: "cattle-fleet-clusters-system"},
		},
		"hub with a public certificate: no CA": {
			data: without("apiServerCA"),
			want: protocol.Bootstrap{APIServerURL: rulestest.HubURL, ClusterNamespace: rulestest.Workspace, Token: "jwt", TokenName: "t1", SystemRegistrationNamespace: "cattle-fleet-clusters-system"},
		},
		"without an address it is incomplete":                 {data: without("apiServerURL"), incomplete: true, missing: "keys: apiServerURL"},
		"without a workspace it is incomplete":                {data: without("clusterNamespace"), incomplete: true, missing: "keys: clusterNamespace"},
		"without a token it is incomplete":                    {data: without("token"), incomplete: true, missing: "keys: token"},
		"without the registration namespace it is incomplete": {data: without("systemRegistrationNamespace"), incomplete: true, missing: "keys: systemRegistrationNamespace"},
		"all missing keys are named, in order":                {data: without("token", "apiServerURL"), incomplete: true, missing: "keys: apiServerURL, token"},
		"values without a token: incomplete in spite of other keys": {
			data: map[string][]byte{"values": []byte("tokenName: t1\n"), "token": []byte("jwt")}, incomplete: true,
			missing: "keys: apiServerURL, clusterNamespace, systemRegistrationNamespace, token",
		},
		"empty: incomplete":             {incomplete: true, missing: "keys: apiServerURL, clusterNamespace, systemRegistrationNamespace, token"},
		"values that are not YAML":      {data: map[string][]byte{"values": []byte("a: [\n")}, broken: true},
		"values that are not a mapping": {data: map[string][]byte{"values": []byte("- a\n")}, broken: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := pure2(t, protocol.ParseBootstrap, test.data)
			expectError(t, err, test.incomplete, test.broken)
			if test.missing != "" && !strings.HasSuffix(err.Error(), test.missing) {
				t.Errorf("error %q does not name %s", err, test.missing)
			}
			rulestest.ExpectEqual(t, "bootstrap", got, test.want, cmpopts.EquateEmpty())
		})
	}
}

// pure2 is pure for functions that may fail.
func pure2[In, Out any](t *testing.T, parse func(In) (Out, error), in In) (Out, error) {
	t.Helper()
	type answer struct {
		out Out
		err error
	}
	got := rulestest.Pure(t, func(in In) answer {
		out, err := parse(in)
		return answer{out, err}
	}, in)
	return got.out, got.err
}

func TestBootstrapEncode(t *testing.T) {
	got := protocol.Bootstrap{
		APIServerURL: rulestest.HubURL, APIServerCA: []byte(shortCA), ClusterNamespace: rulestest.Workspace, Token: "jwt", TokenName: "t1",
		SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	}.Encode()
	rulestest.ExpectEqual(t, "keys of the bootstrap secret", got, rulestest.Flat(map[string]string{
		"apiServerURL": rulestest.HubURL, "apiServerCA": shortCA, "clusterNamespace": rulestest.Workspace, "token": "jwt", "tokenName": "t1",
		"systemRegistrationNamespace": "cattle-fleet-clusters-system",
	}))
}

func TestParseCredential(t *testing.T) {
	full := map[string]string{
		"token": "jwt", "deploymentNamespace": "cluster-a", "clusterNamespace": rulestest.Workspace, "clusterName": "a", "systemNamespace": "cattle-fleet-system",
	}
	want := protocol.Credential{Token: "jwt", DeploymentNamespace: "cluster-a", ClusterNamespace: rulestest.Workspace, ClusterName: "a", SystemNamespace: "cattle-fleet-system"}
	rulestest.ExpectEqual(t, "encoded", want.Encode(), rulestest.Flat(full))
	got, err := pure2(t, protocol.ParseCredential, rulestest.Flat(full))
	if err != nil {
		t.Fatal(err)
	}
	rulestest.ExpectEqual(t, "parsed", got, want)
	for key := range full {
		t.Run("without "+key, func(t *testing.T) {
			data := rulestest.Flat(full)
			delete(data, key)
			got, err := protocol.ParseCredential(data)
			if key == "systemNamespace" { // agents do not need it
				expectError(t, err, false, false)
				return
			}
			expectError(t, err, true, false)
			rulestest.ExpectEqual(t, "credential", got, protocol.Credential{})
		})
		t.Run("with an empty "+key, func(t *testing.T) {
			data := rulestest.Flat(full)
			data[key] = nil
			_, err := protocol.ParseCredential(data)
			expectError(t, err, key != "systemNamespace", false)
		})
	}
}

func TestParseIdentity(t *testing.T) {
	full := map[string]string{"kubeconfig": "apiVersion: v1\n", "deploymentNamespace": "cluster-a", "clusterNamespace": rulestest.Workspace, "clusterName": "a"}
	want := protocol.Identity{Kubeconfig: []byte("apiVersion: v1\n"), DeploymentNamespace: "cluster-a", ClusterNamespace: rulestest.Workspace, ClusterName: "a"}
	rulestest.ExpectEqual(t, "encoded", want.Encode(), rulestest.Flat(full))
	got, err := pure2(t, protocol.ParseIdentity, rulestest.Flat(full))
	if err != nil {
		t.Fatal(err)
	}
	rulestest.ExpectEqual(t, "parsed", got, want)
	for key := range full {
		t.Run("without "+key, func(t *testing.T) {
			data := rulestest.Flat(full)
			delete(data, key)
			got, err := protocol.ParseIdentity(data)
			expectError(t, err, true, false)
			rulestest.ExpectEqual(t, "identity", got, protocol.Identity{})
			if !strings.HasSuffix(err.Error(), " keys: "+key) {
				t.Errorf("error %q does not name %s", err, key)
			}
		})
	}
}
