package handshake_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fleet-hub/fleet/internal/handshake"
)

func someValues() handshake.Values {
	return handshake.Values{
		ClusterNamespace: workspace, APIServerURL: hubURL, APIServerCA: hubCA, Token: "jwt",
		SystemRegistrationNamespace: "cattle-fleet-clusters-system", TokenName: "t1",
	}
}

func TestValuesEncode(t *testing.T) {
	tests := map[string]struct {
		change func(*handshake.Values)
		want   []string
	}{
		"what an agent needs, keys sorted": {
			change: func(*handshake.Values) {},
			want: []string{
				"apiServerCA: |", "  -----BEGIN CERTIFICATE-----", "  hub", "  -----END CERTIFICATE-----",
				"apiServerURL: https://hub.example:6443", "clusterNamespace: fleet-default",
				"systemRegistrationNamespace: cattle-fleet-clusters-system", "token: jwt", "tokenName: t1", "",
			},
		},
		"a hub without a CA of its own says so": {
			change: func(v *handshake.Values) { v.APIServerCA = "" },
			want: []string{
				`apiServerCA: ""`, "apiServerURL: https://hub.example:6443", "clusterNamespace: fleet-default",
				"systemRegistrationNamespace: cattle-fleet-clusters-system", "token: jwt", "tokenName: t1", "",
			},
		},
		"the usual system namespace goes without saying": {
			change: func(v *handshake.Values) { v.APIServerCA, v.SystemNamespace = "", "cattle-fleet-system" },
			want: []string{
				`apiServerCA: ""`, "apiServerURL: https://hub.example:6443", "clusterNamespace: fleet-default",
				"systemRegistrationNamespace: cattle-fleet-clusters-system", "token: jwt", "tokenName: t1", "",
			},
		},
		"another system namespace is said where the chart looks for it": {
			change: func(v *handshake.Values) { v.APIServerCA, v.SystemNamespace = "", "hub-system" },
			want: []string{
				`apiServerCA: ""`, "apiServerURL: https://hub.example:6443", "clusterNamespace: fleet-default",
				"internal:", "  systemNamespace: hub-system",
				"systemRegistrationNamespace: cattle-fleet-clusters-system", "token: jwt", "tokenName: t1", "",
			},
		},
		"text that YAML could take for something else stays text": {
			change: func(v *handshake.Values) { v.APIServerCA, v.TokenName, v.Token = "", "1e3", "yes" },
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
			expectEqual(t, "document", strings.Split(string(document), "\n"), test.want)
			read, err := handshake.ParseValues(document)
			if err != nil {
				t.Fatal(err)
			}
			if values.SystemNamespace == "cattle-fleet-system" {
				values.SystemNamespace = "" // not written, so not read
			}
			expectEqual(t, "read again", read, values)
		})
	}
}

func TestParseValues(t *testing.T) {
	tests := map[string]struct {
		document   string
		want       handshake.Values
		incomplete bool
		broken     bool
	}{
		"entries that are no text are ignored": {
			document: "token: jwt\ntokenName: 5\nclusterNamespace: [a]\napiServerURL: {a: b}\n",
			want:     handshake.Values{Token: "jwt"},
		},
		"the chart's other values may stand beside ours": {
			document: "token: jwt\nlabels: {env: dev}\ndebug: true\ninternal: {managedReleaseName: fleet-agent, systemNamespace: hub-system}\n",
			want:     handshake.Values{Token: "jwt", SystemNamespace: "hub-system"},
		},
		"an internal that is no mapping is no system namespace": {
			document: "token: jwt\ninternal: hub-system\n",
			want:     handshake.Values{Token: "jwt"},
		},
		"JSON is YAML": {
			document: `{"token": "jwt", "tokenName": "t1"}`,
			want:     handshake.Values{Token: "jwt", TokenName: "t1"},
		},
		"without a token it is incomplete":        {document: "tokenName: t1\n", incomplete: true},
		"with an empty token it is incomplete":    {document: "token: ''\n", incomplete: true},
		"with a number as token it is incomplete": {document: "token: 7\n", incomplete: true},
		"nothing is incomplete":                   {document: "", incomplete: true},
		"a list is no document":                   {document: "- token\n", broken: true},
		"a text is no document":                   {document: "token\n", broken: true},
		"broken YAML is no document":              {document: "token: [\n", broken: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := handshake.ParseValues([]byte(test.document))
			expectError(t, err, test.incomplete, test.broken)
			expectEqual(t, "values", got, test.want)
		})
	}
}

// expectError tells incomplete documents from broken ones.
func expectError(t *testing.T, err error, incomplete, broken bool) {
	t.Helper()
	if errors.Is(err, handshake.ErrIncomplete) != incomplete || (err != nil) != (incomplete || broken) {
		t.Errorf("error %v, want incomplete %v, broken %v", err, incomplete, broken)
	}
}

