// Package bundles_test puts the controllers of the delivery to a real API server, as the account that the chart
// makes for them.
package bundles_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/helm"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/version"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	system = "cattle-fleet-system"
	// patience is how long a test waits for what should take milliseconds.
	patience = time.Minute
)

var control = plane.Share(plane.Options{BeforeControllers: helm.CRDs})

func TestMain(m *testing.M) {
	os.Exit(control.Main(m))
}

// quiet lets a plane be asked for outside of a test.
type quiet struct{}

func (quiet) Helper() {}

func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// account is that of the controllers, once the chart is installed.
var account = sync.OnceValues(func() (*rest.Config, error) {
	ctx := context.Background() // for all tests
	hub := control.Plane(quiet{}).Hub
	values := map[string]any{"apiServerURL": hub.URL, "apiServerCA": string(hub.CA)}
	if err := (helm.Release{Config: hub.Config(), Chart: "fleet", Name: "fleet", Namespace: system, Values: values}).Install(ctx); err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfig(hub.Config())
	if err != nil {
		return nil, err
	}
	token, err := clients.CoreV1().ServiceAccounts(system).CreateToken(ctx, "fleet-controller", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	cfg := rest.AnonymousClientConfig(hub.Config())
	cfg.BearerToken = token.Status.Token
	cfg.Wrap(upset.Transport)
	return kube.Tune(cfg), nil
})

// start runs the controllers until ctx ends.
func start(ctx context.Context) error {
	cfg, err := account()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(control.Plane(quiet{}).LogDir+"/controllers.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	a, err := hub.New(ctx, hub.Options{
		Own: kube.Own{Config: cfg}, Env: env.Controller{Namespace: system}, Version: version.Version,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		return err
	}
	return errors.Join(bundles.Register(ctx, a), a.Start(ctx))
}

// running starts the controllers once for all tests.
var running = sync.OnceValue(func() error { return start(context.Background()) })

// world is a workspace of one test.
type world struct {
	*client.Client
	workspace string
}

// newWorld makes a workspace beside running controllers.
func newWorld(t testing.TB) *world {
	t.Helper()
	control.Plane(t)
	if err := running(); err != nil {
		t.Fatal(err)
	}
	return newWorkspace(t)
}

func newWorkspace(t testing.TB) *world {
	t.Helper()
	c, err := client.New(control.Plane(t).Hub.Config())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Client: c, workspace: "w-" + names.KeyHash(t.TempDir())} // another one for every run
	if err := w.EnsureNamespace(t.Context(), w.workspace); err != nil {
		t.Fatal(err)
	}
	return w
}

// cluster makes a Cluster as the registration leaves it: with a namespace of its own.
func (w *world) cluster(t testing.TB, name string, labels map[string]string) *fleet.Cluster {
	t.Helper()
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.workspace, Name: name, Labels: labels}}
	must(t, w.Create(t.Context(), client.Clusters, c))
	must(t, w.EnsureNamespace(t.Context(), w.namespaceOf(name)))
	w.patchStatus(t, client.Clusters, w.workspace, name, map[string]any{"namespace": w.namespaceOf(name)})
	return c
}

func (w *world) namespaceOf(cluster string) string {
	return names.ClusterNamespace(w.workspace, cluster)
}

// bundle makes a Bundle with one file.
func (w *world) bundle(t testing.TB, name string, modifiers ...func(*fleet.Bundle)) *fleet.Bundle {
	t.Helper()
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: w.workspace, Name: name}}
	b.Spec.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: "# " + w.workspace + "/" + name + "\n"}}
	for _, modify := range modifiers {
		modify(b)
	}
	must(t, w.Create(t.Context(), client.Bundles, b))
	return b
}

func everywhere(b *fleet.Bundle) {
	b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{ClusterSelector: &metav1.LabelSelector{}})
}

func to(cluster string) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) {
		b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{ClusterName: cluster})
	}
}

func values(key string, value any) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) {
		b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{key: value}}}
	}
}

// patch merges a change into a Bundle.
func (w *world) patch(t testing.TB, resource, name string, change map[string]any) {
	t.Helper()
	body, err := json.Marshal(change)
	must(t, err)
	must(t, w.Patch(t.Context(), resource, w.workspace, name, body))
}

func (w *world) patchStatus(t testing.TB, resource, namespace, name string, status map[string]any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"status": status})
	must(t, err)
	must(t, w.Fleet.Patch(types.MergePatchType).Namespace(namespace).Resource(resource).Name(name).SubResource("status").Body(body).Do(t.Context()).Error())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// deployment waits until the BundleDeployment of a Bundle in a cluster is as wanted.
func (w *world) deployment(t testing.TB, bundle, cluster, what string, done func(*fleet.BundleDeployment) bool) *fleet.BundleDeployment {
	t.Helper()
	bd, err := client.Until(t.Context(), client.Await{
		From: w.Fleet, Resource: client.BundleDeployments, Namespace: w.namespaceOf(cluster), Name: bundle, For: what, Within: patience,
	}, done)
	must(t, err)
	return bd
}

func exists(*fleet.BundleDeployment) bool { return true }

// bundleThat waits until a Bundle is as wanted.
func (w *world) bundleThat(t testing.TB, name, what string, done func(*fleet.Bundle) bool) *fleet.Bundle {
	t.Helper()
	b, err := client.Until(t.Context(), client.Await{
		From: w.Fleet, Resource: client.Bundles, Namespace: w.workspace, Name: name, For: what, Within: patience,
	}, done)
	must(t, err)
	return b
}

func (w *world) clusterThat(t testing.TB, name, what string, done func(*fleet.Cluster) bool) *fleet.Cluster {
	t.Helper()
	c, err := client.Until(t.Context(), client.Await{
		From: w.Fleet, Resource: client.Clusters, Namespace: w.workspace, Name: name, For: what, Within: patience,
	}, done)
	must(t, err)
	return c
}

// report writes the status of an agent that has applied the deployment.
func (w *world) report(t testing.TB, bd *fleet.BundleDeployment, status map[string]any) {
	t.Helper()
	all := map[string]any{"appliedDeploymentID": bd.Spec.DeploymentID, "ready": true, "nonModified": true}
	for key, value := range status {
		all[key] = value
	}
	w.patchStatus(t, client.BundleDeployments, bd.Namespace, bd.Name, all)
}

// readyMessage is the message of condition Ready and whether there is one.
func readyMessage(b *fleet.Bundle) (string, bool) {
	condition := conditions.Get(b.Status.Conditions, conditions.Ready)
	if condition == nil {
		return "", false
	}
	return condition.Message, true
}

func isReady(b *fleet.Bundle) bool {
	condition := conditions.Get(b.Status.Conditions, conditions.Ready)
	return condition != nil && condition.Status == "True" && b.Status.ObservedGeneration == b.Generation
}
