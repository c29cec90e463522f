package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const (
	// recently is how long a restart counts.
	recently = time.Hour
	// messageLimit is how much of a message of the cluster is in a cause, in bytes.
	messageLimit = 300
	// firstMemory is the memory limit that is proposed if the container has none.
	firstMemory = "512Mi"
	// reasonOOM is the reason of a container that the kernel has ended.
	reasonOOM = "OOMKilled"
)

// podChecks returns the checks of the agent's pods.
func podChecks() []check.Check[*Facts] {
	pods := sources(SourceDeployment, SourcePods)
	return []check.Check[*Facts]{
		{ID: "agent-pods-created", Needs: sources(SourceDeployment, SourcePods, SourceEvents), Judge: checkRefused},
		{ID: "agent-pods-scheduled", Needs: pods, Judge: checkScheduled},
		{ID: "agent-pods-image", Needs: pods, Judge: checkImages},
		{ID: "agent-pods-memory", Needs: pods, Judge: checkMemory},
		{ID: "agent-pods-running", Needs: pods, Judge: checkRunning},
	}
}

func podObject(pod *corev1.Pod) check.Object {
	return check.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}
}

// current returns the pods that are to run: not those that are being deleted or have ended.
func (f *Facts) current() (pods []corev1.Pod) {
	for _, pod := range f.Pods {
		if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
			pods = append(pods, pod)
		}
	}
	return pods
}

func checkRefused(f *Facts) []check.Row {
	if f.Deployment == nil {
		return nil
	}
	for _, condition := range f.Deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			return []check.Row{f.refusal(condition.Message)}
		}
	}
	if last := f.lastRefusal(); last != nil && len(f.current()) == 0 {
		return []check.Row{f.refusal(last.Message)}
	}
	return nil
}

// lastRefusal returns the last Event about a pod of the agent that was not created, or nil.
func (f *Facts) lastRefusal() (last *corev1.Event) {
	for i, event := range f.Refused {
		if strings.HasPrefix(event.InvolvedObject.Name, names.Agent+"-") && (last == nil || last.LastTimestamp.Before(&event.LastTimestamp)) {
			last = &f.Refused[i]
		}
	}
	return last
}

// refusal returns the row for pods that the API server does not create.
func (f *Facts) refusal(message string) check.Row {
	fix := f.onCluster("kubectl", "describe", "replicasets", "-n", f.Namespace, "-l", "app="+names.Agent)
	switch quota, patch := raisedQuota(message); {
	case quota != "":
		fix = f.onCluster("kubectl", "patch", "resourcequota", "-n", f.Namespace, quota, "--type=merge", "-p", patch)
	case strings.Contains(message, "violates PodSecurity"):
		fix = f.onCluster("kubectl", "label", "namespace", f.Namespace, "--overwrite", "pod-security.kubernetes.io/enforce="+f.podSecurity())
	case strings.Contains(message, "error looking up service account"):
		fix = f.createAccount()
	}
	return check.Fail(f.deploymentObject(), "the API server does not create the agent's pod: "+message, fix)
}

// exceeded matches the message of the API server about a quota.
var exceeded = regexp.MustCompile(`exceeded quota: ([a-z0-9.-]{1,253}), requested: (\S{1,512}), used: (\S{1,512}), limited: `)

// raisedQuota returns the name of the quota in a message, and a patch with what a pod needs in addition to what is used.
func raisedQuota(message string) (name, patch string) {
	found := exceeded.FindStringSubmatch(message)
	if found == nil || remedy.NameOr(found[1], "") == "" {
		return "", ""
	}
	requested, used := amounts(found[2]), amounts(found[3])
	hard := map[string]string{}
	for resource, amount := range requested {
		sum := amount.DeepCopy()
		sum.Add(used[resource])
		hard[resource] = sum.String()
	}
	encoded, err := json.Marshal(map[string]any{"spec": map[string]any{"hard": hard}})
	if err != nil || len(hard) == 0 {
		return "", ""
	}
	return found[1], string(encoded)
}

// amounts parses "cpu=1,pods=2".
func amounts(text string) map[string]resource.Quantity {
	all := map[string]resource.Quantity{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		if amount, err := resource.ParseQuantity(value); err == nil {
			all[name] = amount
		}
	}
	return all
}

// podSecurity returns the strictest level that admits the agent's pods.
func (f *Facts) podSecurity() string {
	if f.Deployment.Spec.Template.Spec.HostNetwork {
		return "privileged"
	}
	return "baseline"
}

func checkScheduled(f *Facts) (rows []check.Row) {
	for _, pod := range f.current() {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				rows = check.Group(rows, condition.Message, check.Fail(podObject(&pod), "no node fits: "+condition.Message, f.describePods()))
			}
		}
	}
	return rows
}

// imageReasons are the reasons of containers whose image is missing.
func imageReasons() []string {
	return []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable"}
}

func checkImages(f *Facts) (rows []check.Row) {
	for _, pod := range f.current() {
		for _, status := range pod.Status.ContainerStatuses {
			if waiting := status.State.Waiting; waiting != nil && slices.Contains(imageReasons(), waiting.Reason) {
				rows = check.Group(rows, status.Image, check.Fail(podObject(&pod), fmt.Sprintf("image %s: %s: %s", status.Image, waiting.Reason, excerpt(waiting.Message)), f.lastImage()))
			}
		}
	}
	return rows
}

