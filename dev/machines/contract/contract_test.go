package contract_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/contract"
)

func TestContract_Pausing(t *testing.T) {
	paused, running := true, false
	annotated := &metav1.ObjectMeta{Annotations: map[string]string{clusterv1.PausedAnnotation: ""}}
	for _, c := range []struct {
		name    string
		cluster *clusterv1.Cluster
		object  metav1.Object
		want    bool
	}{
		{"no Cluster, no annotation: not paused", nil, &metav1.ObjectMeta{}, false},
		{"no Cluster, annotation with empty value: paused", nil, annotated, true},
		{"paused Cluster: paused", &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: &paused}}, &metav1.ObjectMeta{}, true},
		{"Cluster with paused false: not paused", &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: &running}}, &metav1.ObjectMeta{}, false},
		{"running Cluster, annotation: paused", &clusterv1.Cluster{}, annotated, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := contract.IsPaused(c.cluster, c.object); got != c.want {
				t.Errorf("IsPaused = %v, want %v", got, c.want)
			}
		})
	}
}

func TestContract_ExternallyManagedInfrastructure(t *testing.T) {
	mark := map[string]string{clusterv1.ManagedByAnnotation: ""}
	if contract.IsExternallyManaged(&metav1.ObjectMeta{}) {
		t.Error("an object without mark is externally managed")
	}
	if !contract.IsExternallyManaged(&metav1.ObjectMeta{Labels: mark}) || !contract.IsExternallyManaged(&metav1.ObjectMeta{Annotations: mark}) {
		t.Error("an object with the mark is not externally managed")
	}
}

func TestOwner(t *testing.T) {
	own := func(apiVersion, kind string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "other"}, {APIVersion: apiVersion, Kind: kind, Name: "a", UID: "1"},
		}}
	}
	for _, c := range []struct {
		name   string
		object metav1.Object
		want   string
	}{
		{"no owner", &metav1.ObjectMeta{}, ""},
		{"Machine of the core", own("cluster.x-k8s.io/v1beta2", "Machine"), "a"},
		{"Machine in an older version", own("cluster.x-k8s.io/v1beta1", "Machine"), "a"},
		{"Machine of another group", own("example.com/v1", "Machine"), ""},
		{"another kind of the core", own("cluster.x-k8s.io/v1beta2", "MachineSet"), ""},
		{"invalid version", own("a/b/c", "Machine"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got string
			if owner := contract.Owner(c.object, "Machine"); owner != nil {
				got = owner.Name
			}
			if got != c.want {
				t.Errorf("owner %q, want %q", got, c.want)
			}
		})
	}
}

func TestSetCondition_KeepsTheTimeAndCutsTheMessage(t *testing.T) {
	var conditions []metav1.Condition
	first := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	set := func(at time.Time, status metav1.ConditionStatus, message string) {
		contract.SetCondition(&conditions, at, metav1.Condition{Type: "Ready", Status: status, Reason: "A", Message: message})
	}
	set(first, metav1.ConditionFalse, strings.Repeat("ü", 2000))
	if got := len([]rune(conditions[0].Message)); got != 1025 {
		t.Errorf("message has %d characters, want 1025", got)
	}
	set(first.Add(time.Hour), metav1.ConditionFalse, "b")
	if !conditions[0].LastTransitionTime.Time.Equal(first) {
		t.Error("the time changed without the status")
	}
	set(first.Add(time.Hour), metav1.ConditionTrue, "")
	if !conditions[0].LastTransitionTime.Time.Equal(first.Add(time.Hour)) {
		t.Error("the time did not change with the status")
	}
}
