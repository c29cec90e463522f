package podrunner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/dev/plane/supervise"
	"github.com/fleet-hub/fleet/e2e/framework/await"
)

// TestMain also runs the supervisor and the processes of pods, selected by the name the test binary is called by.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "supervisor":
		if err := supervise.Serve(os.Stdin, os.Stdout, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		supervise.KillOwnGroup()
		os.Exit(0)
	case "agent":
		os.Exit(beAgent(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// beAgent acts as its arguments say: "ready" serves the health address until SIGTERM, "stubborn" ignores SIGTERM,
// "once" fails the first time, and a number is an exit code.
func beAgent(args []string) int {
	fmt.Fprintln(os.Stdout, "began", args)
	var code int
	if _, err := fmt.Sscan(args[0], &code); err == nil {
		return code
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	var address string
	for _, line := range os.Environ() {
		if value, found := strings.CutPrefix(line, "FLEET_HEALTHPROBE_BIND_ADDRESS="); found {
			address = value
		}
	}
	go func() {
		_ = http.ListenAndServe(address, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}()
	for range asked {
		fmt.Fprintln(os.Stdout, "asked to end")
		if args[0] != "stubborn" {
			break
		}
	}
	return 0
}

func called(t *testing.T, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	return link
}

type fixture struct {
	client *fake.Clientset
	runner *Runner
	logs   string
	data   string
	// life is the lifetime of the tokens.
	life time.Duration
	// tokens is the number of tokens that were issued.
	tokens atomic.Int32
	// held are the UIDs of pods that must not run.
	held sync.Map
	// refusals is the number of status updates that the server still rejects.
	refusals atomic.Int32
}

// start runs a runner with a fake API server and real processes.
func start(t *testing.T, objects ...runtime.Object) *fixture {
	return startWith(t, time.Hour, objects...)
}

func startWith(t *testing.T, life time.Duration, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{client: fake.NewClientset(objects...), logs: t.TempDir(), data: filepath.Join(t.TempDir(), "data"), life: life}
	if err := os.Mkdir(f.data, 0o755); err != nil {
		t.Fatal(err)
	}
	f.client.PrependReactor("create", "serviceaccounts", f.token)
	watching := make(chan struct{})
	f.client.PrependWatchReactor("pods", func(action k8stesting.Action) (bool, watch.Interface, error) {
		events, err := f.client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		close(watching)
		return true, events, err
	})
	f.client.PrependReactor("patch", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		return f.refusals.Add(-1) >= 0, nil, errors.New("the server is unavailable")
	})
	supervisor, err := supervise.Launch(supervise.Options{Binary: called(t, "supervisor"), DataDir: f.data, Log: filepath.Join(f.logs, "supervisor.log")})
	if err != nil {
		t.Fatal(err)
	}
	f.runner, err = New(Options{
		Client: f.client, Launch: supervisor.Start, Ports: ports, Clock: time.Now, Say: t.Logf,
		Kubeconfig: func(tokenFile, namespace string) ([]byte, error) {
			return []byte("token from " + filepath.Base(tokenFile) + ", namespace " + namespace), nil
		},
		Hold: func(pod *corev1.Pod) bool {
			_, held := f.held.Load(pod.UID)
			return held
		},
		Binaries: map[string]string{"agent": called(t, "agent"), "gone": "/no/such/program"}, LogDir: f.logs, DataDir: filepath.Join(f.data, "pods"),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.runner.Run(ctx)
	}()
	<-watching // the fake server does not send changes that happen between list and watch
	t.Cleanup(func() {
		stop()
		<-done
		wait := f.runner.Close()
		if err := supervisor.Close(); err != nil {
			t.Error(err)
		}
		wait()
	})
	return f
}

func (f *fixture) token(action k8stesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(k8stesting.CreateActionImpl)
	if !ok || action.GetSubresource() != "token" {
		return false, nil, nil
	}
	if create.Name == "forbidden" {
		return true, nil, errors.New("no token for this ServiceAccount")
	}
	n := f.tokens.Add(1)
	return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{
		Token: fmt.Sprintf("%s-%d", create.Name, n), ExpirationTimestamp: metav1.NewTime(time.Now().Add(f.life)),
	}}, nil
}

func ports(n int) ([]int, error) {
	var all []int
	for range n {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = listener.Close() }()
		all = append(all, listener.Addr().(*net.TCPAddr).Port)
	}
	return all, nil
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	await.Until(t, "waiting", 2*time.Minute, func(context.Context) error { return check() })
}

func agentPod(does string, modify ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "u1"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, ServiceAccountName: "account",
			Containers: []corev1.Container{{Name: "agent", Image: "example.com/agent:1", Command: []string{"/usr/bin/agent", does}}},
		},
	}
	for _, m := range modify {
		m(pod)
	}
	return pod
}

func withUID(uid string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.UID = types.UID(uid) } }

