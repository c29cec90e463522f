package podrunner

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runningStatus returns the status of a pod whose containers are all running and ready.
func runningStatus(pod *corev1.Pod, address string, now metav1.Time) corev1.PodStatus {
	states := make([]containerState, len(pod.Spec.Containers))
	for i := range states {
		states[i] = containerState{phase: running, ready: true, started: now}
	}
	return statusOf(pod, address, now, states)
}

// ProcessScheme begins the containerID of a container that runs as a process. The process ID follows.
const ProcessScheme = "process://"

type phase int

const (
	waiting phase = iota // not started yet, or between two starts
	running
	ended // finished; not restarted
)

// containerState is the runner's state of one container.
type containerState struct {
	phase    phase
	ready    bool
	reason   string // why it waits: CrashLoopBackOff, CreateContainerConfigError
	message  string
	started  metav1.Time
	pid      int // process ID while a process runs, or 0
	code     int // exit code of an ended container
	restarts int32
	last     *corev1.ContainerStateTerminated // of the previous process
}

// statusOf returns the pod's status for the containers' states, which are in the order of the spec.
func statusOf(pod *corev1.Pod, address string, now metav1.Time, states []containerState) corev1.PodStatus {
	ready, phase := true, corev1.PodRunning
	containers := make([]corev1.ContainerStatus, len(states))
	over, failed := true, false
	for i, state := range states {
		containers[i] = containerStatus(&pod.Spec.Containers[i], state, now)
		ready = ready && state.ready
		over = over && state.phase == ended
		failed = failed || state.code != 0
	}
	if over {
		phase = corev1.PodSucceeded
		if failed {
			phase = corev1.PodFailed
		}
	}
	start := &now
	if pod.Status.StartTime != nil {
		start = pod.Status.StartTime
	}
	return corev1.PodStatus{
		Phase: phase, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, StartTime: start,
		Conditions: []corev1.PodCondition{
			condition(pod, corev1.PodScheduled, true, now),
			condition(pod, corev1.PodInitialized, true, now),
			condition(pod, corev1.ContainersReady, ready, now),
			condition(pod, corev1.PodReady, ready, now),
		},
		InitContainerStatuses: initStatuses(pod, now),
		ContainerStatuses:     containers,
	}
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType, is bool, now metav1.Time) corev1.PodCondition {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: now}
	if is {
		c.Status = corev1.ConditionTrue
	} else {
		c.Reason = "ContainersNotReady"
	}
	for _, before := range pod.Status.Conditions {
		if before.Type == kind && before.Status == c.Status {
			c.LastTransitionTime = before.LastTransitionTime
		}
	}
	return c
}

func containerStatus(c *corev1.Container, state containerState, now metav1.Time) corev1.ContainerStatus {
	started := state.phase == running
	status := corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: containerID(c, state),
		Ready: state.ready, Started: &started, RestartCount: state.restarts,
	}
	switch state.phase {
	case waiting:
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: state.reason, Message: state.message}
	case running:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: state.started}
	case ended:
		status.State.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: int32(state.code), Reason: endReason(state.code), StartedAt: state.started, FinishedAt: now,
		}
	}
	if state.last != nil {
		status.LastTerminationState.Terminated = state.last
	}
	return status
}

// containerID contains the process ID of a running process, so that a user finds the process of a pod.
func containerID(c *corev1.Container, state containerState) string {
	if state.phase == running && state.pid != 0 {
		return ProcessScheme + strconv.Itoa(state.pid)
	}
	return "plane://" + c.Name
}

func endReason(code int) string {
	if code == 0 {
		return "Completed"
	}
	return "Error"
}

// initStatuses returns the status of init containers: they have succeeded, and sidecars are running.
func initStatuses(pod *corev1.Pod, now metav1.Time) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		state := containerState{phase: ended, ready: true, started: now}
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			state.phase = running
		}
		statuses = append(statuses, containerStatus(c, state, now))
	}
	return statuses
}

// isBatch reports whether the pod is meant to end. A pod without a process then ends at once.
func isBatch(pod *corev1.Pod) bool {
	return pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
}

// succeededStatus returns the status of a pod whose containers have all succeeded.
func succeededStatus(pod *corev1.Pod, status corev1.PodStatus) corev1.PodStatus {
	states := make([]containerState, len(pod.Spec.Containers))
	for i := range states {
		states[i] = containerState{phase: ended, started: *status.StartTime}
	}
	return statusOf(pod, status.PodIP, *status.StartTime, states)
}

// sameStatus reports whether the object already has the wanted status. Times are not compared.
func sameStatus(is, want corev1.PodStatus) bool {
	if is.Phase != want.Phase || is.PodIP != want.PodIP || len(is.ContainerStatuses) != len(want.ContainerStatuses) {
		return false
	}
	for i := range want.ContainerStatuses {
		if !sameContainer(is.ContainerStatuses[i], want.ContainerStatuses[i]) {
			return false
		}
	}
	return equality.Semantic.DeepEqual(conditionMap(is), conditionMap(want))
}

func sameContainer(is, want corev1.ContainerStatus) bool {
	return is.Name == want.Name && is.Ready == want.Ready && is.RestartCount == want.RestartCount &&
		(is.State.Running == nil) == (want.State.Running == nil) &&
		(is.State.Terminated == nil) == (want.State.Terminated == nil)
}

func conditionMap(status corev1.PodStatus) map[corev1.PodConditionType]corev1.ConditionStatus {
	m := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, c := range status.Conditions {
		switch c.Type {
		case corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady:
			m[c.Type] = c.Status
		}
	}
	return m
}
