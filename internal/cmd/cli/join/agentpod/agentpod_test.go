package agentpod

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestProblem(t *testing.T) {
	waiting := func(reason string) []corev1.Pod {
		return []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "m"}}},
		}}}}
	}
	rejected := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"},
	}}}
	unscheduled := []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no nodes"},
	}}}}
	crashing := waiting("CrashLoopBackOff")
	crashing[0].Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Message: "NAMESPACE is required"}
	running := []corev1.Pod{{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}}
	ending := append(waiting("ErrImagePull"), running...)
	ending[0].DeletionTimestamp = &metav1.Time{}
	for name, test := range map[string]struct {
		deployment      *appsv1.Deployment
		pods            []corev1.Pod
		reason, message string
	}{
		"quota":                        {rejected, nil, conditions.ReasonAgentPodRejected, "exceeded quota"},
		"no node":                      {&appsv1.Deployment{}, unscheduled, conditions.ReasonAgentPodRejected, "pod p is not scheduled: no nodes"},
		"image":                        {&appsv1.Deployment{}, waiting("ImagePullBackOff"), conditions.ReasonAgentPodFailing, "the container of pod p does not run: ImagePullBackOff: m"},
		"starting":                     {&appsv1.Deployment{}, waiting("ContainerCreating"), conditions.ReasonAgentPodFailing, "no pod of the agent has started"},
		"crashing":                     {&appsv1.Deployment{}, crashing, conditions.ReasonAgentPodFailing, "the container of pod p does not run: CrashLoopBackOff: it has ended with exit code 1: NAMESPACE is required"},
		"the old one is being deleted": {&appsv1.Deployment{}, ending, "", ""},
		"no pod":                       {&appsv1.Deployment{}, nil, conditions.ReasonAgentPodFailing, "no pod of the agent has started"},
		"running, and not ready while it waits for its registration": {&appsv1.Deployment{}, running, "", ""},
	} {
		if reason, message := Problem(test.deployment, test.pods); reason != test.reason || message != test.message {
			t.Errorf("%s: %s %s", name, reason, message)
		}
	}
}

func TestReplaced(t *testing.T) {
	done := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
	for name, test := range map[string]struct {
		replicas *int32
		change   func(*appsv1.DeploymentStatus)
		want     bool
	}{
		"all pods are new":           {nil, func(*appsv1.DeploymentStatus) {}, true},
		"the change was not seen":    {nil, func(s *appsv1.DeploymentStatus) { s.ObservedGeneration = 1 }, false},
		"the new pod does not exist": {nil, func(s *appsv1.DeploymentStatus) { s.UpdatedReplicas = 0 }, false},
		"the new pod is not ready":   {nil, func(s *appsv1.DeploymentStatus) { s.Replicas, s.AvailableReplicas = 2, 1 }, false},
		"one of two is missing":      {ptr.To[int32](2), func(*appsv1.DeploymentStatus) {}, false},
		"no pods are wanted":         {ptr.To[int32](0), func(s *appsv1.DeploymentStatus) { *s = appsv1.DeploymentStatus{ObservedGeneration: 2} }, true},
	} {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: appsv1.DeploymentSpec{Replicas: test.replicas}, Status: done}
		test.change(&deployment.Status)
		if got := Replaced(deployment); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
