package crds_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/crds"
)

// crd is one with these properties of its root, as YAML.
func crd(t *testing.T, properties string) *apiextensions.CustomResourceDefinition {
	t.Helper()
	return whole(t, "versions: [{name: v1alpha1, served: true, schema: {openAPIV3Schema: {type: object, properties: "+properties+"}}}]")
}

// whole is a CRD with this spec, as YAML.
func whole(t *testing.T, spec string) *apiextensions.CustomResourceDefinition {
	t.Helper()
	var found apiextensions.CustomResourceDefinition
	if err := yaml.UnmarshalStrict([]byte(spec), &found.Spec); err != nil {
		t.Fatal(err)
	}
	return &found
}

func TestMissing_ListsFieldsThatTheServerDrops(t *testing.T) {
	tests := map[string]struct {
		ours, served string
		want         []string
	}{
		"the same":            {"{spec: {properties: {a: {type: string}}}}", "{spec: {properties: {a: {type: string}}}}", nil},
		"served CRD is newer": {"{spec: {properties: {a: {}}}}", "{spec: {properties: {a: {}, b: {}}}, status: {}}", nil},
		"a new field":         {"{spec: {properties: {a: {}, b: {}}}}", "{spec: {properties: {a: {}}}}", []string{"spec.b"}},
		"several, sorted":     {"{spec: {properties: {c: {}, b: {}, a: {}}}}", "{spec: {properties: {b: {}}}}", []string{"spec.a", "spec.c"}},
		"fields below a missing field are not listed": {"{status: {properties: {a: {properties: {b: {}}}}}}", "{spec: {}}", []string{"status"}},
		"other type is not compared":                  {"{spec: {properties: {a: {type: string}}}}", "{spec: {properties: {a: {type: integer}}}}", nil},
		"apiVersion, kind and metadata of the root":   {"{apiVersion: {}, kind: {}, metadata: {}, spec: {}}", "{spec: {}}", nil},
		"kind of another object": {
			"{spec: {properties: {kind: {}}}}", "{spec: {type: object}}", []string{"spec.kind"},
		},
		"an embedded object": {
			"{spec: {properties: {template: {x-kubernetes-embedded-resource: true, properties: {kind: {}, spec: {}}}}}}",
			"{spec: {properties: {template: {x-kubernetes-embedded-resource: true, properties: {spec: {}}}}}}", nil,
		},
		"a field of a list's items": {
			"{spec: {properties: {targets: {items: {properties: {name: {}, new: {}}}}}}}",
			"{spec: {properties: {targets: {items: {properties: {name: {}}}}}}}", []string{"spec.targets[].new"},
		},
		"a list served as another type": {
			"{spec: {properties: {targets: {items: {properties: {name: {}}}}}}}", "{spec: {properties: {targets: {type: string}}}}", []string{"spec.targets[].name"},
		},
		"a list of texts": {
			"{spec: {properties: {paths: {items: {type: string}}}}}", "{spec: {properties: {paths: {items: {type: string}}}}}", nil,
		},
		"a field of a map's values": {
			"{spec: {properties: {by: {additionalProperties: {properties: {a: {}, b: {}}}}}}}",
			"{spec: {properties: {by: {additionalProperties: {properties: {a: {}}}}}}}", []string{"spec.by.*.b"},
		},
		"a map served as an object with fields": {
			"{spec: {properties: {labels: {additionalProperties: {type: string}}}}}", "{spec: {properties: {labels: {properties: {a: {}}}}}}", []string{"spec.labels.*"},
		},
		"a map of anything": {
			"{spec: {properties: {labels: {additionalProperties: {type: string}}}}}", "{spec: {properties: {labels: {additionalProperties: true}}}}", nil,
		},
		"fields where a map is served": {
			"{spec: {properties: {a: {properties: {x: {properties: {y: {}, z: {}}}}}}}}",
			"{spec: {properties: {a: {additionalProperties: {properties: {y: {}}}}}}}", []string{"spec.a.x.z"},
		},
		"fields where a map of anything is served": {
			"{spec: {properties: {a: {properties: {x: {properties: {y: {}}}}}}}}", "{spec: {properties: {a: {additionalProperties: true}}}}", nil,
		},
		"fields where no more are allowed": {
			"{spec: {properties: {a: {properties: {x: {}}}}}}", "{spec: {properties: {a: {additionalProperties: false}}}}", []string{"spec.a.x"},
		},
		"served schema keeps unknown fields": {
			"{spec: {properties: {a: {properties: {b: {items: {properties: {c: {}}}}}}}}}", "{spec: {x-kubernetes-preserve-unknown-fields: true}}", nil,
		},
		"only ours keeps unknown fields": {
			"{spec: {properties: {values: {x-kubernetes-preserve-unknown-fields: true}}}}", "{spec: {properties: {values: {type: object}}}}", []string{"spec.values.*"},
		},
		"both keep unknown fields": {
			"{spec: {properties: {values: {x-kubernetes-preserve-unknown-fields: true}}}}", "{spec: {properties: {values: {x-kubernetes-preserve-unknown-fields: true}}}}", nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := crds.Missing(crd(t, test.ours), crd(t, test.served))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMissing_ListsVersionsAndSubresources(t *testing.T) {
	const schema = "schema: {openAPIV3Schema: {properties: {spec: {}}}}"
	tests := map[string]struct {
		ours, served string
		want         []string
	}{
		"version does not exist":                {"versions: [{name: v1, served: true}]", "versions: [{name: v2, served: true}]", []string{"version v1"}},
		"version is not served":                 {"versions: [{name: v1, served: true}]", "versions: [{name: v1, served: false}]", []string{"version v1"}},
		"our version is not served either":      {"versions: [{name: v1, served: false}]", "versions: []", nil},
		"each version has its own schema":       {"versions: [{name: v1, served: true, " + schema + "}]", "versions: [{name: v2, served: true, " + schema + "}, {name: v1, served: true}]", []string{"spec"}},
		"no status subresource":                 {"versions: [{name: v1, served: true, subresources: {status: {}}}]", "versions: [{name: v1, served: true}]", []string{"subresource status"}},
		"additional status subresource":         {"versions: [{name: v1, served: true}]", "versions: [{name: v1, served: true, subresources: {status: {}}}]", nil},
		"old CRD that preserves unknown fields": {"versions: [{name: v1, served: true, " + schema + "}]", "preserveUnknownFields: true\nversions: [{name: v1, served: true}]", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, crds.Missing(whole(t, test.ours), whole(t, test.served))); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRecordedCRDs_LackOnlyOurAdditions compares the embedded CRDs with the recorded CRDs of Rancher Fleet.
func TestRecordedCRDs_LackOnlyOurAdditions(t *testing.T) {
	decided := map[string][]string{
		"bundles.fleet.cattle.io":                   {"status.unreachable"},
		"clusterregistrations.fleet.cattle.io":      {"status.conditions"},
		"clusterregistrationtokens.fleet.cattle.io": {"status.conditions", "status.defaultTTL"},
		"clusters.fleet.cattle.io": {
			"status.agent.agentVersion", "status.agent.credentialExpires", "status.agent.hubSerial", "status.agent.kubernetesVersion", "status.agent.nodes",
			"status.agent.platform", "status.agent.readyNodes", "status.agent.recoveryKey", "status.agent.recoveryTicket",
		},
	}
	embedded, err := crds.Embedded(charts.FS)
	if err != nil {
		t.Fatal(err)
	}
	if len(embedded) != 8 {
		t.Fatalf("%d kinds", len(embedded))
	}
	for _, ours := range embedded {
		t.Run(ours.Name, func(t *testing.T) {
			plural, _, _ := strings.Cut(ours.Name, ".")
			text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "recorded", "crds", plural+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			recorded := whole(t, string(text))
			if diff := cmp.Diff(decided[ours.Name], crds.Missing(&ours, recorded)); diff != "" {
				t.Errorf("the recorded CRD lacks (-decided +got):\n%s", diff)
			}
			if got := crds.Missing(recorded, &ours); got != nil {
				t.Errorf("ours lacks %v: existing objects would lose these fields", got)
			}
			if got := crds.Missing(&ours, &ours); got != nil {
				t.Errorf("it lacks %v of itself", got)
			}
		})
	}
}

func TestEmbedded_NamesTheUnreadableFile(t *testing.T) {
	broken := fstest.MapFS{crds.Folder + "/a.yaml": {Data: []byte("- no\n- crd\n")}}
	if _, err := crds.Embedded(broken); err == nil || !strings.Contains(err.Error(), "a.yaml") {
		t.Errorf("error %v", err)
	}
	if found, err := crds.Embedded(fstest.MapFS{}); err != nil || len(found) != 0 {
		t.Errorf("%v %v", found, err)
	}
}

func BenchmarkEmbedded(b *testing.B) {
	for b.Loop() {
		if _, err := crds.Embedded(charts.FS); err != nil {
			b.Fatal(err)
		}
	}
}
