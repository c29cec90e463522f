package pods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/dev/plane/podrunner"
	"github.com/fleet-hub/fleet/e2e/framework/await"
)

// patience limits a wait for something that takes about a second on an idle machine.
const patience = 60 * time.Second

// ours is the namespace whose pods the plane of the tests leaves to the podrunner.
const ours = "machine"

// control is a control plane whose own pod runner leaves the pods of one namespace alone.
var control = plane.Share(plane.Options{Hold: func(_ string, pod *corev1.Pod) bool { return pod.Namespace == ours }})

// TestMain also runs the podrunner and the agent, selected by the name the test binary is called by.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case Name:
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		err := Command().ExecuteContext(ctx)
		stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "agent":
		address := os.Getenv("FLEET_HEALTHPROBE_BIND_ADDRESS") //nolint:forbidigo // this is a process of a pod
		fmt.Fprintln(os.Stderr, http.ListenAndServe(address, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		os.Exit(1)
	}
	os.Exit(control.Main(m))
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

// machine starts a podrunner in a process group of its own, as a machine does, and returns its process.
func machine(t *testing.T, o Options) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), called(t, Name), o.Args()...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // most tests have ended it
		_ = cmd.Wait()
	})
	return cmd
}

func clientOf(t *testing.T, c *plane.Cluster) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ours}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the namespace's account", patience, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(ours).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return client
}

func pod(name string, command ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ours, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main:1", Command: command}}},
	}
}

// ready waits until the pod is Ready with a process other than before, and returns the process ID, or 0 without a process.
func ready(t *testing.T, client kubernetes.Interface, name string, before int) int {
	t.Helper()
	var pid int
	await.Until(t, "ready pod "+name, patience, func(ctx context.Context) error {
		pod, err := client.CoreV1().Pods(ours).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(pod.Status.ContainerStatuses) != 1 || !pod.Status.ContainerStatuses[0].Ready {
			return fmt.Errorf("status %+v", pod.Status)
		}
		id, isProcess := strings.CutPrefix(pod.Status.ContainerStatuses[0].ContainerID, podrunner.ProcessScheme)
		if !isProcess {
			return nil
		}
		if pid, err = strconv.Atoi(id); err == nil && pid == before {
			return fmt.Errorf("the process is still %d", pid)
		}
		return err
	})
	return pid
}

func gone(t *testing.T, pid int) {
	t.Helper()
	await.Until(t, fmt.Sprintf("end of process %d", pid), patience, func(context.Context) error {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal 0: %s", fmt.Sprint(err))
		}
		return nil
	})
}

func TestPods_RunAndEndWithTheirMachine(t *testing.T) {
	cluster := control.Plane(t).Hub
	client := clientOf(t, cluster)
	dir := t.TempDir()
	options := Options{
		Kubeconfig: cluster.KubeconfigPath, Dir: filepath.Join(dir, "pods"), LogDir: filepath.Join(dir, "logs"),
		Binaries: map[string]string{"agent": called(t, "agent"), "missing": "no-such-program"},
	}
	bound := pod("bound", "agent")
	bound.Spec.NodeName = "worker"
	for _, p := range []*corev1.Pod{bound, pod("fake", "other"), pod("agent", "/usr/bin/agent"), pod("missing", "missing")} {
		if _, err := client.CoreV1().Pods(ours).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	runner := machine(t, options)
	if pid := ready(t, client, "fake", 0); pid != 0 {
		t.Errorf("a pod without an executable has process %d", pid)
	}
	first := ready(t, client, "agent", 0)
	if group, err := syscall.Getpgid(first); err != nil || group != runner.Process.Pid {
		t.Errorf("process group %d, %v; want that of the machine, %d", group, err, runner.Process.Pid)
	}

	await.Until(t, "the cause why a pod does not run", patience, func(ctx context.Context) error {
		pod, err := client.CoreV1().Pods(ours).Get(ctx, "missing", metav1.GetOptions{})
		if err == nil && !strings.Contains(fmt.Sprint(pod.Status), "starting no-such-program: ") {
			err = fmt.Errorf("status %+v", pod.Status)
		}
		return err
	})

	// A killed podrunner takes its processes along; the next one starts them again.
	if err := errors.Join(runner.Process.Kill(), ignoreExit(runner.Wait())); err != nil {
		t.Fatal(err)
	}
	gone(t, first)
	runner = machine(t, options)
	second := ready(t, client, "agent", first)

	// A podrunner that is asked to stop leaves only logs.
	if err := runner.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := runner.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	gone(t, second)
	if _, err := os.Stat(options.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory of the pods: %v", err)
	}
	logs, err := filepath.Glob(filepath.Join(options.LogDir, "*"))
	wanted := []string{filepath.Join(options.LogDir, podrunner.LogFile(ours, "agent")), filepath.Join(options.LogDir, podrunner.LogFile(ours, "missing"))}
	if diff := cmp.Diff(wanted, logs); diff != "" || err != nil {
		t.Errorf("logs: %v (-want +got):\n%s", err, diff)
	}
	left, err := client.CoreV1().Pods(ours).Get(t.Context(), "bound", metav1.GetOptions{})
	if err != nil || left.Status.Phase != corev1.PodPending {
		t.Errorf("the pod of a node: %v, %v", left.Status, err)
	}
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

func TestInvalidFlags_AreRejectedBeforeAnythingIsRemoved(t *testing.T) {
	dir := t.TempDir()
	valid := Options{Kubeconfig: "/no/such/file", Dir: dir, LogDir: dir, Binaries: map[string]string{"agent": "/bin/agent"}}
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no kubeconfig":           {func(o *Options) { o.Kubeconfig = "" }, "invalid flags: --kubeconfig is required"},
		"no directory":            {func(o *Options) { o.Dir = "" }, "invalid flags: --dir is required"},
		"no directory of logs":    {func(o *Options) { o.LogDir = "" }, "invalid flags: --log-dir is required"},
		"relative executable":     {func(o *Options) { o.Binaries = map[string]string{"agent": "bin/agent"} }, "invalid flags: --binary: agent=bin/agent is neither an absolute path nor a name on the PATH"},
		"no executable":           {func(o *Options) { o.Binaries = map[string]string{"agent": ""} }, "invalid flags: --binary: agent= is neither an absolute path nor a name on the PATH"},
		"missing kubeconfig file": {func(*Options) {}, "reading the kubeconfig: stat /no/such/file: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			o := valid
			test.change(&o)
			cmd := Command()
			cmd.SetArgs(o.Args())
			if err := cmd.ExecuteContext(t.Context()); err == nil || err.Error() != test.want {
				t.Errorf("got error %v, want %s", err, test.want)
			}
			if _, err := os.Stat(dir); err != nil {
				t.Error(err)
			}
		})
	}
}
