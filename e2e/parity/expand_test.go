package parity_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/parity"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const agentYAML = `kind: ServiceAccount
metadata: {name: fleet-agent, namespace: system}

---
kind: ClusterRole
metadata: {name: role}
`

// agentObjects returns the objects of agentYAML.
func agentObjects(t *testing.T) map[string]any {
	return map[string]any{
		"ServiceAccount system/fleet-agent": parsed(t, "{kind: ServiceAccount, metadata: {name: fleet-agent, namespace: system}}"),
		"ClusterRole /role":                 parsed(t, "{kind: ClusterRole, metadata: {name: role}}"),
	}
}

func TestExpand_DecodesKnownParts(t *testing.T) {
	resources := []fleet.BundleResource{{Name: "agent.yaml", Content: agentYAML}, {Name: "cm.yaml", Content: "kind: ConfigMap\n"}}
	expanded := []any{
		map[string]any{"name": "agent.yaml", "content": agentObjects(t)},
		map[string]any{"name": "cm.yaml", "content": "kind: ConfigMap\n"},
	}
	stored := content.Object(content.Manifest{Resources: resources})
	tests := map[string]struct{ is, want map[string]any }{
		"empty annotations: removed": {
			is:   parsed(t, "{kind: Role, metadata: {name: r, annotations: {}}}"),
			want: parsed(t, "{kind: Role, metadata: {name: r}}"),
		},
		"annotations: kept": {
			is:   parsed(t, "{kind: Role, metadata: {annotations: {a: ''}}}"),
			want: parsed(t, "{kind: Role, metadata: {annotations: {a: ''}}}"),
		},
		"configuration: decoded": {
			is:   map[string]any{"kind": "ConfigMap", "data": map[string]any{"config": `{"labels":{"env":"dev"},"n":1}`, "other": "{}"}},
			want: map[string]any{"kind": "ConfigMap", "data": map[string]any{"config": map[string]any{"labels": map[string]any{"env": "dev"}, "n": 1.0}, "other": "{}"}},
		},
		"other ConfigMap: unchanged": {
			is:   parsed(t, "{kind: ConfigMap, data: {greeting: hi}}"),
			want: parsed(t, "{kind: ConfigMap, data: {greeting: hi}}"),
		},
		"zero counts of a BundleDeployment: removed": {
			is:   parsed(t, "{kind: BundleDeployment, status: {resourceCounts: {ready: 6, notReady: 0}, syncGeneration: 0}}"),
			want: parsed(t, "{kind: BundleDeployment, status: {resourceCounts: {ready: 6}, syncGeneration: 0}}"),
		},
		"zero counts of a Cluster: kept": {
			is:   parsed(t, "{kind: Cluster, status: {resourceCounts: {ready: 6, notReady: 0}}}"),
			want: parsed(t, "{kind: Cluster, status: {resourceCounts: {ready: 6, notReady: 0}}}"),
		},
		"agent's Bundle: one entry per object": {
			is:   plain(t, map[string]any{"kind": "Bundle", "spec": map[string]any{"resources": resources}}),
			want: map[string]any{"kind": "Bundle", "spec": map[string]any{"resources": expanded}},
		},
		"agent's Content: one entry per object": {
			is: plain(t, stored),
			want: map[string]any{
				"apiVersion": "fleet.cattle.io/v1alpha1", "kind": "Content", "sha256sum": stored.SHA256Sum,
				"metadata": map[string]any{"name": stored.Name}, "status": map[string]any{},
				"content": map[string]any{"resources": expanded},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := runtime.DeepCopyJSON(test.is)
			got, err := parity.Expand(parity.Object{Cluster: "hub", Fields: test.is})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parity.Object{Cluster: "hub", Fields: test.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.is); diff != "" {
				t.Errorf("the original object was changed:\n%s", diff)
			}
		})
	}
}

// plain returns a value as JSON represents it.
func plain(t *testing.T, value any) map[string]any {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, string(text))
}

func TestExpandInvalidObject_NamesTheObject(t *testing.T) {
	tests := map[string]string{
		"configuration is not JSON":    "{kind: ConfigMap, metadata: {name: x}, data: {config: '{'}}",
		"Content has a wrong hash":     "{kind: Content, metadata: {name: x}, sha256sum: no, content: aGVsbG8=}",
		"agent's manifest is not YAML": "{kind: Bundle, metadata: {name: x}, spec: {resources: [{name: agent.yaml, content: '{'}]}}",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parity.Expand(on(t, "hub", text))
			if err == nil || !strings.Contains(err.Error(), "/x") {
				t.Errorf("%v does not name the object", err)
			}
		})
	}
}
