package supervision

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const namespaceTerminating = "the agent's namespace is being deleted downstream and accepts no new objects until it is gone: the agent is deployed afterwards; if it stays, run on that cluster: kubectl describe namespace %s"

// podTrouble returns what keeps the agent's pod from running, and the repair that the hub can do. An empty reason
// means that nothing does. Texts from the downstream cluster are matched but not repeated, except for object names:
// they change with each attempt and may contain anything.
func podTrouble(in Input) (reason, message string, repair Repair) {
	pods := slices.Clone(in.Pods)
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for i := range pods {
		if pods[i].DeletionTimestamp != nil {
			continue
		}
		if reason, message := troubleOf(in, &pods[i]); reason != "" {
			return reason, message, RepairNone
		}
	}
	if text := refusalOf(in); text != "" {
		return podRefused(text, in.Namespace)
	}
	return "", "", RepairNone
}

// troubleOf returns what keeps one pod from running.
func troubleOf(in Input, pod *corev1.Pod) (reason, message string) {
	early := in.Awaited < StartPatience
	if pod.Status.Phase == corev1.PodFailed {
		return conditions.ReasonAgentPodFailing, fmt.Sprintf("the agent's pod was terminated by its node: to see why, run on the downstream cluster: kubectl describe pod -n %s -l app=%s", in.Namespace, names.Agent)
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable && !early {
			return conditions.ReasonAgentPodRejected, fmt.Sprintf("the agent's pod cannot be scheduled: add capacity, or change spec.agentTolerations, spec.agentAffinity or spec.agentResources; to see why, run on the downstream cluster: kubectl describe pod -n %s -l app=%s", in.Namespace, names.Agent)
		}
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if container.State.Waiting == nil {
			continue
		}
		reason, message := waiting(in, container.State.Waiting.Reason, early)
		if reason != "" && !strings.HasPrefix(container.Name, names.Agent) {
			message = fmt.Sprintf("a container that the cluster has added to the agent's pod does not run: to see which and why, run on the downstream cluster: kubectl describe pod -n %s -l app=%s; exempt the agent's namespace from its injection, or repair it", in.Namespace, names.Agent)
		}
		if reason != "" {
			return reason, message
		}
	}
	return "", ""
}

// waiting translates the reason for which a container waits.
func waiting(in Input, why string, early bool) (reason, message string) {
	switch why {
	case "ErrImagePull", "RegistryUnavailable":
		if early {
			return "", ""
		}
		fallthrough
	case "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "SignatureValidationFailed":
		return conditions.ReasonAgentPodFailing, fmt.Sprintf("the agent's image %s cannot be pulled: check agentImage in the fleet chart, spec.privateRepoURL and spec.agentPullSecrets, and that the cluster can reach the registry", imageOf(in.Deployment))
	case "CrashLoopBackOff":
		return conditions.ReasonAgentPodFailing, fmt.Sprintf("the agent's container exits right after its start: to see why, run on the downstream cluster: kubectl logs -n %s -l app=%s --previous", in.Namespace, names.Agent)
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError", "PostStartHookError":
		return conditions.ReasonAgentPodFailing, fmt.Sprintf("the agent's container cannot be started: to see why, run on the downstream cluster: kubectl describe pod -n %s -l app=%s", in.Namespace, names.Agent)
	}
	return "", "" // ContainerCreating and the like: the pod is starting
}

// imageOf returns the image of the agent's Deployment, or "" if it has no container.
func imageOf(deployment *appsv1.Deployment) string {
	if containers := deployment.Spec.Template.Spec.Containers; len(containers) > 0 {
		return containers[0].Image
	}
	return ""
}

// corrected reports whether the settings give the agent's pod something else than its Deployment has. A running agent gets
// new settings with its Bundle, and the status records them before that. This agent does not run, so only the hub can apply
// them. If a webhook always changes a field, each inspection applies the same Deployment again, which starts no new pods.
func corrected(in Input) bool {
	return in.Wanted != nil && Correct(in.Deployment.DeepCopy(), in.Wanted)
}

// refusalOf returns the API server's message about a refused pod, or "" if it did not refuse one.
func refusalOf(in Input) string {
	sets := slices.Clone(in.ReplicaSets)
	slices.SortFunc(sets, func(a, b appsv1.ReplicaSet) int { return strings.Compare(a.Name, b.Name) })
	for _, set := range sets {
		if set.Spec.Replicas != nil && *set.Spec.Replicas == 0 {
			continue // belongs to an older revision of the agent
		}
		for _, condition := range set.Status.Conditions {
			if condition.Type == appsv1.ReplicaSetReplicaFailure && condition.Status == corev1.ConditionTrue {
				return orUnknown(condition.Message)
			}
		}
	}
	for _, condition := range in.Deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			return orUnknown(condition.Message)
		}
	}
	return ""
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