func withPolicy(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = policy }
}

func withGrace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

func withAccount(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.ServiceAccountName = name }
}

func (f *fixture) create(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if _, err := f.client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) remove(t *testing.T) {
	t.Helper()
	if err := f.client.CoreV1().Pods("ns").Delete(t.Context(), "pod", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// expect waits until the summary of the pod's first container is want.
func (f *fixture) expect(t *testing.T, want string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, func() error {
		var err error
		if pod, err = f.client.CoreV1().Pods("ns").Get(t.Context(), "pod", metav1.GetOptions{}); err != nil {
			return err
		}
		if got := summary(pod); got != want {
			return fmt.Errorf("status is %q, want %q", got, want)
		}
		return nil
	})
	return pod
}

func summary(pod *corev1.Pod) string {
	if len(pod.Status.ContainerStatuses) == 0 {
		return "none"
	}
	c := pod.Status.ContainerStatuses[0]
	text := string(pod.Status.Phase)
	switch {
	case c.State.Waiting != nil:
		text += ", waiting: " + c.State.Waiting.Reason + ": " + c.State.Waiting.Message
	case c.State.Running != nil:
		text += fmt.Sprintf(", running, ready %t", c.Ready)
	case c.State.Terminated != nil:
		text += fmt.Sprintf(", ended with %d", c.State.Terminated.ExitCode)
	}
	return text
}

func (f *fixture) says(t *testing.T, file, want string) {
	t.Helper()
	eventually(t, func() error {
		got, err := os.ReadFile(filepath.Join(f.logs, file))
		if err == nil && string(got) != want {
			return fmt.Errorf("log:\n%s", cmp.Diff(want, string(got)))
		}
		return err
	})
}

func (f *fixture) noFolders(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		entries, err := os.ReadDir(filepath.Join(f.data, "pods"))
		if err == nil && len(entries) != 0 {
			return fmt.Errorf("left: %v", entries)
		}
		return err
	})
}

func TestPodWithoutProcess_RunsAtOnce(t *testing.T) {
	f := start(t)
	other := agentPod("ready")
	other.Spec.Containers[0].Command = []string{"something-else"}
	f.create(t, other)
	f.expect(t, "Running, running, ready true")
	job := agentPod("ready", withPolicy(corev1.RestartPolicyNever))
	job.Name, job.Spec.Containers[0].Command = "job", nil
	f.create(t, job)
	eventually(t, func() error {
		pod, err := f.client.CoreV1().Pods("ns").Get(t.Context(), "job", metav1.GetOptions{})
		if err == nil && summary(pod) != "Succeeded, ended with 0" {
			return errors.New(summary(pod))
		}
		return err
	})
}

func TestHeldPod_RunsAfterAChangeThatReleasesIt(t *testing.T) {
	for what, command := range map[string][]string{"a process": {"agent", "ready"}, "nothing to run": nil} {
		t.Run(what, func(t *testing.T) {
			f := start(t)
			f.held.Store(types.UID("u1"), true)
			held, other := agentPod("ready"), agentPod("ready", withUID("u2"))
			held.Spec.Containers[0].Command = command
			other.Namespace = "other"
			f.create(t, held)
			f.create(t, other)
			eventually(t, func() error { // when the later pod runs, the runner has seen both
				pod, err := f.client.CoreV1().Pods("other").Get(t.Context(), "pod", metav1.GetOptions{})
				if err == nil && summary(pod) != "Running, running, ready true" {
					return errors.New(summary(pod))
				}
				return err
			})
			f.expect(t, "none")
			f.held.Delete(types.UID("u1"))
			held.Annotations = map[string]string{"let": "go"}
			if _, err := f.client.CoreV1().Pods("ns").Update(t.Context(), held, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			f.expect(t, "Running, running, ready true")
		})
	}
}

func TestPodOfANode_IsLeftToItsKubelet(t *testing.T) {
	bound := func(p *corev1.Pod) { p.Spec.NodeName = "worker" }
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for name, pod := range map[string]*corev1.Pod{
		"new pod": agentPod("ready", bound),
		"terminating pod": agentPod("ready", bound, func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &now, []string{"example.com/held"}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, pod)
			other := agentPod("ready", withUID("u2"))
			other.Namespace = "other"
			f.create(t, other)
			eventually(t, func() error { // when the later pod runs, the runner has seen both
				pod, err := f.client.CoreV1().Pods("other").Get(t.Context(), "pod", metav1.GetOptions{})
				if err == nil && summary(pod) != "Running, running, ready true" {
					return errors.New(summary(pod))
				}
				return err
			})
			f.expect(t, "none")
		})
	}
}

