// Package controllers_test puts the controllers of the registration to real API servers, as the account that the
// chart makes for them: whom they let do what, and how soon.
package agentmanagement_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement"
	ctrl "github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/logging"
)

const (
	system       = "cattle-fleet-system"
	registration = "cattle-fleet-clusters-system"
	// controller is the user of the controllers in the audit log.
	controller = "system:serviceaccount:" + system + ":fleet-controller"
	// patience is how long a test waits for what should take milliseconds.
	patience = 90 * time.Second
)

var control = plane.Share(plane.Options{Downstreams: []string{"east"}, BeforeControllers: helm.HubCRDs, Audit: true})

// upset has the faults that the controllers' requests meet.
var upset faults.Plan

// ahead is how far the controllers' clock is before everybody else's.
var ahead atomic.Int64

func TestMain(m *testing.M) { os.Exit(control.Main(m)) }

// quiet lets a plane be asked for outside of a test.
type quiet struct{}

func (quiet) Helper() {}

func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// running starts the controllers once for all tests.
var running = sync.OnceValue(func() error {
	ctx, hub := context.Background(), control.Plane(quiet{}).Hub // for all tests
	if err := chart(hub, map[string]any{}).Install(ctx); err != nil {
		return err
	}
	admin, err := client.New(hub.Config())
	if err != nil {
		return err
	}
	token, err := admin.Kube.CoreV1().ServiceAccounts(system).CreateToken(ctx, "fleet-controller", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(control.Plane(quiet{}).LogDir, "controllers.log"))
	if err != nil {
		return err
	}
	lines := logging.Options{Writer: file, Debug: true}
	log := logging.New(lines)
	logging.Bridge(log, lines)
	own := as(hub, token.Status.Token)
	own.Wrap(upset.Transport)
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- agentmanagement.Run(ctx, controllers(own, log, func() { close(started) }))
	}()
	select {
	case <-started:
		return nil
	case err := <-ended:
		return fmt.Errorf("the controllers ended: %w", err)
	case <-time.After(patience):
		return fmt.Errorf("the controllers did not start within %s", patience)
	}
})

// chart is the release of the controllers' chart, with these values of capi.
func chart(hub *plane.Cluster, capi map[string]any) helm.Release {
	return helm.Release{Config: hub.Config(), Chart: "fleet", Name: "fleet", Namespace: system, Values: map[string]any{
		"apiServerURL": hub.URL, "apiServerCA": string(hub.CA), "bootstrap": map[string]any{"enabled": false}, "allowLocalKubeconfigs": true, "capi": capi,
	}}
}

// controllers are those that all tests run, with this access to the hub.
func controllers(own *rest.Config, log *slog.Logger, started func()) agentmanagement.Options {
	return agentmanagement.Options{
		Options: ctrl.Options{
			Own: kube.Own{Config: kube.Tune(own)},
			Env: env.Controller{Namespace: system, DisableBootstrap: true, Agent: env.AgentSettings{
				Replicas: 1, LeaseDuration: "30s", RenewDeadline: "25s", RetryPeriod: "10s",
			}},
			Version: "dev",
			Log:     log,
			Clock:   func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		},
		OnStarted: started,
	}
}

// as is a cluster's API server for whoever has this token.
func as(cluster *plane.Cluster, token string) *rest.Config {
	cfg := rest.AnonymousClientConfig(cluster.Config())
	cfg.BearerToken, cfg.QPS = token, -1
	return cfg
}

// hub has the controllers at work; the client is an administrator's.
func hub(t *testing.T) *client.Client {
	t.Helper()
	if err := running(); err != nil {
		t.Fatal(err)
	}
	return reach(t, control.Plane(t).Hub.Config())
}

func reach(t *testing.T, cfg *rest.Config) *client.Client {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// workspace makes a namespace for a test, with a name that tells which.
func workspace(t *testing.T, c *client.Client, name string) string {
	t.Helper()
	if err := c.EnsureNamespace(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

// eventually is gomega's, as patient as all of these tests.
func eventually(t *testing.T, f func(Gomega)) {
	t.Helper()
	NewWithT(t).Eventually(f).WithContext(t.Context()).WithTimeout(patience).WithPolling(50 * time.Millisecond).Should(Succeed())
}

// entry is a line of the audit log.
type entry struct {
	Stage string
	Verb  string
	User  struct{ Username string }
	// ObjectRef is nil for requests that are about no resource.
	ObjectRef *struct{ Resource, Namespace, Name, Subresource string }
}

// String is "delete serviceaccounts ns/name".
func (e entry) String() string {
	if e.ObjectRef == nil {
		return e.Verb
	}
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	return fmt.Sprintf("%s %s %s/%s", e.Verb, resource, e.ObjectRef.Namespace, e.ObjectRef.Name)
}

// audited are the requests that a user has made to a cluster, watches left out. Past is how many to skip.
func audited(t *testing.T, cluster *plane.Cluster, user string, past int) (requests []string) {
	t.Helper()
	content, err := os.ReadFile(cluster.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, len(content)+1)
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // the line that is being written
		}
		if e.Stage == "ResponseComplete" && e.User.Username == user && e.Verb != "watch" {
			requests = append(requests, e.String())
		}
	}
	return requests[min(past, len(requests)):]
}

func secret(ctx context.Context, c *client.Client, namespace, name string) (*corev1.Secret, error) {
	return c.Kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}

func notFound() types.GomegaMatcher { return MatchError(apierrors.IsNotFound, "not found") }

func forbidden() types.GomegaMatcher { return MatchError(apierrors.IsForbidden, "forbidden") }

// isRefused is what somebody meets whose account is gone: its rights go at once, and the API server remembers for a
// few seconds whose the token was.
func isRefused(err error) bool { return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) }
