package podrunner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
)

func expectGolden(t *testing.T, file string, got any) {
	t.Helper()
	text, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	golden.Expect(t, file+".golden.yaml", string(text))
}

func at(minute int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC))
}

func statusPod(modify ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyAlways,
		Containers:    []corev1.Container{{Name: "one", Image: "example.com/one:1"}, {Name: "two", Image: "example.com/two:2"}},
	}}
	for _, m := range modify {
		m(pod)
	}
	return pod
}

func withInit(pod *corev1.Pod) {
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "example.com/first:1"}, {Name: "beside", Image: "example.com/beside:1", RestartPolicy: &always}}
}

// reportedBefore changes the pod to one that was not ready at minute 1.
func reportedBefore(pod *corev1.Pod) {
	start := at(0)
	pod.Status.StartTime = &start
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at(1)},
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", LastTransitionTime: at(1)},
	}
}

func TestStatusOf_MatchesTheGoldens(t *testing.T) {
	runs := containerState{phase: running, ready: true, started: at(2)}
	tests := map[string]struct {
		pod    *corev1.Pod
		states []containerState
		golden string
	}{
		"all containers are running": {statusPod(), []containerState{runs, runs}, "running"},
		"one container is not ready": {statusPod(), []containerState{runs, {phase: running, started: at(2)}}, "not-ready"},
		"one container waits for its restart": {statusPod(), []containerState{runs, {phase: waiting, reason: "CrashLoopBackOff", message: "exit status 1", restarts: 3,
			last: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", StartedAt: at(1), FinishedAt: at(2)}}}, "waiting"},
		"all containers have succeeded":                        {statusPod(), []containerState{{phase: ended, started: at(1)}, {phase: ended, started: at(1)}}, "succeeded"},
		"one container has failed":                             {statusPod(), []containerState{{phase: ended, started: at(1)}, {phase: ended, code: 2, started: at(1)}}, "failed"},
		"one container has ended, the other is running":        {statusPod(), []containerState{{phase: ended, started: at(1)}, runs}, "half-ended"},
		"init containers have succeeded, sidecars are running": {statusPod(withInit), []containerState{runs, runs}, "init"},
		"unchanged conditions keep their times":                {statusPod(reportedBefore), []containerState{runs, runs}, "times"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := test.pod.DeepCopy()
			expectGolden(t, test.golden, statusOf(test.pod, "10.42.0.1", at(3), test.states))
			if diff := cmp.Diff(before, test.pod); diff != "" {
				t.Errorf("the pod was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestContainerID_NamesTheRunningProcess(t *testing.T) {
	c := &corev1.Container{Name: "agent"}
	for name, test := range map[string]struct {
		state containerState
		want  string
	}{
		"running process":        {containerState{phase: running, pid: 4711}, "process://4711"},
		"no process":             {containerState{phase: running}, "plane://agent"},
		"waits for the restart":  {containerState{phase: waiting, pid: 4711}, "plane://agent"},
		"process that has ended": {containerState{phase: ended, pid: 4711}, "plane://agent"},
	} {
		if got := containerID(c, test.state); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestIsBatch_DependsOnTheRestartPolicy(t *testing.T) {
	for policy, want := range map[corev1.RestartPolicy]bool{
		corev1.RestartPolicyAlways: false, corev1.RestartPolicyOnFailure: true, corev1.RestartPolicyNever: true, "": false,
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: policy}}
		if got := isBatch(pod); got != want {
			t.Errorf("restart policy %q: %t", policy, got)
		}
	}
	pod := statusPod()
	expectGolden(t, "succeeded-at-once", succeededStatus(pod, runningStatus(pod, "10.42.0.1", at(3))))
}

func TestSameStatus_IgnoresTimes(t *testing.T) {
	want := runningStatus(statusPod(), "10.42.0.1", at(3))
	tests := map[string]struct {
		change func(*corev1.PodStatus)
		same   bool
	}{
		"equal: same":             {func(*corev1.PodStatus) {}, true},
		"only times differ: same": {func(s *corev1.PodStatus) { s.Conditions[0].LastTransitionTime = at(1); s.StartTime = nil }, true},
		"additional condition: same": {func(s *corev1.PodStatus) {
			s.Conditions = append(s.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget})
		}, true},
		"phase differs: not same":          {func(s *corev1.PodStatus) { s.Phase = corev1.PodPending }, false},
		"address differs: not same":        {func(s *corev1.PodStatus) { s.PodIP = "" }, false},
		"condition is missing: not same":   {func(s *corev1.PodStatus) { s.Conditions = s.Conditions[1:] }, false},
		"condition is false: not same":     {func(s *corev1.PodStatus) { s.Conditions[3].Status = corev1.ConditionFalse }, false},
		"container is missing: not same":   {func(s *corev1.PodStatus) { s.ContainerStatuses = s.ContainerStatuses[:1] }, false},
		"container is not ready: not same": {func(s *corev1.PodStatus) { s.ContainerStatuses[1].Ready = false }, false},
		"container waits: not same":        {func(s *corev1.PodStatus) { s.ContainerStatuses[1].State = corev1.ContainerState{} }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			is := want.DeepCopy()
			test.change(is)
			if got := sameStatus(*is, want); got != test.same {
				t.Errorf("same: %t", got)
			}
		})
	}
}
