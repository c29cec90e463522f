package node

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestInitialize_SetsTheProviderIDOnce(t *testing.T) {
	const id = "lab://ns/m1"
	taint := corev1.Taint{Key: Uninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule}
	other := corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule}
	tests := map[string]struct {
		spec  corev1.NodeSpec
		patch string
		err   string
	}{
		"new Node: ID is set, taint is removed": {
			corev1.NodeSpec{Taints: []corev1.Taint{taint, other}},
			`{"metadata":{"resourceVersion":"7"},"spec":{"providerID":"lab://ns/m1","taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}]}}`, "",
		},
		"ID without taint: nothing to do": {corev1.NodeSpec{ProviderID: id, Taints: []corev1.Taint{other}}, "", ""},
		"ID with taint: taint is removed": {
			corev1.NodeSpec{ProviderID: id, Taints: []corev1.Taint{taint}},
			`{"metadata":{"resourceVersion":"7"},"spec":{"providerID":"lab://ns/m1","taints":[]}}`, "",
		},
		"another ID: refused": {corev1.NodeSpec{ProviderID: "lab://ns/m2"}, "", `node worker has provider ID "lab://ns/m2", want "lab://ns/m1"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker", ResourceVersion: "7"}, Spec: test.spec}
			before := node.DeepCopy()
			patch, err := Initialize(node, id)
			if (err == nil) != (test.err == "") || err != nil && !strings.HasPrefix(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if diff := cmp.Diff(test.patch, string(patch)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, node); diff != "" {
				t.Errorf("the Node was changed (-before +after):\n%s", diff)
			}
		})
	}
}
