package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const east = "cluster-fleet-default-east-0f0350029557"

func oneCluster(changes ...func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "east", Finalizers: []string{fleet.FinalizerCluster}}}
	c.Status.Namespace = east
	for _, change := range changes {
		change(c)
	}
	return c
}

func fresh(c *fleet.Cluster)    { c.Finalizers, c.Status.Namespace = nil, "" }
func deleted(c *fleet.Cluster)  { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
func released(c *fleet.Cluster) { c.Finalizers = []string{"example.com/theirs"} }
func managed(c *fleet.Cluster) {
	c.Labels = map[string]string{fleet.LabelClusterManagement: "somebody"}
}
func scheduled(custom *fleet.AgentSchedulingCustomization) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Spec.AgentSchedulingCustomization = custom }
}
func placed(namespace string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Status.Namespace = namespace }
}

func ours(changes ...func(*corev1.Namespace)) *corev1.Namespace {
	n := clusterNamespace(oneCluster())
	for _, change := range changes {
		change(n)
	}
	return n
}

func terminating(n *corev1.Namespace) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
func unmarked(n *corev1.Namespace)    { n.Annotations = nil }
func ofWest(n *corev1.Namespace)      { n.Annotations[fleet.AnnotationCluster] = "west" }

func agentAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: east, Name: "request-1"}}
}

func agentRights() *rbacv1.RoleBinding {
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: east, Name: "request-1", Labels: map[string]string{fleet.LabelManaged: "true"}}}
	binding.RoleRef.Kind, binding.RoleRef.Name = "ClusterRole", "fleet-bundle-deployment"
	return binding
}

func deployment(finalizers ...string) *fleet.BundleDeployment {
	return &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: east, Name: "b", Finalizers: finalizers}}
}

func yes() *genericcondition.GenericCondition {
	return &genericcondition.GenericCondition{Type: "Processed", Status: "True"}
}

func waits() *genericcondition.GenericCondition {
	return &genericcondition.GenericCondition{
		Type: "Processed", Status: "False", Reason: "AwaitingNamespace",
		Message: "the cluster's namespace is being deleted; the hub creates it again after that",
	}
}

func taken(message string) *genericcondition.GenericCondition {
	return &genericcondition.GenericCondition{Type: "Processed", Status: "False", Reason: "NamespaceTaken", Message: message}
}

