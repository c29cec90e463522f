package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// workloadChecks returns the checks of the agent's namespace and its Deployment.
func workloadChecks() []check.Check[*Facts] {
	return []check.Check[*Facts]{
		{ID: "agent-api", Judge: checkAPI},
		{ID: "agent-namespace", Needs: sources(SourcePlace), Judge: checkNamespace},
		{ID: "agent-deployment", Needs: sources(SourcePlace, SourceDeployment), Judge: checkDeployment},
		{ID: "agent-others", Needs: sources(SourceAgents), Judge: checkOthers},
	}
}

func checkAPI(f *Facts) []check.Row {
	if f.Err != nil {
		return []check.Row{check.Fail(check.Object{}, f.Err.Error(), f.onCluster("kubectl", "cluster-info"))}
	}
	return []check.Row{check.Ok(check.Object{}, "Kubernetes "+f.Kubernetes)}
}

func (f *Facts) namespaceObject() check.Object {
	return check.Object{Kind: "Namespace", Name: f.Namespace}
}

func checkNamespace(f *Facts) []check.Row {
	switch {
	case f.Place == nil:
		return []check.Row{check.Fail(f.namespaceObject(), "the namespace does not exist: there is no agent on this cluster", f.repair())}
	case f.Place.DeletionTimestamp != nil || f.Place.Status.Phase == corev1.NamespaceTerminating:
		cause := "the namespace is being deleted"
		for _, condition := range f.Place.Status.Conditions {
			if condition.Status == corev1.ConditionTrue {
				cause += ": " + condition.Message
			}
		}
		return []check.Row{check.Fail(f.namespaceObject(), cause, f.onCluster("kubectl", "describe", "namespace", f.Namespace))}
	}
	return nil
}

func checkDeployment(f *Facts) []check.Row {
	if f.Place == nil {
		return nil // check agent-namespace reports it
	}
	if f.Deployment == nil {
		return []check.Row{check.Fail(f.deploymentObject(), "the Deployment does not exist: there is no agent in this namespace", f.repair())}
	}
	wanted, ready := int32(1), f.Deployment.Status.ReadyReplicas
	if f.Deployment.Spec.Replicas != nil {
		wanted = *f.Deployment.Spec.Replicas
	}
	switch {
	case wanted == 0:
		return []check.Row{check.Fail(f.deploymentObject(), "the Deployment is scaled to 0: no agent runs",
			f.onCluster("kubectl", "scale", "-n", f.Namespace, "deployment/"+names.Agent, "--replicas=1"))}
	case f.Deployment.Spec.Paused:
		return []check.Row{check.Warn(f.deploymentObject(), "the rollout of the Deployment is paused: changes of the agent do not reach its pods",
			f.onCluster("kubectl", "rollout", "resume", "-n", f.Namespace, "deployment/"+names.Agent))}
	case ready == 0 && slices.ContainsFunc(f.current(), runs):
		return []check.Row{check.Fail(f.deploymentObject(), fmt.Sprintf("0 of %d pods are ready: no agent works, and the log says why", wanted), f.logs())}
	case ready == 0:
		return []check.Row{check.Fail(f.deploymentObject(), fmt.Sprintf("0 of %d pods are ready: no agent runs", wanted), f.describePods())}
	case ready < wanted:
		return []check.Row{check.Warn(f.deploymentObject(), fmt.Sprintf("%d of %d pods are ready", ready, wanted), f.describePods())}
	}
	return []check.Row{check.Ok(f.deploymentObject(), fmt.Sprintf("%d of %d pods are ready", ready, wanted))}
}

// runs reports whether a container of the pod runs.
func runs(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool { return status.State.Running != nil })
}

// scopeOf returns the scope of an agent. The namespace is the scope of an agent that a hub has installed in a namespace of
// its own.
func (f *Facts) scopeOf(kind, namespace string) (scope string, found bool) {
	for _, agent := range f.Agents {
		if agent.Kind == kind && agent.Namespace == namespace {
			return agent.Scope, true
		}
	}
	return "", false
}

func checkOthers(f *Facts) (rows []check.Row) {
	own, found := f.scopeOf(KindDeployment, f.Namespace)
	for _, other := range f.Agents {
		target := check.Object{Kind: other.Kind, Group: appsv1.GroupName, Namespace: other.Namespace, Name: names.Agent}
		switch {
		case !other.Running, other.Kind == KindDeployment && other.Namespace == f.Namespace:
		case !found:
			rows = append(rows, check.Warn(target, fmt.Sprintf("an agent runs in this namespace, and there is none in namespace %s: image %s", f.Namespace, other.Image),
				f.onCluster("fleet", "doctor", "agent", "--agent-namespace", other.Namespace)))
		case other.Scope != own:
			rows = append(rows, check.Ok(target, "another agent, with a scope of its own: "+cmp.Or(other.Scope, "none")))
		default:
			rows = append(rows, check.Fail(target, fmt.Sprintf("another agent with the same scope (%s) runs on this cluster: image %s", cmp.Or(own, "none"), other.Image), f.remove(other)))
		}
	}
	return rows
}

// The kinds of workloads.
const (
	KindDeployment  = "Deployment"
	KindStatefulSet = "StatefulSet"
)

// remove returns the command that removes another agent. Its Secrets stay.
func (f *Facts) remove(other Workload) string {
	return f.onCluster("kubectl", "delete", strings.ToLower(other.Kind), "-n", remedy.NameOr(other.Namespace, "NAMESPACE"), names.Agent)
}
