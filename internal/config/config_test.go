package config

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func minutes(n int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(n) * time.Minute}
}

func TestParse(t *testing.T) {
	base := Default("v1")
	with := func(change func(*Config)) Config {
		c := base
		change(&c)
		return c
	}
	no := false
	tests := map[string]struct {
		in       string
		want     Config
		warnings []string
		err      string
	}{
		"invalid selector":               {in: `{"capi":{"clusterSelector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}}`, err: "capi.clusterSelector"},
		"invalid selector of namespaces": {in: `{"capi":{"namespaceSelector":{"matchLabels":{"a b":"c"}}}}`, err: "capi.namespaceSelector"},
		"invalid network":                {in: `{"refusedKubeconfigCIDRs":["10.96.0.0/12","10.96.0.1"]}`, err: "refusedKubeconfigCIDRs[1]: netip.ParsePrefix"},
		"empty: defaults":                {in: "", want: base},
		"empty mapping: defaults":        {in: "{}", want: base},
		"JSON of the chart": {
			in: `{"systemDefaultRegistry":"r/","agentImage":"r/fleet-agent:x","agentImagePullPolicy":"IfNotPresent","apiServerURL":"https://hub",` +
				`"apiServerCA":"` + base64.StdEncoding.EncodeToString([]byte("PEM")) + `","agentCheckinInterval":"15m","agentTLSMode":"system-store",` +
				`"agentWorkers":{"bundledeployment":"50","drift":"40"},"garbageCollectionInterval":"20m","ignoreClusterRegistrationLabels":true,` +
				`"bootstrap":{"namespace":"fleet-local","clusterLabels":{"a":"b"},"localAgentDisabled":true,"branch":"master"},"webhookReceiverURL":"","manageAgent":false,"imagePullSecrets":[{"name":"p"}]}`,
			want: Config{
				SystemDefaultRegistry: "r/", AgentImage: "r/fleet-agent:x", AgentImagePullPolicy: "IfNotPresent", APIServerURL: "https://hub", APIServerCA: []byte("PEM"),
				AgentCheckinInterval: minutes(15), AgentTLSMode: TLSModeSystemStore, AgentWorkers: AgentWorkers{BundleDeployment: "50", Drift: "40"},
				GarbageCollectionInterval: minutes(20), IgnoreClusterRegistrationLabels: true, ManageAgent: &no,
				Bootstrap:        Bootstrap{Namespace: "fleet-local", ClusterLabels: map[string]string{"a": "b"}, LocalAgentDisabled: true, Branch: "master"},
				GitClientTimeout: metav1.Duration{Duration: 30 * time.Second}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "p"}},
			},
		},
		"YAML": {in: "apiServerURL: https://hub\nagentCheckinInterval: 90s\n", want: with(func(c *Config) {
			c.APIServerURL, c.AgentCheckinInterval = "https://hub", metav1.Duration{Duration: 90 * time.Second}
		})},
		"duration in days: ignored and reported": {
			in: "agentCheckinInterval: 1d\napiServerURL: u", want: with(func(c *Config) { c.APIServerURL = "u" }),
			warnings: []string{"agentCheckinInterval: 1d is not a duration like 15m or 30s; using the default"},
		},
		"duration without a unit: ignored and reported": {
			in: "gitClientTimeout: 5", want: base,
			warnings: []string{"gitClientTimeout: 5 is not a duration like 15m or 30s; using the default"},
		},
		"zero without a unit: ignored silently": {in: "garbageCollectionInterval: 0", want: base},
		"zero with a unit: accepted":            {in: `agentCheckinInterval: "0"`, want: base},
		"all invalid durations are reported": {
			in: "agentCheckinInterval: bad\ngarbageCollectionInterval: 7d12h", want: base,
			warnings: []string{
				"agentCheckinInterval: bad is not a duration like 15m or 30s; using the default",
				"garbageCollectionInterval: 7d12h is not a duration like 15m or 30s; using the default",
			},
		},
		"unknown key: ignored":            {in: "noSuchKey: {a: b}", want: base},
		"list: an error":                  {in: "- a\n- b", err: "reading the configuration"},
		"text: an error":                  {in: "hello", err: "reading the configuration"},
		"wrong type: an error":            {in: "bootstrap: 5", err: "reading the configuration"},
		"CA that is not base64: an error": {in: "apiServerCA: '???'", err: "reading the configuration"},
		"invalid YAML: an error":          {in: "a: [", err: "reading the configuration"},
		"duration is null: default":       {in: "agentCheckinInterval: null", want: base},
		"duration is a list: ignored":     {in: "gitClientTimeout: [1]", want: base, warnings: []string{"gitClientTimeout: [1] is not a duration like 15m or 30s; using the default"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, warnings, err := Parse([]byte(test.in), base)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAgentEncode_MatchesTheRecording(t *testing.T) {
	tests := map[string]struct {
		in   Agent
		want string
	}{
		"the recorded cluster east": {
			in: Agent{
				Labels: map[string]string{"env": "dev"}, ClientID: "kskbsmnqrf4zv8bx27pndmghfxxz9mxpd8mtccqdmnrvdwzslrxzlv",
				AgentTLSMode: TLSModeSystemStore, GarbageCollectionInterval: minutes(15),
			},
			want: `{"labels":{"env":"dev"},"clientID":"kskbsmnqrf4zv8bx27pndmghfxxz9mxpd8mtccqdmnrvdwzslrxzlv","agentTLSMode":"system-store","garbageCollectionInterval":"15m0s"}`,
		},
		"nothing": {want: `{}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := test.in.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			back, _, err := ParseAgent(got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.in, back); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseAgent(t *testing.T) {
	tests := map[string]struct {
		in       string
		want     Agent
		warnings int
		err      string
	}{
		"nothing": {},
		"the recorded chart's ConfigMap": {
			in:   "{\n  \n  \"labels\":{\"env\":\"prod\"},\n  \n  \"clientID\":\"\",\n  \n  \"garbageCollectionInterval\": \"15m\",\n  \n  \"agentTLSMode\": \"system-store\"\n}",
			want: Agent{Labels: map[string]string{"env": "prod"}, AgentTLSMode: TLSModeSystemStore, GarbageCollectionInterval: minutes(15)},
		},
		"invalid duration: default": {in: `{"clientID":"c","garbageCollectionInterval":"1w"}`, want: Agent{ClientID: "c"}, warnings: 1},
		"labels without quotes: texts": {
			in:   `{"labels":{"prod":true,"ring":1,"weight":0.5,"build":1234567},"clientID":"c"}`,
			want: Agent{Labels: map[string]string{"prod": "true", "ring": "1", "weight": "0.5", "build": "1234567"}, ClientID: "c"},
		},
		"a list is an error":         {in: "[]", err: "reading the agent's configuration"},
		"labels of the wrong type":   {in: "labels: 5", err: "reading the agent's configuration"},
		"labels are null: no labels": {in: "labels: null", want: Agent{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, warnings, err := ParseAgent(test.in)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(warnings) != test.warnings {
				t.Errorf("got warnings %q, want %d", warnings, test.warnings)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "{}", "[]", "agentCheckinInterval: 1d", "bootstrap: {namespace: a}", "apiServerCA: aGk=", "a: &a [*a]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, document string) {
		got, _, err := Parse([]byte(document), Default("v"))
		if err != nil && !cmp.Equal(got, Config{}) {
			t.Errorf("an error came with a configuration: %+v", got)
		}
		if _, _, err := ParseAgent(document); err != nil && err.Error() == "" {
			t.Error("an error says nothing")
		}
	})
}

func TestStore(t *testing.T) {
	store := NewStore(Default("v1"))
	var seen []string
	store.OnChange(func(old, current Config) { seen = append(seen, "first:"+old.APIServerURL+">"+current.APIServerURL) })
	store.OnChange(func(_, current Config) { seen = append(seen, "second:"+current.APIServerURL) })

	if store.Loaded() {
		t.Error("loaded before the first Set")
	}
	if !store.Set(Config{APIServerURL: "a"}) || !store.Set(Config{APIServerURL: "b"}) {
		t.Error("a change was not reported")
	}
	if store.Set(Config{APIServerURL: "b"}) {
		t.Error("the same configuration was reported as a change")
	}
	if diff := cmp.Diff([]string{"first:>a", "second:a", "first:a>b", "second:b"}, seen); diff != "" {
		t.Errorf("notified (-want +got):\n%s", diff)
	}
	if got := store.Get().APIServerURL; got != "b" || !store.Loaded() {
		t.Errorf("holds %q, loaded %v", got, store.Loaded())
	}
}

func TestStore_FirstSetNotifiesEvenIfEqualToTheDefault(t *testing.T) {
	store, told := NewStore(Default("v1")), false
	store.OnChange(func(_, _ Config) { told = true })
	if !store.Set(Default("v1")) || !told {
		t.Error("the first configuration was not announced")
	}
}

func TestVersionGate(t *testing.T) {
	tests := map[string]struct {
		loaded      bool
		annotations map[string]string
		refused     bool
	}{
		"start, any version: accepted":      {annotations: map[string]string{fleet.AnnotationVersion: "v0"}},
		"start, no version: accepted":       {},
		"running, own version: accepted":    {loaded: true, annotations: map[string]string{fleet.AnnotationVersion: "v1"}},
		"running, another version: refused": {loaded: true, annotations: map[string]string{fleet.AnnotationVersion: "v2"}, refused: true},
		"running, no version: refused":      {loaded: true, refused: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store := NewStore(Default("v1"))
			if test.loaded {
				store.Set(Config{})
			}
			if err := store.Accepts(test.annotations, "v1"); (err != nil) != test.refused {
				t.Errorf("got %v, want refused=%v", err, test.refused)
			}
		})
	}
}

func TestBootstrapEnabled(t *testing.T) {
	for namespace, want := range map[string]bool{"": false, "-": false, "fleet-local": true} {
		if got := (Bootstrap{Namespace: namespace}).Enabled(); got != want {
			t.Errorf("namespace %q: got %v", namespace, got)
		}
	}
}
