package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestOptionsValues(t *testing.T) {
	hash := func(texts ...string) string {
		sum := sha256.Sum256([]byte(strings.Join(texts, "")))
		return hex.EncodeToString(sum[:])
	}
	tests := map[string]struct {
		values, staged, hash string
		want                 map[string]any
		err                  string
	}{
		// Test vectors of the contract.
		"values alone":             {`{"key":"value"}`, ``, "e43abcf3375244839c012f9633f95862d232a95b00d5bc7348b3098b9fed7f32", map[string]any{"key": "value"}, ""},
		"values and staged values": {`{"key":"value"}`, `{"newkey":"value"}`, "01c44d8a446abccb870503db292e07cb2b8da135b6fec52b21048bdab8c84a7c", map[string]any{"key": "value"}, ""},
		"staged values alone":      {``, `{"newkey":"value"}`, hash(`{"newkey":"value"}`), nil, ""},
		"whole numbers":            {`{"n":9007199254740993}`, ``, hash(`{"n":9007199254740993}`), map[string]any{"n": int64(9007199254740993)}, ""},
		"other values":             {`{"key":"other"}`, ``, "e43abcf3375244839c012f9633f95862d232a95b00d5bc7348b3098b9fed7f32", nil, errValuesHash.Error()},
		"no hash":                  {`{"key":"value"}`, ``, "", nil, errValuesHash.Error()},
		"not an object":            {`["hunter2"]`, ``, hash(`["hunter2"]`), nil, "the values in the BundleDeployment's Secret are not a JSON object"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := optionsValues(map[string][]byte{"values": []byte(test.values), "stagedValues": []byte(test.staged)}, test.hash)
			expectError(t, err, test.err)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func expectError(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}

// aliasBomb is a few kilobytes of YAML that expands to a million items.
var aliasBomb = "a: &a [" + strings.Repeat("x,", 999) + "x]\nb: [" + strings.Repeat("*a,", 999) + "*a]\n"

// tooManyAliases is the error for it.
const tooManyAliases = "the YAML is too large: with its aliases expanded, it contains too much; use fewer aliases"

func TestParseValues(t *testing.T) {
	tests := map[string]struct {
		text string
		want map[string]any
		err  string
	}{
		"an object":            {"a: {b: 1}\n", map[string]any{"a": map[string]any{"b": int64(1)}}, ""},
		"JSON":                 {`{"a": [1.5]}`, map[string]any{"a": []any{1.5}}, ""},
		"nothing":              {"", nil, ""},
		"a comment":            {"# x\n", nil, ""},
		"a list":               {"- hunter2\n", nil, "the values are not a YAML object"},
		"a text":               {"hunter2", nil, "the values are not a YAML object"},
		"not YAML":             {"a: b: hunter2", nil, "the values are not valid YAML"},
		"aliases":              {aliasBomb, nil, tooManyAliases},
		"not YAML, with a tab": {"\thunter2", nil, "the values are not valid YAML"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseValues([]byte(test.text))
			expectError(t, err, test.err)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestValuesSources(t *testing.T) {
	ref := func(name, namespace, key string) *fleet.ValuesKeyRef {
		return &fleet.ValuesKeyRef{Name: name, Namespace: namespace, Key: key}
	}
	tests := map[string]struct {
		options fleet.BundleDeploymentOptions
		want    string
	}{
		"no Helm options": {fleet.BundleDeploymentOptions{}, ""},
		"none":            {in("web"), ""},
		"a ConfigMap":     {withSources(fleet.ValuesFrom{ConfigMapKeyRef: ref("a", "", "")}), `key "values.yaml" of ConfigMap web/a`},
		"a Secret with all fields": {withSources(fleet.ValuesFrom{SecretKeyRef: ref("a", "b", "c")}),
			`key "c" of Secret b/a`},
		"one entry with both: the Secret comes last": {withSources(fleet.ValuesFrom{SecretKeyRef: ref("s", "", ""), ConfigMapKeyRef: ref("c", "", "")}, fleet.ValuesFrom{ConfigMapKeyRef: ref("d", "", "")}),
			`key "values.yaml" of ConfigMap web/c, key "values.yaml" of Secret web/s, key "values.yaml" of ConfigMap web/d`},
		"copied downstream: is read from the release's namespace": {
			func() fleet.BundleDeploymentOptions {
				options := withSources(fleet.ValuesFrom{SecretKeyRef: ref("a", "elsewhere", "")})
				options.DownstreamResources = []fleet.DownstreamResource{{Kind: "Secret", Name: "a"}}
				return options
			}(), `key "values.yaml" of Secret web/a`},
		"an empty entry": {withSources(fleet.ValuesFrom{}), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, source := range valuesSources(&test.options, "web") {
				got = append(got, source.String())
			}
			if strings.Join(got, ", ") != test.want {
				t.Errorf("got %v, want %s", got, test.want)
			}
		})
	}
}

func withSources(from ...fleet.ValuesFrom) fleet.BundleDeploymentOptions {
	options := in("web")
	options.Helm.ValuesFrom = from
	return options
}

func FuzzParseValues(f *testing.F) {
	f.Add([]byte("a: b"))
	f.Add([]byte("- hunter2"))
	f.Add([]byte("a: &a {b: *a}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		values, err := parseValues(text)
		if err != nil && values != nil {
			t.Errorf("both values and %v", err)
		}
	})
}
