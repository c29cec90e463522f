package plane

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/fleet-hub/fleet/dev/plane/requests"
)

// The test binary is also two other programs, selected by the name it is called by: the agent that a pod runs,
// and a caller of Start that is killed.
const (
	fakeAgent  = "fleetagent"
	fakeCaller = "plane-caller"
)

var control *Shared

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case fakeAgent:
		os.Exit(exitCode(beAgent()))
	case fakeCaller:
		os.Exit(exitCode(beCaller(os.Args[1])))
	}
	if err := os.Unsetenv(requests.Variable); err != nil { // this package runs no controllers
		panic(err)
	}
	dir, err := os.MkdirTemp("", "plane-test-")
	if err != nil {
		panic(err)
	}
	control = Share(Options{
		Downstreams: []string{"east", "later", "never"}, Later: []string{"later", "never"},
		Binaries:   map[string]string{fakeAgent: callMe(dir, fakeAgent)},
		ProcessEnv: []string{"GIVEN=by the plane"},
		Audit:      true,
		BeforeControllers: func(ctx context.Context, c *Cluster) error {
			return markHook(ctx, c)
		},
	})
	code := control.Main(m)
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(code)
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// callMe creates a symbolic link to the test binary.
func callMe(dir, name string) string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	link := filepath.Join(dir, name)
	if err := os.Symlink(self, link); err != nil {
		panic(err)
	}
	return link
}

// markHook creates a namespace that shows what the hook saw: controllers had not created a ServiceAccount yet.
func markHook(ctx context.Context, c *Cluster) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	accounts, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Data: map[string]string{"accounts": fmt.Sprint(len(accounts.Items)), "cluster": c.Name},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // the cluster starts again
		return nil
	}
	return err
}

// beAgent does what the pod runner can observe of an agent: it uses its kubeconfig, serves its health address,
// and ends on SIGTERM. It is ready once a ConfigMap "permit" exists.
func beAgent() error {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go logs requests that are cancelled, as probes are
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Fprintln(os.Stdout, "agent began, arguments", os.Args[1:])
	env := map[string]string{}
	for _, line := range os.Environ() {
		name, value, _ := strings.Cut(line, "=")
		env[name] = value
	}
	config, err := clientcmd.BuildConfigFromFlags("", env["KUBECONFIG"])
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	configMaps := client.CoreV1().ConfigMaps(env["NAMESPACE"])
	report := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "report-"}, Data: env}
	if _, err := configMaps.Create(ctx, report, metav1.CreateOptions{}); err != nil {
		return err
	}
	health := http.NewServeMux()
	health.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if _, err := configMaps.Get(r.Context(), "permit", metav1.GetOptions{}); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Addr: env["FLEET_HEALTHPROBE_BIND_ADDRESS"], Handler: health}
	go func() { _ = server.ListenAndServe() }()
	<-ctx.Done()
	fmt.Fprintln(os.Stdout, "agent was asked to end")
	return server.Close()
}

// beCaller starts a plane with a pod process, reports each stage, and waits to be killed.
func beCaller(logs string) error {
	dir, err := os.MkdirTemp(logs, "caller-")
	if err != nil {
		return err
	}
	p, err := Start(context.Background(), Options{
		LogDir: logs, Binaries: map[string]string{fakeAgent: callMe(dir, fakeAgent)},
		BeforeControllers: func(_ context.Context, c *Cluster) error {
			fmt.Fprintln(os.Stdout, "data", c.plane.dataDir)
			fmt.Fprintln(os.Stdout, "supervisor", c.plane.supervisor.PID())
			fmt.Fprintln(os.Stdout, halfWay)
			return nil
		},
	})
	if err != nil {
		return err
	}
	if err := runAgentPod(context.Background(), p.Hub); err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, ready)
	select {}
}

// The stages that a caller reports.
const (
	halfWay = "half-way"
	ready   = "ready"
)