func TestDecide(t *testing.T) {
	tests := map[string]struct {
		in   input
		want outcome
	}{
		"new Cluster: gets finalizer, namespace and status": {
			in:   input{cluster: oneCluster(fresh)},
			want: outcome{stage: settled, addFinalizer: true, createNamespace: ours(), namespaceName: east, processed: yes()},
		},
		"empty scheduling customization: removed": {
			in:   input{cluster: oneCluster(scheduled(&fleet.AgentSchedulingCustomization{})), namespace: ours()},
			want: outcome{stage: settled, tidySpec: true, namespaceName: east, processed: yes()},
		},
		"scheduling customization with a setting: kept": {
			in:   input{cluster: oneCluster(scheduled(&fleet.AgentSchedulingCustomization{PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{}})), namespace: ours()},
			want: outcome{stage: settled, namespaceName: east, processed: yes()},
		},
		"empty scheduling customization, Cluster is being deleted: kept": {
			in:   input{cluster: oneCluster(deleted, released, scheduled(&fleet.AgentSchedulingCustomization{}))},
			want: outcome{stage: left, namespaceName: east},
		},
		"complete Cluster: no change": {
			in:   input{cluster: oneCluster(), namespace: ours()},
			want: outcome{stage: settled, namespaceName: east, processed: yes()},
		},
		"namespace was deleted: created again": {
			in:   input{cluster: oneCluster()},
			want: outcome{stage: settled, createNamespace: ours(), namespaceName: east, processed: yes()},
		},
		"namespace without marks, Cluster is new: it is not used": {
			in: input{cluster: oneCluster(fresh), namespace: ours(unmarked)},
			want: outcome{stage: namespaceTaken, addFinalizer: true, processed: taken("namespace " + east + " exists and was not created for this Cluster: " +
				"delete it, or let the Cluster use it with `kubectl annotate namespace " + east + " fleet.cattle.io/cluster-namespace=fleet-default fleet.cattle.io/cluster=east`")},
		},
		"namespace lost its marks, Cluster uses it: it stays in use": {
			in:   input{cluster: oneCluster(), namespace: ours(unmarked)},
			want: outcome{stage: settled, namespaceName: east, processed: yes()},
		},
		"namespace of another Cluster: it is not used, whatever the status says": {
			in:   input{cluster: oneCluster(), namespace: ours(ofWest)},
			want: outcome{stage: namespaceTaken, processed: taken("namespace " + east + " was created for another Cluster: register this one under another, shorter name")},
		},
		"namespace in the status is another: the computed one is made": {
			in:   input{cluster: oneCluster(placed("of-old"))},
			want: outcome{stage: settled, createNamespace: ours(), namespaceName: east, processed: yes()},
		},
		"namespace of the former Cluster is terminating: waits": {
			in:   input{cluster: oneCluster(fresh), namespace: ours(terminating)},
			want: outcome{stage: awaitingNamespace, addFinalizer: true, processed: waits()},
		},
		"a Cluster whose namespace is being deleted keeps its name": {
			in:   input{cluster: oneCluster(), namespace: ours(terminating)},
			want: outcome{stage: awaitingNamespace, namespaceName: east, processed: waits()},
		},
		"namespace is being deleted, agent has rights: its BundleDeployments wait": {
			in: input{
				cluster: oneCluster(), namespace: ours(terminating), hasRights: true,
				deployments: []*fleet.BundleDeployment{deployment(fleet.FinalizerBundleDeployment)},
			},
			want: outcome{stage: awaitingNamespace, namespaceName: east, processed: waits()},
		},
		"namespace is being deleted, agent has no rights: its BundleDeployments go": {
			in: input{
				cluster: oneCluster(), namespace: ours(terminating),
				deployments: []*fleet.BundleDeployment{deployment(fleet.FinalizerBundleDeployment)},
			},
			want: outcome{
				stage: awaitingNamespace, namespaceName: east, processed: waits(),
				drain: []*fleet.BundleDeployment{deployment(fleet.FinalizerBundleDeployment)},
			},
		},
		"Cluster of another manager: unchanged": {
			in:   input{cluster: oneCluster(fresh, managed)},
			want: outcome{stage: managedElsewhere},
		},
		"Cluster of another manager is being deleted: deleted like any other": {
			in:   input{cluster: oneCluster(managed, deleted)},
			want: outcome{stage: left, removeFinalizer: true, namespaceName: east},
		},
		"being deleted: rights of agents are revoked first": {
			in: input{
				cluster: oneCluster(deleted), namespace: ours(),
				accounts: []*corev1.ServiceAccount{agentAccount()}, deployments: []*fleet.BundleDeployment{deployment(fleet.FinalizerBundleDeployment)},
			},
			want: outcome{stage: revoking, revoke: []*corev1.ServiceAccount{agentAccount()}, namespaceName: east},
		},
		"being deleted, agent without an account has rights: they are revoked first": {
			in: input{
				cluster: oneCluster(deleted), namespace: ours(), rights: []*rbacv1.RoleBinding{agentRights()}, hasRights: true,
				deployments: []*fleet.BundleDeployment{deployment(fleet.FinalizerBundleDeployment)},
			},
			want: outcome{stage: revoking, unbind: []*rbacv1.RoleBinding{agentRights()}, namespaceName: east},
		},
		"being deleted, namespace is terminating, agent has rights: they are revoked first": {
			in: input{
				cluster: oneCluster(deleted), namespace: ours(terminating), rights: []*rbacv1.RoleBinding{agentRights()}, hasRights: true,
				deployments: []*fleet.BundleDeployment{deployment(fleet.FinalizerBundleDeployment)},
			},
			want: outcome{stage: revoking, unbind: []*rbacv1.RoleBinding{agentRights()}, namespaceName: east},
		},
		"namespace without marks that the Cluster never used: its RoleBindings stay": {
			in:   input{cluster: oneCluster(deleted, placed("")), namespace: ours(unmarked), rights: []*rbacv1.RoleBinding{agentRights()}, hasRights: true},
			want: outcome{stage: left, removeFinalizer: true},
		},
		"being deleted, rights are revoked: BundleDeployments are drained, namespace is deleted": {
			in: input{
				cluster: oneCluster(deleted), namespace: ours(),
				deployments: []*fleet.BundleDeployment{deployment(fleet.FinalizerBundleDeployment, "example.com/theirs"), deployment("example.com/theirs"), deployment()},
			},
			want: outcome{
				stage: draining, deleteNamespace: true, namespaceName: east,
				drain: []*fleet.BundleDeployment{deployment(fleet.FinalizerBundleDeployment, "example.com/theirs")},
			},
		},
		"being deleted, namespace is not terminating yet: Cluster stays": {
			in:   input{cluster: oneCluster(deleted), namespace: ours()},
			want: outcome{stage: draining, deleteNamespace: true, namespaceName: east},
		},
		"being deleted, late BundleDeployment: drained": {
			in: input{
				cluster: oneCluster(deleted), namespace: ours(terminating),
				deployments: []*fleet.BundleDeployment{deployment(fleet.FinalizerBundleDeployment)},
			},
			want: outcome{
				stage: draining, namespaceName: east, drain: []*fleet.BundleDeployment{deployment(fleet.FinalizerBundleDeployment)},
			},
		},
		"being deleted, namespace is terminating: Cluster is deleted": {
			in:   input{cluster: oneCluster(deleted), namespace: ours(terminating), deployments: []*fleet.BundleDeployment{deployment("example.com/theirs")}},
			want: outcome{stage: left, removeFinalizer: true, namespaceName: east},
		},
		"being deleted, no namespace: Cluster is deleted": {
			in:   input{cluster: oneCluster(deleted)},
			want: outcome{stage: left, removeFinalizer: true, namespaceName: east},
		},
		"being deleted, namespace without marks is in the status: deleted": {
			in:   input{cluster: oneCluster(deleted), namespace: ours(unmarked)},
			want: outcome{stage: draining, deleteNamespace: true, namespaceName: east},
		},
		"namespace of another Cluster: it stays, with what is in it": {
			in: input{
				cluster: oneCluster(deleted), namespace: ours(ofWest),
				deployments: []*fleet.BundleDeployment{deployment(fleet.FinalizerBundleDeployment)},
			},
			want: outcome{stage: left, removeFinalizer: true, namespaceName: east},
		},
		"namespace without marks that the Cluster never used: it stays": {
			in:   input{cluster: oneCluster(deleted, placed("")), namespace: ours(unmarked)},
			want: outcome{stage: left, removeFinalizer: true},
		},
		"being deleted, other finalizers: nothing to do": {
			in:   input{cluster: oneCluster(deleted, released), namespace: ours(), accounts: []*corev1.ServiceAccount{agentAccount()}},
			want: outcome{stage: left, namespaceName: east},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.in.now = time.Unix(100, 0)
			before := test.in.cluster.DeepCopy()
			got := decide(test.in)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(outcome{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the outcome differs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.in.cluster); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
		})
	}
}