func TestPodThatIsBoundLater_LosesItsProcess(t *testing.T) {
	f := start(t)
	pod := agentPod("ready")
	f.create(t, pod)
	running := f.expect(t, "Running, running, ready true")
	running.Spec.NodeName = "worker"
	if _, err := f.client.CoreV1().Pods("ns").Update(t.Context(), running, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.says(t, LogFile("ns", "pod"), "began [ready]\nasked to end\n")
	f.noFolders(t)
}

func TestRejectedStatusUpdate_IsRetried(t *testing.T) {
	f := start(t)
	f.refusals.Store(3)
	plain := agentPod("ready")
	plain.Spec.Containers[0].Command = nil
	f.create(t, plain)
	f.expect(t, "Running, running, ready true")
	f.remove(t)
	f.refusals.Store(3)
	f.create(t, agentPod("ready", withUID("u2")))
	f.expect(t, "Running, running, ready true")
}

func TestProcess_BecomesReadyAndEndsWithItsPod(t *testing.T) {
	f := start(t)
	f.create(t, agentPod("ready"))
	f.expect(t, "Running, running, ready true")
	folder := filepath.Join(f.data, "pods", "u1")
	for file, want := range map[string]string{"kubeconfig": "token from token, namespace ns", "token": "account-1"} {
		if got, err := os.ReadFile(filepath.Join(folder, file)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
	f.remove(t)
	f.says(t, LogFile("ns", "pod"), "began [ready]\nasked to end\n")
	f.noFolders(t)
}

func TestEndedProcess_FollowsTheRestartPolicy(t *testing.T) {
	tests := map[string]struct {
		does   string
		policy corev1.RestartPolicy
		want   string
	}{
		"Always, failure: restarted":    {"7", corev1.RestartPolicyAlways, "Running, waiting: CrashLoopBackOff: exit status 7"},
		"Always, success: restarted":    {"0", corev1.RestartPolicyAlways, "Running, waiting: CrashLoopBackOff: exit status 0"},
		"OnFailure, failure: restarted": {"7", corev1.RestartPolicyOnFailure, "Running, waiting: CrashLoopBackOff: exit status 7"},
		"OnFailure, success: Succeeded": {"0", corev1.RestartPolicyOnFailure, "Succeeded, ended with 0"},
		"Never, failure: Failed":        {"7", corev1.RestartPolicyNever, "Failed, ended with 7"},
		"Never, success: Succeeded":     {"0", corev1.RestartPolicyNever, "Succeeded, ended with 0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			f.create(t, agentPod(test.does, withPolicy(test.policy)))
			pod := f.expect(t, test.want)
			if !strings.Contains(test.want, "waiting") {
				f.says(t, LogFile("ns", "pod"), "began ["+test.does+"]\n")
				return
			}
			eventually(t, func() error {
				pod, err := f.client.CoreV1().Pods("ns").Get(t.Context(), pod.Name, metav1.GetOptions{})
				if err == nil && pod.Status.ContainerStatuses[0].RestartCount < 3 {
					return fmt.Errorf("%d restarts", pod.Status.ContainerStatuses[0].RestartCount)
				}
				return err
			})
		})
	}
}

func TestProcessThatIgnoresSIGTERM_IsKilledAfterTheGracePeriod(t *testing.T) {
	f := start(t)
	f.create(t, agentPod("stubborn", withGrace(0)))
	f.expect(t, "Running, running, ready true")
	f.remove(t)
	f.noFolders(t)
	if err := f.runner.Kill(t.Context(), "ns", "pod"); !errors.Is(err, ErrNoProcess) {
		t.Errorf("want no process, got %v", err)
	}
}

func TestKilledProcess_IsRestarted(t *testing.T) {
	f := start(t)
	f.create(t, agentPod("ready"))
	f.expect(t, "Running, running, ready true")
	if pids := f.runner.PIDs("ns", "pod"); len(pids) != 1 || pids[0] <= 0 {
		t.Errorf("processes %v", pids)
	}
	if err := f.runner.Kill(t.Context(), "ns", "pod"); err != nil {
		t.Fatal(err)
	}
	f.says(t, LogFile("ns", "pod"), "began [ready]\nbegan [ready]\n")
	eventually(t, func() error { // the status may still be that of the killed process
		pod, err := f.client.CoreV1().Pods("ns").Get(t.Context(), "pod", metav1.GetOptions{})
		if err == nil && pod.Status.ContainerStatuses[0].RestartCount == 0 {
			return errors.New("the status shows no restart")
		}
		return err
	})
	pod := f.expect(t, "Running, running, ready true")
	c := pod.Status.ContainerStatuses[0]
	if last := c.LastTerminationState.Terminated; c.RestartCount != 1 || last == nil || last.Signal != 9 || last.ExitCode != 137 {
		t.Errorf("after the kill: %+v", c)
	}
}

func TestPodWithReusedName_WaitsForTheEarlierPod(t *testing.T) {
	f := start(t)
	f.create(t, agentPod("ready"))
	f.expect(t, "Running, running, ready true")
	f.remove(t)
	f.create(t, agentPod("ready", withUID("u2")))
	f.says(t, LogFile("ns", "pod"), "began [ready]\nasked to end\nbegan [ready]\n")
	f.expect(t, "Running, running, ready true")
}

func TestTerminatingPod_IsDeletedFromTheAPI(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	leaving := agentPod("ready")
	leaving.DeletionTimestamp, leaving.Finalizers = &now, []string{"example.com/held"}
	f := start(t, leaving)
	eventually(t, func() error {
		_, err := f.client.CoreV1().Pods("ns").Get(t.Context(), "pod", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("still exists: %s", fmt.Sprint(err))
	})
	var deletions []metav1.DeleteOptions
	for _, action := range f.client.Actions() {
		if d, ok := action.(k8stesting.DeleteActionImpl); ok {
			deletions = append(deletions, d.DeleteOptions)
		}
	}
	zero, uid := int64(0), types.UID("u1")
	want := []metav1.DeleteOptions{{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &uid}}}
	if diff := cmp.Diff(want, deletions); diff != "" {
		t.Errorf("deletions (-want +got):\n%s", diff)
	}
}

func TestMissingEnvironment_StartsTheProcessWhenItExists(t *testing.T) {
	f := start(t)
	f.create(t, agentPod("ready", func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: fromConfigMap("later", "key", false)}}
		p.Spec.Containers[0].Args = []string{"$(A)"}
	}))
	f.expect(t, `Running, waiting: CreateContainerConfigError: resolving the environment failed: A: configmaps "later" not found`)
	later := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "later"}, Data: map[string]string{"key": "value"}}
	if _, err := f.client.CoreV1().ConfigMaps("ns").Create(t.Context(), later, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "Running, running, ready true")
	f.says(t, LogFile("ns", "pod"), "began [ready value]\n")
}

