package reconcile

import (
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func metaOf(labels, annotations map[string]string, owners ...string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Namespace: "n", Name: "a", Labels: labels, Annotations: annotations}
	for _, owner := range owners {
		meta.OwnerReferences = append(meta.OwnerReferences, metav1.OwnerReference{Kind: "Cluster", Name: owner, UID: types.UID("uid-" + owner)})
	}
	return meta
}

func TestPatchFor_FindsWhatDiffers(t *testing.T) {
	role := func(verbs ...string) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metaOf(map[string]string{"a": "b"}, nil), Rules: []rbacv1.PolicyRule{{Verbs: verbs}}}
	}
	labelled := func(labels map[string]string, annotations map[string]string, owners ...string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metaOf(labels, annotations, owners...)}
	}
	secret := func(kind corev1.SecretType, value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metaOf(nil, nil), Type: kind, Data: map[string][]byte{"k": []byte(value)}}
	}
	binding := func(role string) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{ObjectMeta: metaOf(nil, nil), RoleRef: rbacv1.RoleRef{Name: role}}
	}
	cluster := func(client, agent string) *fleet.Cluster {
		return &fleet.Cluster{ObjectMeta: metaOf(nil, nil), Spec: fleet.ClusterSpec{ClientID: client, AgentNamespace: agent}}
	}
	bundle := func(namespace string) *fleet.Bundle {
		return &fleet.Bundle{ObjectMeta: metaOf(nil, nil), Spec: fleet.BundleSpec{BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: namespace}}}
	}
	tests := map[string]struct {
		kind          string
		owned         []path
		drops         []string
		live, desired Object
		want          bool
	}{
		"the same rules":                          {kind: "Role", live: role("get"), desired: role("get"), want: true},
		"other rules":                             {kind: "Role", live: role("get"), desired: role("get", "list")},
		"no rules: nil and empty":                 {kind: "Role", live: &rbacv1.Role{ObjectMeta: metaOf(nil, nil), Rules: []rbacv1.PolicyRule{}}, desired: &rbacv1.Role{ObjectMeta: metaOf(nil, nil)}, want: true},
		"additional label":                        {kind: "ServiceAccount", live: labelled(map[string]string{"a": "b", "c": "d"}, nil), desired: labelled(map[string]string{"a": "b"}, nil), want: true},
		"missing label":                           {kind: "ServiceAccount", live: labelled(nil, nil), desired: labelled(map[string]string{"a": "b"}, nil)},
		"another value of a label":                {kind: "ServiceAccount", live: labelled(map[string]string{"a": "c"}, nil), desired: labelled(map[string]string{"a": "b"}, nil)},
		"missing annotation":                      {kind: "ServiceAccount", live: labelled(nil, nil), desired: labelled(nil, map[string]string{"a": ""})},
		"annotation to remove":                    {kind: "ServiceAccount", drops: []string{"old"}, live: labelled(nil, map[string]string{"old": ""}), desired: labelled(nil, nil)},
		"additional owner":                        {kind: "ServiceAccount", live: labelled(nil, nil, "x"), desired: labelled(nil, nil), want: true},
		"missing owner":                           {kind: "ServiceAccount", live: labelled(nil, nil), desired: labelled(nil, nil, "x")},
		"the same Secret":                         {kind: "Secret", live: secret("t", "v"), desired: secret("t", "v"), want: true},
		"a Secret with another value":             {kind: "Secret", live: secret("t", "v"), desired: secret("t", "w")},
		"a Secret of another type":                {kind: "Secret", live: secret("t", "v"), desired: secret("u", "v")},
		"Secret without a type":                   {kind: "Secret", live: secret(corev1.SecretTypeOpaque, "v"), desired: secret("", "v"), want: true},
		"a binding to the same role":              {kind: "RoleBinding", live: binding("r"), desired: binding("r"), want: true},
		"a binding to another role":               {kind: "RoleBinding", live: binding("r"), desired: binding("s")},
		"the same spec":                           {kind: "Cluster", live: cluster("c", "n"), desired: cluster("c", "n"), want: true},
		"another spec":                            {kind: "Cluster", live: cluster("c", "n"), desired: cluster("c", "m")},
		"another field that is not ours":          {kind: "Cluster", owned: []path{{"spec", "clientID"}}, live: cluster("c", "n"), desired: cluster("c", "m"), want: true},
		"a field of ours, among others":           {kind: "Cluster", owned: []path{{"spec", "clientID"}}, live: cluster("b", "n"), desired: cluster("c", "m")},
		"a field of an embedded struct":           {kind: "Bundle", owned: []path{{"spec", "defaultNamespace"}}, live: bundle("n"), desired: bundle("n"), want: true},
		"another field of an embedded struct":     {kind: "Bundle", owned: []path{{"spec", "defaultNamespace"}}, live: bundle("n"), desired: bundle("m")},
		"a field that no object has":              {kind: "Cluster", owned: []path{{"spec", "none"}}, live: cluster("c", "n"), desired: cluster("c", "n"), want: true},
		"a field of a value that is not a struct": {kind: "Cluster", owned: []path{{"spec", "clientID", "x"}}, live: cluster("c", "n"), desired: cluster("c", "n"), want: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := Kind{owned: test.owned, drops: test.drops}
			k.gvk.Kind = test.kind
			if k.owned == nil {
				k.owned = ownedFields(test.kind)
			}
			patch, err := k.patchFor(test.live, test.desired)
			if err != nil {
				t.Fatal(err)
			}
			if same := patch == nil && !mustRecreate(test.live, test.desired); same != test.want {
				t.Errorf("as desired: %v, want %v; patch %s", same, test.want, patch)
			}
		})
	}
}