// lastImage returns the command that returns to the last image, if there was one.
func (f *Facts) lastImage() string {
	if f.Deployment != nil && f.Deployment.Annotations["deployment.kubernetes.io/revision"] > "1" {
		return f.onCluster("kubectl", "rollout", "undo", "-n", f.Namespace, "deployment/"+names.Agent)
	}
	return f.describePods()
}

// lastEnd returns the last end of a container, or nil if it never ended.
func lastEnd(status corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if ended := status.State.Terminated; ended != nil {
		return ended
	}
	return status.LastTerminationState.Terminated
}

// isRecent reports whether a container ended within the last hour.
func (f *Facts) isRecent(ended *corev1.ContainerStateTerminated) bool {
	return ended != nil && f.Now.Sub(ended.FinishedAt.Time) < recently
}

func checkMemory(f *Facts) (rows []check.Row) {
	for _, pod := range f.current() {
		for _, status := range pod.Status.ContainerStatuses {
			if ended := lastEnd(status); f.isRecent(ended) && ended.Reason == reasonOOM {
				limit := f.memoryLimit(status.Name)
				rows = check.Group(rows, "", check.Fail(podObject(&pod), fmt.Sprintf("the container was OOM-killed %s ago (%d restarts); its memory limit is %s",
					duration.HumanDuration(f.Now.Sub(ended.FinishedAt.Time)), status.RestartCount, cmp.Or(limit, "none")), f.raiseMemory(status.Name, limit)))
			}
		}
	}
	return rows
}

func (f *Facts) memoryLimit(container string) string {
	if f.Deployment == nil {
		return ""
	}
	for _, c := range f.Deployment.Spec.Template.Spec.Containers {
		if limit, found := c.Resources.Limits[corev1.ResourceMemory]; found && c.Name == container {
			return limit.String()
		}
	}
	return ""
}

// raiseMemory returns the command that doubles a limit.
func (f *Facts) raiseMemory(container, limit string) string {
	raised := firstMemory
	if amount, err := resource.ParseQuantity(limit); err == nil && amount.Sign() > 0 {
		doubled := amount.DeepCopy()
		doubled.Add(amount)
		raised = doubled.String()
	}
	return f.onCluster("kubectl", "set", "resources", "-n", f.Namespace, "deployment/"+names.Agent, "-c", remedy.NameOr(container, names.Agent), "--limits=memory="+raised)
}

func checkRunning(f *Facts) (rows []check.Row) {
	for _, pod := range f.current() {
		for _, status := range pod.Status.ContainerStatuses {
			if row, found := f.judgeContainer(&pod, status); found {
				rows = check.Group(rows, string(row.Verdict), row)
			}
		}
	}
	return rows
}

// judgeContainer returns the row for a container that does not run, or has failed recently. Images and memory have checks of
// their own.
func (f *Facts) judgeContainer(pod *corev1.Pod, status corev1.ContainerStatus) (row check.Row, found bool) {
	waiting, ended := status.State.Waiting, lastEnd(status)
	previous := f.logs("--previous")
	if status.State.Terminated != nil {
		previous = f.logs()
	}
	switch {
	case hasOwnCheck(waiting, ended):
		return check.Row{}, false
	case waiting != nil && ended != nil:
		return check.Fail(podObject(pod), fmt.Sprintf("the container does not run (%s, %d restarts): %s", waiting.Reason, status.RestartCount, describeEnd(ended)), previous), true
	case waiting != nil && !slices.Contains([]string{"ContainerCreating", "PodInitializing"}, waiting.Reason):
		return check.Fail(podObject(pod), fmt.Sprintf("the container does not run: %s: %s", waiting.Reason, excerpt(waiting.Message)), f.describePods()), true
	case status.State.Terminated != nil:
		return check.Fail(podObject(pod), "the container does not run: "+describeEnd(ended), previous), true
	case f.isRecent(ended) && ended.ExitCode != 0:
		return check.Warn(podObject(pod), fmt.Sprintf("the container runs, but it last ended %s ago (%d restarts): %s",
			duration.HumanDuration(f.Now.Sub(ended.FinishedAt.Time)), status.RestartCount, describeEnd(ended)), previous), true
	}
	return check.Row{}, false
}

// hasOwnCheck reports whether another check judges why a container waits or has ended.
func hasOwnCheck(waiting *corev1.ContainerStateWaiting, ended *corev1.ContainerStateTerminated) bool {
	return ended != nil && ended.Reason == reasonOOM || waiting != nil && slices.Contains(imageReasons(), waiting.Reason)
}

func describeEnd(ended *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("exit code %d", ended.ExitCode)
	if ended.Reason != "" && ended.Reason != "Error" {
		text += ", " + ended.Reason
	}
	if ended.Message != "" {
		text += ": " + excerpt(ended.Message)
	}
	return text
}

// excerpt returns the beginning of a text of the cluster.
func excerpt(text string) string { return foreign.Excerpt(text, messageLimit) }
