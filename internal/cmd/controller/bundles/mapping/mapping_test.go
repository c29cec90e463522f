package mapping

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestTrouble(t *testing.T) {
	good := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Resembles"}}}
	const stays = "; correct that selector: until then, what was deployed through the mapping stays as it is"
	tests := map[string]struct {
		bundles, namespaces *metav1.LabelSelector
		reason, message     string
	}{
		"none":                        {good, good, "", ""},
		"empty selectors: no trouble": {&metav1.LabelSelector{}, &metav1.LabelSelector{}, "", ""},
		"one selector is missing": {
			good, nil, "MappingIncomplete",
			"BundleNamespaceMapping m: both bundleSelector and namespaceSelector must be set; as it is, the mapping does nothing",
		},
		"the selector of Bundles does not parse": {
			bad, good, "SelectorInvalid",
			`BundleNamespaceMapping m: bundleSelector: invalid label selector: "Resembles" is not a valid label selector operator` + stays,
		},
		"the selector of namespaces does not parse": {
			good, bad, "SelectorInvalid",
			`BundleNamespaceMapping m: namespaceSelector: invalid label selector: "Resembles" is not a valid label selector operator` + stays,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := &fleet.BundleNamespaceMapping{ObjectMeta: metav1.ObjectMeta{Name: "m"}, BundleSelector: test.bundles, NamespaceSelector: test.namespaces}
			reason, message := trouble(in, nil)
			if reason != test.reason || message != test.message {
				t.Errorf("trouble = %s: %s\nwant %s: %s", reason, message, test.reason, test.message)
			}
			if strings.Contains(message, "\n") {
				t.Error("the message has several lines")
			}
		})
	}
}

func TestTrouble_RefusedMappingNamesTheWorkspaces(t *testing.T) {
	namespace := func(name string, annotations map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	}
	accepting := func(list string) map[string]string { return map[string]string{annotation.AcceptBundlesFrom: list} }
	in := &fleet.BundleNamespaceMapping{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "m"}, BundleSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{},
	}
	reason, message := trouble(in, []*corev1.Namespace{namespace("open", nil), namespace("friend", accepting("other, ws")), namespace("ws", accepting("none"))})
	if reason != "" {
		t.Errorf("trouble = %s: %s", reason, message)
	}
	reason, message = trouble(in, []*corev1.Namespace{namespace("open", nil), namespace("shut", accepting("none")), namespace("picky", accepting("other"))})
	want := "workspaces that do not accept Bundles of ws: picky, shut. To accept them, an owner of each Namespace adds ws " +
		"to its annotation: kubectl annotate namespace picky --overwrite fleet.cattle.io/accept-bundles-from=OTHERS,ws"
	if reason != conditions.ReasonMappingRefused || message != want {
		t.Errorf("trouble = %s: %s\nwant %s", reason, message, want)
	}
}
