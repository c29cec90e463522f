// Package agentpod judges an agent's Deployment while `fleet join` waits: why does no pod run, and have the pods been replaced?
package agentpod

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Replaced reports whether all pods of a Deployment have its present template and are available.
func Replaced(deployment *appsv1.Deployment) bool {
	status, wanted := deployment.Status, int32(1)
	if deployment.Spec.Replicas != nil {
		wanted = *deployment.Spec.Replicas
	}
	return status.ObservedGeneration >= deployment.Generation && status.UpdatedReplicas >= wanted && status.Replicas == status.UpdatedReplicas &&
		status.AvailableReplicas >= wanted
}

// Problem returns why the agent's pod does not run, with its reason, or empty texts if one runs. It need not be ready: an
// agent that waits for its registration is not.
func Problem(deployment *appsv1.Deployment, pods []corev1.Pod) (reason, message string) {
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			return conditions.ReasonAgentPodRejected, condition.Message
		}
	}
	running := false
	isGoing := func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil }
	for _, pod := range slices.DeleteFunc(slices.Clone(pods), isGoing) {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				return conditions.ReasonAgentPodRejected, fmt.Sprintf("pod %s is not scheduled: %s", pod.Name, condition.Message)
			}
		}
		for _, container := range pod.Status.ContainerStatuses {
			running = running || container.State.Running != nil
			if message := containerProblem(container); message != "" {
				return conditions.ReasonAgentPodFailing, "the container of pod " + pod.Name + message
			}
		}
	}
	if !running {
		return conditions.ReasonAgentPodFailing, "no pod of the agent has started"
	}
	return "", ""
}

// containerProblem returns why a container does not run, or an empty text.
func containerProblem(container corev1.ContainerStatus) string {
	waiting, ended, last := container.State.Waiting, container.State.Terminated, container.LastTerminationState.Terminated
	switch {
	case waiting != nil && last != nil && last.Message != "": // CrashLoopBackOff
		return fmt.Sprintf(" does not run: %s: it has ended with exit code %d: %s", waiting.Reason, last.ExitCode, last.Message)
	case waiting != nil && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing":
		return fmt.Sprintf(" does not run: %s: %s", waiting.Reason, waiting.Message)
	case ended != nil && ended.ExitCode != 0:
		return fmt.Sprintf(" has ended with exit code %d: %s", ended.ExitCode, ended.Message)
	}
	return ""
}