// Messages of API servers that refuse a pod or an object. The captured names are object names, which are constant.
var (
	quotaExceeded    = regexp.MustCompile(`exceeded quota: ([a-z0-9][a-z0-9.-]{0,252}),`)
	quotaIncomplete  = regexp.MustCompile(`failed quota: ([a-z0-9][a-z0-9.-]{0,252}): must specify`)
	podSecurity      = regexp.MustCompile(`violates PodSecurity "(baseline|restricted):`)
	limitRange       = regexp.MustCompile(`(maximum|minimum) [a-z/.-]+ usage per (Container|Pod) is|limit to request ratio`)
	webhookDenies    = regexp.MustCompile(`admission webhook "([a-z0-9][a-z0-9.-]{0,252})" denied`)
	webhookFails     = regexp.MustCompile(`failed calling webhook "([a-z0-9][a-z0-9.-]{0,252})"`)
	policyDenies     = regexp.MustCompile(`ValidatingAdmissionPolicy '([a-z0-9][a-z0-9.-]{0,252})'`)
	beingTerminated  = regexp.MustCompile(`because it is being terminated`)
	missingCompanion = regexp.MustCompile(`error looking up service account|no PriorityClass with name`)
)

// podRefused translates the API server's refusal of the agent's pod, and says what to do.
func podRefused(text, namespace string) (reason, message string, repair Repair) {
	say := func(format string, args ...any) (string, string, Repair) {
		return conditions.ReasonAgentPodRejected, fmt.Sprintf(format, args...), RepairNone
	}
	if match := quotaExceeded.FindStringSubmatch(text); match != nil {
		return say("ResourceQuota %s of namespace %s leaves no room for the agent's pod: raise it, or give the agent a namespace of its own in spec.agentNamespace", match[1], namespace)
	}
	if match := quotaIncomplete.FindStringSubmatch(text); match != nil {
		return say("ResourceQuota %s of namespace %s requires resource requests and limits of the agent's pod: set spec.agentResources", match[1], namespace)
	}
	if match := podSecurity.FindStringSubmatch(text); match != nil && strings.Contains(text, "hostNetwork=true") {
		return say("namespace %s allows only pods of Pod Security level %s, and the agent's pod uses the network of its node: set spec.hostNetwork of this Cluster to false if the cluster has a CNI without the agent; otherwise run on the cluster: kubectl label namespace %s --overwrite pod-security.kubernetes.io/enforce=privileged", namespace, match[1], namespace)
	} else if match != nil {
		lower := map[string]string{"restricted": "baseline", "baseline": "privileged"}[match[1]]
		return say("namespace %s allows only pods of Pod Security level %s, which the agent's pod does not meet: run on the cluster: kubectl label namespace %s --overwrite pod-security.kubernetes.io/enforce=%s", namespace, match[1], namespace, lower)
	}
	if name, denies := admission(text); name != "" && denies {
		return say("%s downstream denies the agent's pod: allow it; to see why, run on the downstream cluster: kubectl describe replicaset -n %s -l app=%s", name, namespace, names.Agent)
	} else if name != "" {
		return say("%s downstream has to admit the agent's pod but does not answer: repair it, or exempt namespace %s", name, namespace)
	}
	switch {
	case limitRange.MatchString(text):
		return say("a LimitRange of namespace %s does not allow the resources of the agent's pod: change it, or spec.agentResources", namespace)
	case beingTerminated.MatchString(text):
		return conditions.ReasonNamespaceTerminating, fmt.Sprintf(namespaceTerminating, namespace), RepairNone
	case missingCompanion.MatchString(text):
		reason, message, _ = say("the agent's ServiceAccount or PriorityClass was missing downstream: it is applied again")
		return reason, message, RepairObjects
	}
	return say("the API server downstream rejects the agent's pod: to see why, run on the downstream cluster: kubectl describe replicaset -n %s -l app=%s", namespace, names.Agent)
}

// admission returns the webhook or policy that blocks an object, and whether it denies the object or does not answer.
// An empty name means that neither blocks it.
func admission(text string) (who string, denies bool) {
	if match := webhookDenies.FindStringSubmatch(text); match != nil {
		return "admission webhook " + match[1], true
	}
	if match := policyDenies.FindStringSubmatch(text); match != nil {
		return "ValidatingAdmissionPolicy " + match[1], true
	}
	if match := webhookFails.FindStringSubmatch(text); match != nil {
		return "admission webhook " + match[1], false
	}
	return "", false
}

// Refusal translates a downstream API server's refusal of an object of the agent. system is the namespace of the hub's controllers,
// agent that of the agent. An empty reason means that the cause is unknown.
func Refusal(text, system, agent string) (reason, message string) {
	name, denies := admission(text)
	switch {
	case beingTerminated.MatchString(text):
		return conditions.ReasonNamespaceTerminating, fmt.Sprintf(namespaceTerminating, agent)
	case name == "":
		return "", ""
	case denies:
		return conditions.ReasonAdmissionDenied, name + " of the downstream cluster denies an object of the agent: change it, or exempt the agent's namespace. Its answer: kubectl logs -n " + system + " deployment/fleet-controller"
	}
	return conditions.ReasonAdmissionDenied, name + " of the downstream cluster has to admit an object of the agent but does not answer: repair it, or exempt the agent's namespace. The error: kubectl logs -n " + system + " deployment/fleet-controller"
}
