package joining_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/capi/joining"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
)

func from(uid types.UID) *capi.Cluster {
	return &capi.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "east", UID: uid}}
}

func east() types.NamespacedName { return types.NamespacedName{Namespace: "team-a", Name: "east"} }

func TestNewSecret(t *testing.T) {
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team-a", Name: "east-fleet-join",
			Labels:          map[string]string{"fleet.cattle.io/managed": "true", "cluster.x-k8s.io/cluster-name": "east"},
			Annotations:     map[string]string{"fleet.cattle.io/capi-cluster": "team-a/east/u1"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "east", UID: "u1"}},
		},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"value": []byte("m")},
	}
	rulestest.ExpectEqual(t, "Secret", joining.NewSecret(from("u1"), "v1beta2", []byte("m")), want)
	rulestest.ExpectEqual(t, "its cluster", joining.ClusterOfSecret(want.Name), "east")
	rulestest.ExpectEqual(t, "that of another Secret", joining.ClusterOfSecret("east-kubeconfig"), "")
}

func TestNewSecret_OfALongName_HasNoInvalidLabel(t *testing.T) {
	long := from("u1")
	long.Name = "a-name-that-is-longer-than-the-sixty-three-characters-of-a-label-value"
	if value, is := joining.NewSecret(long, "v1beta2", nil).Labels[capi.LabelCluster]; is {
		t.Errorf("label %q", value)
	}
}

func TestIsForCluster(t *testing.T) {
	made := joining.NewSecret(from("u1"), "v1beta2", nil)
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "east-fleet-join"}}
	rulestest.ExpectEqual(t, "its own", joining.IsForCluster(made, east()), true)
	rulestest.ExpectEqual(t, "of a user", joining.IsForCluster(foreign, east()), false)
	rulestest.ExpectEqual(t, "copied from another cluster", joining.IsForCluster(made, types.NamespacedName{Namespace: "team-a", Name: "eas"}), false)
}

func TestMerge(t *testing.T) {
	immutable := true
	want := joining.NewSecret(from("u1"), "v1beta2", []byte("m"))
	tests := map[string]struct {
		change         func(*corev1.Secret)
		differs, fixed bool
	}{
		"as it has to be":       {change: func(*corev1.Secret) {}},
		"labels of others stay": {change: func(s *corev1.Secret) { s.Labels["team"] = "a" }},
		"another manifest":      {change: func(s *corev1.Secret) { s.Data["value"] = []byte("x") }, differs: true},
		"one more key":          {change: func(s *corev1.Secret) { s.Data["more"] = nil }, differs: true},
		"no label":              {change: func(s *corev1.Secret) { s.Labels = nil }, differs: true},
		"an earlier owner":      {change: func(s *corev1.Secret) { s.OwnerReferences[0].UID = "u0" }, differs: true},
		"a second owner": {change: func(s *corev1.Secret) {
			s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{Kind: "ConfigMap"})
		}, differs: true},
		"of another hub":        {change: func(s *corev1.Secret) { s.Annotations["fleet.cattle.io/capi-cluster"] = "team-a/east/u0" }, differs: true},
		"of another type":       {change: func(s *corev1.Secret) { s.Type = "t" }, fixed: true},
		"immutable":             {change: func(s *corev1.Secret) { s.Immutable = &immutable }, fixed: true},
		"explicitly not so":     {change: func(s *corev1.Secret) { s.Immutable = new(bool) }},
		"with a version":        {change: func(s *corev1.Secret) { s.ResourceVersion = "7" }},
		"with others' metadata": {change: func(s *corev1.Secret) { s.Annotations["a"] = "b" }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			live := want.DeepCopy()
			test.change(live)
			merged, differs := joining.Merge(live, want)
			rulestest.ExpectEqual(t, "differs", differs, test.differs)
			rulestest.ExpectEqual(t, "fixed", joining.IsFixed(live), test.fixed)
			rulestest.ExpectEqual(t, "data", merged.Data, want.Data)
			rulestest.ExpectEqual(t, "owners", merged.OwnerReferences, want.OwnerReferences)
			rulestest.ExpectEqual(t, "version", merged.ResourceVersion, live.ResourceVersion)
			if _, again := joining.Merge(merged, want); again {
				t.Error("the result differs again")
			}
		})
	}
}
