package agentchart

import (
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Names of objects that only customised agents have.
const (
	PriorityClass    = "fleet-agent-priority-class"
	DisruptionBudget = "fleet-agent-pod-disruption-budget"
)

// networkPolicy is the name of the agent's NetworkPolicy.
const networkPolicy = "default-allow-all"

// SharedClass returns the PriorityClass of an agent. All agents of a cluster share it, also those of other hubs, so it is not
// one of Objects.
func SharedClass() *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: PriorityClass}}
}

// Objects returns all other objects that an agent may have in a namespace, in the order of their deletion.
func Objects(namespace string) []runtime.Object {
	here := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	everywhere := func(parts ...string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: names.SafeConcat(parts...)}
	}
	return []runtime.Object{
		&rbacv1.ClusterRole{ObjectMeta: everywhere(namespace, names.Agent, "role")},
		&rbacv1.ClusterRoleBinding{ObjectMeta: everywhere(namespace, names.Agent, "role", "binding")},
		&corev1.Secret{ObjectMeta: here(names.Agent)},
		&corev1.Secret{ObjectMeta: here(names.AgentBootstrap)},
		&corev1.Secret{ObjectMeta: here(names.RecoverySecret(namespace))},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: names.RecoverySecret(namespace)}},
		&corev1.ConfigMap{ObjectMeta: here(names.Agent)},
		&corev1.ServiceAccount{ObjectMeta: here(names.Agent)},
		&networkingv1.NetworkPolicy{ObjectMeta: here(networkPolicy)},
		&appsv1.Deployment{ObjectMeta: here(names.Agent)},
		&appsv1.StatefulSet{ObjectMeta: here(names.Agent)},
		&policyv1.PodDisruptionBudget{ObjectMeta: here(DisruptionBudget)},
		&corev1.Secret{ObjectMeta: here(names.ReleaseKey)}, // an agent that comes back would take later releases for forged ones
		&coordinationv1.Lease{ObjectMeta: here(names.Agent)},
	}
}
