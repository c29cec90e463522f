// Package controller_test runs fleetcontroller as a process of its own against real API servers, as the account
// that the chart makes for it.
package controller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/cmd/controller"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/plane"
)

const (
	system  = "cattle-fleet-system"
	account = "fleet-controller"
	// patience is how long a test waits for what should take milliseconds.
	patience = 30 * time.Second
	// program is the name under which the test binary plays fleetcontroller.
	program = "fleetcontroller"
)

// The hub has the charts; bare is an API server without our CRDs.
var control = plane.Share(plane.Options{Downstreams: []string{"bare"}, BeforeControllers: installCRDs, Audit: true})

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == program {
		os.Exit(beController())
	}
	code := control.Main(running{m})
	os.Exit(code)
}

// running ends the shared replica before the control planes end.
type running struct{ tests *testing.M }

// Run is what a TestMain runs.
func (r running) Run() int {
	code := r.tests.Run()
	if leading != nil {
		_ = leading.stop() // a test has looked at how it ends
	}
	return code
}

// beController is what cmd/controller does.
func beController() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := controller.New(env.OS, os.Stderr).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "fleetcontroller:", err)
		return 1
	}
	return 0
}

func installCRDs(ctx context.Context, c *plane.Cluster) error {
	if c.Name != plane.HubName {
		return nil
	}
	return helm.Release{Config: c.Config(), Chart: "fleet-crd", Name: "fleet-crd", Namespace: system}.Install(ctx)
}

// replica is one process.
type replica struct {
	cmd  *exec.Cmd
	log  *lines
	done chan struct{}
	err  error
}

// start runs the command with these arguments as the chart's account of a cluster, with no more environment than
// it needs.
func start(t *testing.T, kubeconfig string, args ...string) *replica {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), program)
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	r := &replica{cmd: exec.Command(name, args...), log: &lines{}, done: make(chan struct{})}
	r.cmd.Env = []string{
		"KUBECONFIG=" + kubeconfig, "NAMESPACE=" + system, "POD_NAME=" + t.Name(),
		"FLEET_HEALTHPROBE_BIND_ADDRESS=127.0.0.1:0", "FLEET_METRICS_BIND_ADDRESS=127.0.0.1:0",
		"CATTLE_ELECTION_LEASE_DURATION=10s", "CATTLE_ELECTION_RENEW_DEADLINE=8s", "CATTLE_ELECTION_RETRY_PERIOD=1s",
	}
	r.cmd.Stderr = r.log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.done)
	}()
	return r
}

// stop asks the process to end, waits for it and returns its exit code.
func (r *replica) stop() int {
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // one that has ended already is what was wanted
	return r.exitCode()
}

func (r *replica) exitCode() int {
	select {
	case <-r.done:
	case <-time.After(2 * patience):
		_ = r.cmd.Process.Kill()
		<-r.done
	}
	return r.cmd.ProcessState.ExitCode()
}

// ready asks the process what it thinks of itself.
func (r *replica) ready() (bool, string) {
	at := regexp.MustCompile(`msg=starting .*health=(\S+)`).FindStringSubmatch(r.log.String())
	if at == nil {
		return false, "no address yet"
	}
	response, err := http.Get("http://" + at[1] + "/readyz")
	if err != nil {
		return false, err.Error()
	}
	defer response.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	return err == nil && response.StatusCode == http.StatusOK, strings.TrimSpace(body.String())
}

// awaitReady waits until the process is ready for this reason.
func (r *replica) awaitReady(reason string) error {
	end := time.After(patience)
	for {
		ready, why := r.ready()
		if ready && why == reason {
			return nil
		}
		select {
		case <-r.done:
			return fmt.Errorf("it ended: %w\n%s", r.err, r.log)
		case <-end:
			return fmt.Errorf("it is %q and not %q\n%s", why, reason, r.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lines is a buffer for two goroutines.
type lines struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

// installed is the kubeconfig of the chart's account on the hub, once the chart is installed.
var installed = sync.OnceValues(func() (string, error) {
	ctx := context.Background() // for all tests
	hub := control.Plane(quiet{}).Hub
	values := map[string]any{
		"apiServerURL": hub.URL, "apiServerCA": string(hub.CA),
		"bootstrap": map[string]any{"clusterLabels": map[string]any{"env": "hub"}},
	}
	if err := (helm.Release{Config: hub.Config(), Chart: "fleet", Name: "fleet", Namespace: system, Values: values}).Install(ctx); err != nil {
		return "", err
	}
	return kubeconfigFor(ctx, hub)
})

// kubeconfigFor writes a kubeconfig for the controllers' account beside the logs of the control planes.
func kubeconfigFor(ctx context.Context, cluster *plane.Cluster) (string, error) {
	admin, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		return "", err
	}
	token, err := admin.CoreV1().ServiceAccounts(system).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return writeKubeconfig(cluster, cluster.URL, token.Status.Token)
}

func writeKubeconfig(cluster *plane.Cluster, server, token string) (string, error) {
	cfg := api.NewConfig()
	cfg.Clusters["c"] = &api.Cluster{Server: server, CertificateAuthorityData: cluster.CA}
	cfg.AuthInfos["u"] = &api.AuthInfo{Token: token}
	cfg.Contexts["x"] = &api.Context{Cluster: "c", AuthInfo: "u"}
	cfg.CurrentContext = "x"
	file, err := os.CreateTemp(control.Plane(quiet{}).LogDir, "kubeconfig-")
	if err != nil {
		return "", err
	}
	return file.Name(), errors.Join(file.Close(), clientcmd.WriteToFile(*cfg, file.Name()))
}

// quiet lets a plane be asked for outside of a test.
type quiet struct{}

func (quiet) Helper() {}

func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// leading is the replica that most tests share.
var leading *replica

// hub has a leading replica; the client is an administrator's.
func hub(t *testing.T) *client.Client {
	t.Helper()
	kubeconfig, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	if leading == nil {
		leading = start(t, kubeconfig)
		if err := leading.awaitReady("leading"); err != nil {
			t.Fatal(err)
		}
	}
	return administrator(t, control.Plane(t).Hub.Config())
}

func administrator(t *testing.T, cfg *rest.Config) *client.Client {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// workspace makes a namespace for a test's Clusters.
func workspace(t *testing.T, hub *client.Client, name string) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := hub.Kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
}
