package install

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestDesired_MarksAllObjectsAsOneSet(t *testing.T) {
	rendered := []runtime.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "fleet-agent", Labels: map[string]string{"a": "b"}}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "fleet-agent"}},
	}
	tests := map[string]struct{ setID, hash string }{
		"the default set":       {"fleet-agent-bootstrap", "f399d0b310fbfb28e9667312fdc7a33954e2b8c8"},
		"the set of a scope":    {"fleet-agent-bootstrap-cattle-fleet-local-system", "362023f752e7f1989d8b652e029bd2c658ae7c44"},
		"a set of another name": {"x", "11f6ad8ec52a2984abaafd7c3b516503785c2072"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			deploy := &importing.AgentDeployment{SetID: test.setID, Values: importing.AgentValues{Namespace: "ns"}}
			var got []string
			for _, object := range desired(deploy, rendered) {
				m, err := meta.Accessor(object)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%T %s/%s %s %s %s", object, m.GetNamespace(), m.GetName(),
					m.GetLabels()["a"], m.GetLabels()[fleet.LabelSetHash], m.GetAnnotations()[fleet.AnnotationSetID]))
			}
			want := []string{
				"*v1.Namespace /ns  " + test.hash + " " + test.setID,
				"*v1.ConfigMap ns/fleet-agent b " + test.hash + " " + test.setID,
				"*v1.ServiceAccount ns/fleet-agent  " + test.hash + " " + test.setID,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if labels := rendered[0].(*corev1.ConfigMap).Labels; len(labels) != 1 {
		t.Errorf("the rendered object was written to: %v", labels)
	}
}

// An agent that runs already registers as soon as it sees the Secret, and reads the ConfigMap after that.
func TestDesired_AppliesTheConfigMapBeforeTheBootstrapSecret(t *testing.T) {
	rendered := []runtime.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.ServiceAccount{}}
	var got []string
	for _, object := range desired(&importing.AgentDeployment{}, rendered) {
		got = append(got, fmt.Sprintf("%T", object))
	}
	if diff := cmp.Diff([]string{"*v1.Namespace", "*v1.ConfigMap", "*v1.Secret", "*v1.ServiceAccount"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The Bundle of an agent contains these objects until its Cluster gets a kubeconfig, and would delete them.
func TestKept_AnnotatesOnlyPriorityClassAndBudget(t *testing.T) {
	rendered := []runtime.Object{&corev1.ConfigMap{}, &schedulingv1.PriorityClass{}, &policyv1.PodDisruptionBudget{}}
	got := map[string]string{}
	for _, object := range kept(desired(&importing.AgentDeployment{}, rendered)) {
		m, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		got[fmt.Sprintf("%T", object)] = m.GetAnnotations()[resourcePolicy]
	}
	want := map[string]string{"*v1.Namespace": "", "*v1.ConfigMap": "", "*v1.PriorityClass": "keep", "*v1.PodDisruptionBudget": "keep"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