func TestClusterNamespace_MatchesTheRecording(t *testing.T) {
	want := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:        "cluster-fleet-default-east-0f0350029557",
		Labels:      map[string]string{"fleet.cattle.io/managed": "true"},
		Annotations: map[string]string{"fleet.cattle.io/cluster": "east", "fleet.cattle.io/cluster-namespace": "fleet-default"},
	}}
	if diff := cmp.Diff(want, clusterNamespace(oneCluster(fresh))); diff != "" {
		t.Error(diff)
	}
}

func TestNotImported_InitialConditions(t *testing.T) {
	condition := func(kind string) genericcondition.GenericCondition {
		return genericcondition.GenericCondition{Type: kind, Status: corev1.ConditionTrue}
	}
	joins := func(c *fleet.Cluster) { c.Spec.ClientID = "client" }
	tests := map[string]struct {
		cluster *fleet.Cluster
		want    []genericcondition.GenericCondition
	}{
		"agent registers itself: Imported and Reconciled are True": {oneCluster(joins), []genericcondition.GenericCondition{condition("Imported"), condition("Reconciled")}},
		"existing conditions: stay": {
			oneCluster(joins, func(c *fleet.Cluster) {
				c.Status.Conditions = []genericcondition.GenericCondition{{Type: "Imported", Status: corev1.ConditionFalse, Reason: "ClientIDAmbiguous"}}
			}),
			[]genericcondition.GenericCondition{condition("Reconciled")},
		},
		"no client ID: none":    {oneCluster(), nil},
		"imported: none":        {oneCluster(joins, func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "kubeconfig" }), nil},
		"another manager: none": {oneCluster(joins, managed), nil},
		"being deleted: none":   {oneCluster(joins, deleted), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, notImported(test.cluster)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