// Nil equals empty, and a time equals the same time in another zone: an API server encodes them alike.
func TestEqual(t *testing.T) {
	moment := metav1.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	elsewhere := metav1.NewTime(moment.In(time.FixedZone("there", 3600)))
	seen := func(at metav1.Time) fleet.ClusterStatus {
		return fleet.ClusterStatus{Agent: fleet.AgentStatus{LastSeen: at}}
	}
	tests := map[string]struct {
		a, b any
		want bool
	}{
		"the same":                     {seen(moment), seen(moment), true},
		"one time in two zones":        {seen(moment), seen(elsewhere), true},
		"two times":                    {seen(moment), seen(metav1.NewTime(moment.Add(time.Second))), false},
		"nil labels and empty labels":  {metaOf(nil, nil), metaOf(map[string]string{}, nil), true},
		"other labels":                 {metaOf(map[string]string{"a": "b"}, nil), metaOf(map[string]string{"a": "c"}, nil), false},
		"pointers to equal values":     {&fleet.ClusterStatus{Namespace: "n"}, &fleet.ClusterStatus{Namespace: "n"}, true},
		"pointers to different values": {&fleet.ClusterStatus{Namespace: "n"}, &fleet.ClusterStatus{}, false},
		"different kinds of one value": {int32(1), int64(1), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if Equal(test.a, test.b) != test.want || Equal(test.b, test.a) != test.want {
				t.Errorf("want %v", test.want)
			}
		})
	}
}

// BenchmarkEqual compares a status with an identical one, the most frequent case.
func BenchmarkEqual(b *testing.B) {
	status := func() *fleet.ClusterStatus {
		s := &fleet.ClusterStatus{Namespace: "n", Display: fleet.ClusterDisplay{ReadyBundles: "1/1"}}
		for _, condition := range []string{conditions.Processed, conditions.Imported, conditions.Ready, conditions.AgentReporting} {
			conditions.Set(&s.Conditions, time.Unix(0, 0), genericcondition.GenericCondition{Type: condition, Status: corev1.ConditionTrue})
		}
		return s
	}
	one, other := status(), status()
	for b.Loop() {
		if !Equal(one, other) {
			b.Fatal("they differ")
		}
	}
}
