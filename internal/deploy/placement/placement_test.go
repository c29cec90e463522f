package placement

import (
	"strings"
	"testing"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestReleaseFor(t *testing.T) {
	tests := map[string]struct {
		name    string
		options fleet.BundleDeploymentOptions
		want    string
	}{
		"no options":                {"hello", fleet.BundleDeploymentOptions{}, "default/hello"},
		"the default namespace":     {"hello", fleet.BundleDeploymentOptions{DefaultNamespace: "a"}, "a/hello"},
		"the target namespace wins": {"hello", fleet.BundleDeploymentOptions{DefaultNamespace: "a", TargetNamespace: "b"}, "b/hello"},
		"a release name":            {"hello", fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{ReleaseName: "x"}}, "default/x"},
		"a name that Helm refuses":  {"my.bundle", fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{}}, "default/my-bundle-747e8d19"},
		"a long name":               {strings.Repeat("a", 60), fleet.BundleDeploymentOptions{}, "default/" + strings.Repeat("a", 47) + "-cc7ed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ReleaseOf(test.name, &test.options).String(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestParseRelease(t *testing.T) {
	tests := map[string]struct {
		text     string
		key      Release
		revision int
		ok       bool
	}{
		"a release":                    {"web/hello:3", Release{"web", "hello"}, 3, true},
		"a name with dots":             {"web/a.b:10", Release{"web", "a.b"}, 10, true},
		"nothing":                      {"", Release{}, 0, false},
		"no namespace":                 {"/hello:1", Release{}, 0, false},
		"no name":                      {"web/:1", Release{}, 0, false},
		"no revision":                  {"web/hello", Release{}, 0, false},
		"revision 0":                   {"web/hello:0", Release{}, 0, false},
		"revision with a leading zero": {"web/hello:01", Release{}, 0, false},
		"a negative revision":          {"web/hello:-1", Release{}, 0, false},
		"revision is not a number":     {"web/hello:x", Release{}, 0, false},
		"more than a name":             {"web/a/b:1", Release{}, 0, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			key, revision, ok := ParseRelease(test.text)
			if key != test.key || revision != test.revision || ok != test.ok {
				t.Errorf("got %v %d %t", key, revision, ok)
			}
			if ok && key.At(revision) != test.text {
				t.Errorf("written again it is %q", key.At(revision))
			}
		})
	}
}

func TestSetFor(t *testing.T) {
	tests := map[string]struct {
		name, scope string
		want        Set
	}{
		"a bundle":                {"remove-metadata", "", Set{"default-remove-metadata", "0f3e1d9d146fa8b290c0de403881184751430e59", false}},
		"a recorded bundle":       {"hello", "", Set{"default-hello", "2d590309bb1a09cde3e2987efdba74ce39916388", false}},
		"another recorded bundle": {"raw", "", Set{"default-raw", "77bbdffd2b909c712b835b3ab5c370f921b0ac3b", false}},
		"a user's bundle with a name like the agent's": {"fleet-agent-nginx", "", newSet("default-fleet-agent-nginx")},
		"the agent's own":           {"fleet-agent-east", "", Set{"fleet-agent-bootstrap", "f399d0b310fbfb28e9667312fdc7a33954e2b8c8", true}},
		"the agent's under a scope": {"fleet-agent-east", "cattle-fleet-local-system", Set{"fleet-agent-bootstrap-cattle-fleet-local-system", "362023f752e7f1989d8b652e029bd2c658ae7c44", true}},
		"a bundle under a scope":    {"hello", "s", Set{"default-hello-s", "016f0d7f8547c7f7e484ca4881ba9bb5a8661818", false}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := SetOf(test.name, test.scope)
			if test.name == "fleet-agent-east" {
				got = AgentSet(test.scope)
			}
			if got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestRenderedSet_HasNoPrefix(t *testing.T) {
	if got, want := RenderedSet("demo-app"), (Set{"-demo-app", "bc56e25b9b1de874dc2aad1e5ec888bd8b455f37", false}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