func TestMissingToken_IsReportedInTheStatus(t *testing.T) {
	f := start(t)
	f.create(t, agentPod("ready", withAccount("forbidden")))
	f.expect(t, "Running, waiting: CreateContainerConfigError: requesting a token for ServiceAccount forbidden: no token for this ServiceAccount")
}

func TestMissingExecutable_IsReportedInTheStatus(t *testing.T) {
	f := start(t)
	f.create(t, agentPod("ready", func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"gone"} }))
	f.expect(t, "Running, waiting: RunContainerError: starting /no/such/program: fork/exec /no/such/program: no such file or directory")
}

func TestToken_IsRenewedBeforeItExpires(t *testing.T) {
	f := startWith(t, 50*time.Millisecond)
	f.create(t, agentPod("ready", withAccount("")))
	eventually(t, func() error {
		got, err := os.ReadFile(filepath.Join(f.data, "pods", "u1", "token"))
		if err == nil && (string(got) == "default-1" || !strings.HasPrefix(string(got), "default-")) {
			return fmt.Errorf("token %q", got)
		}
		return err
	})
	f.expect(t, "Running, running, ready true")
}

func TestSeveralContainers_RunAsProcesses(t *testing.T) {
	f := start(t)
	f.create(t, agentPod("ready", func(p *corev1.Pod) {
		second := p.Spec.Containers[0]
		second.Name = "second"
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "plain", Image: "example.com/plain:1"}, second)
	}))
	eventually(t, func() error {
		pod, err := f.client.CoreV1().Pods("ns").Get(t.Context(), "pod", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", pod.Status.Conditions)
	})
	f.says(t, LogFile("ns", "pod"), "began [ready]\n")
	f.says(t, LogFile("ns", "pod_second"), "began [ready]\n")
	f.remove(t)
	f.says(t, LogFile("ns", "pod"), "began [ready]\nasked to end\n")
	f.says(t, LogFile("ns", "pod_second"), "began [ready]\nasked to end\n")
}

func TestAddresses_Differ(t *testing.T) {
	r := &Runner{}
	seen := map[string]bool{}
	for range 1000 {
		address := r.address(&corev1.Pod{})
		if seen[address] || net.ParseIP(address) == nil {
			t.Fatalf("address %q", address)
		}
		seen[address] = true
	}
	if got := r.address(&corev1.Pod{Status: corev1.PodStatus{PodIP: "10.0.0.7"}}); got != "10.0.0.7" {
		t.Errorf("a pod with an address gets %q", got)
	}
}
