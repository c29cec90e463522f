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
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/e2e/framework/replica"
)

const (
	system  = "cattle-fleet-system"
	account = "fleet-controller"
	// patience is how long a test waits for what should take milliseconds.
	patience = time.Minute
)

// The hub has the charts.
var control = plane.Share(plane.Options{BeforeControllers: helm.HubCRDs, Audit: true})

func TestMain(m *testing.M) {
	if code, played := replica.Play(); played {
		os.Exit(code)
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

// process is a replica of which tests ask how it is.
type process struct{ *replica.Replica }

// start runs the command with these arguments as the account of a kubeconfig, with no more environment than it needs.
func start(t *testing.T, kubeconfig string, args ...string) *process {
	t.Helper()
	return startWith(t, replica.Options{Kubeconfig: kubeconfig, Args: args})
}

func startWith(t *testing.T, options replica.Options) *process {
	t.Helper()
	var err error
	options.Name = t.Name()
	if options.Folder, err = os.MkdirTemp(control.Plane(t).LogDir, "replica-"); err != nil {
		t.Fatal(err)
	}
	r, err := replica.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	return &process{r}
}

// stop asks the process to end, waits for it and returns its exit code.
func (p *process) stop() int {
	p.Stop()
	return p.exitCode()
}

func (p *process) exitCode() int {
	select {
	case <-p.Ended():
	case <-time.After(2 * patience):
		p.Kill()
	}
	return p.ExitCode()
}

// ready asks the process what it thinks of itself.
func (p *process) ready() (bool, string) {
	at := regexp.MustCompile(`msg=starting .*health=(\S+)`).FindStringSubmatch(p.Log())
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
func (p *process) awaitReady(reason string) error {
	end := time.After(patience)
	for {
		ready, why := p.ready()
		if ready && why == reason {
			return nil
		}
		select {
		case <-p.Ended():
			return fmt.Errorf("it ended with %d\n%s", p.ExitCode(), p.Log())
		case <-end:
			return fmt.Errorf("it is %q and not %q\n%s", why, reason, p.Log())
		case <-time.After(20 * time.Millisecond):
		}
	}
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
var leading *process

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