func TestParseBootstrap(t *testing.T) {
	full := handshake.Bootstrap{
		APIServerURL: hubURL, APIServerCA: []byte(hubCA), ClusterNamespace: workspace, Token: "jwt", TokenName: "t1",
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
		want       handshake.Bootstrap
		missing    string
		incomplete bool
		broken     bool
	}{
		"what was encoded":                                  {data: full.Encode(), want: full},
		"a token's values in one key":                       {data: map[string][]byte{"values": document}, want: full},
		"a token's values take the place of all other keys": {data: map[string][]byte{"values": document, "token": []byte("other"), "tokenName": []byte("other")}, want: full},
		"an empty key values is as none": {
			data: flat(map[string]string{"values": "", "apiServerURL": hubURL, "clusterNamespace": workspace, "token": "jwt", "systemRegistrationNamespace": "r"}),
			want: handshake.Bootstrap{APIServerURL: hubURL, ClusterNamespace: workspace, Token: "jwt", SystemRegistrationNamespace: "r"},
		},
		"a hub of old names no token": {
			data: without("tokenName"),
			want: handshake.Bootstrap{APIServerURL: hubURL, APIServerCA: []byte(hubCA), ClusterNamespace: workspace, Token: "jwt", SystemRegistrationNamespace: "cattle-fleet-clusters-system"},
		},
		"a hub with a public certificate gives no CA": {
			data: without("apiServerCA"),
			want: handshake.Bootstrap{APIServerURL: hubURL, ClusterNamespace: workspace, Token: "jwt", TokenName: "t1", SystemRegistrationNamespace: "cattle-fleet-clusters-system"},
		},
		"without an address it is incomplete":                 {data: without("apiServerURL"), incomplete: true, missing: `["apiServerURL"]`},
		"without a workspace it is incomplete":                {data: without("clusterNamespace"), incomplete: true, missing: `["clusterNamespace"]`},
		"without a token it is incomplete":                    {data: without("token"), incomplete: true, missing: `["token"]`},
		"without the registration namespace it is incomplete": {data: without("systemRegistrationNamespace"), incomplete: true, missing: `["systemRegistrationNamespace"]`},
		"all that is missing is named, in order":              {data: without("token", "apiServerURL"), incomplete: true, missing: `["apiServerURL" "token"]`},
		"values without a token are incomplete, whatever stands beside them": {
			data: map[string][]byte{"values": []byte("tokenName: t1\n"), "token": []byte("jwt")}, incomplete: true,
			missing: `["apiServerURL" "clusterNamespace" "systemRegistrationNamespace" "token"]`,
		},
		"nothing is incomplete":     {incomplete: true, missing: `["apiServerURL" "clusterNamespace" "systemRegistrationNamespace" "token"]`},
		"values that are no YAML":   {data: map[string][]byte{"values": []byte("a: [\n")}, broken: true},
		"values that are no object": {data: map[string][]byte{"values": []byte("- a\n")}, broken: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := pure2(t, handshake.ParseBootstrap, test.data)
			expectError(t, err, test.incomplete, test.broken)
			if test.missing != "" && !strings.Contains(err.Error(), test.missing) {
				t.Errorf("error %q does not name %s", err, test.missing)
			}
			expectEqual(t, "bootstrap", got, test.want, cmpopts.EquateEmpty())
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
	got := pure(t, func(in In) answer {
		out, err := parse(in)
		return answer{out, err}
	}, in)
	return got.out, got.err
}

func TestBootstrapEncode(t *testing.T) {
	got := handshake.Bootstrap{
		APIServerURL: hubURL, APIServerCA: []byte(hubCA), ClusterNamespace: workspace, Token: "jwt", TokenName: "t1",
		SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	}.Encode()
	expectEqual(t, "keys of the bootstrap secret", got, flat(map[string]string{
		"apiServerURL": hubURL, "apiServerCA": hubCA, "clusterNamespace": workspace, "token": "jwt", "tokenName": "t1",
		"systemRegistrationNamespace": "cattle-fleet-clusters-system",
	}))
}

func TestParseCredential(t *testing.T) {
	full := map[string]string{
		"token": "jwt", "deploymentNamespace": "cluster-a", "clusterNamespace": workspace, "clusterName": "a", "systemNamespace": "cattle-fleet-system",
	}
	want := handshake.Credential{Token: "jwt", DeploymentNamespace: "cluster-a", ClusterNamespace: workspace, ClusterName: "a", SystemNamespace: "cattle-fleet-system"}
	expectEqual(t, "encoded", want.Encode(), flat(full))
	got, err := pure2(t, handshake.ParseCredential, flat(full))
	if err != nil {
		t.Fatal(err)
	}
	expectEqual(t, "parsed", got, want)
	for key := range full {
		t.Run("without "+key, func(t *testing.T) {
			data := flat(full)
			delete(data, key)
			got, err := handshake.ParseCredential(data)
			if key == "systemNamespace" { // agents do not need it
				expectError(t, err, false, false)
				return
			}
			expectError(t, err, true, false)
			expectEqual(t, "credential", got, handshake.Credential{})
		})
		t.Run("with an empty "+key, func(t *testing.T) {
			data := flat(full)
			data[key] = nil
			_, err := handshake.ParseCredential(data)
			expectError(t, err, key != "systemNamespace", false)
		})
	}
}

func TestParseIdentity(t *testing.T) {
	full := map[string]string{"kubeconfig": "apiVersion: v1\n", "deploymentNamespace": "cluster-a", "clusterNamespace": workspace, "clusterName": "a"}
	want := handshake.Identity{Kubeconfig: []byte("apiVersion: v1\n"), DeploymentNamespace: "cluster-a", ClusterNamespace: workspace, ClusterName: "a"}
	expectEqual(t, "encoded", want.Encode(), flat(full))
	got, err := pure2(t, handshake.ParseIdentity, flat(full))
	if err != nil {
		t.Fatal(err)
	}
	expectEqual(t, "parsed", got, want)
	for key := range full {
		t.Run("without "+key, func(t *testing.T) {
			data := flat(full)
			delete(data, key)
			got, err := handshake.ParseIdentity(data)
			expectError(t, err, true, false)
			expectEqual(t, "identity", got, handshake.Identity{})
			if !strings.Contains(err.Error(), `["`+key+`"]`) {
				t.Errorf("error %q does not name %s", err, key)
			}
		})
	}
}
