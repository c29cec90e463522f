package bundle

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/outcomes"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// delivery is the handler of Bundles on an API server in memory, with Clusters k-000 and following.
type delivery struct {
	*handler
	hub *hubtest.Hub
}

func newDelivery(t *testing.T, b *fleet.Bundle, clusters int) *delivery {
	t.Helper()
	hub := hubtest.New(t)
	index.Add(hub.App)
	hub.App.Log = slog.New(slog.DiscardHandler)
	h := newHandler(hub.App, outcomes.New())
	b.UID, b.Finalizers = "u-web", []string{fleet.FinalizerBundle}
	hub.Put(b)
	for number := range clusters {
		hub.Put(cluster(nameOf(number), inPlace))
	}
	return &delivery{handler: h, hub: hub}
}

// placeOf is the namespace of a Cluster of ws, and inPlace gives it that.
func placeOf(cluster string) string { return names.ClusterNamespace("ws", cluster) }

func inPlace(c *fleet.Cluster) { c.Status.Namespace = placeOf(c.Name) }

// deployedIn is that a BundleDeployment is where the hub makes that of web for this cluster.
func deployedIn(name string, modifiers ...func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
	bd := existing(name, modifiers...)
	bd.Namespace = placeOf(name)
	return bd
}

func nameOf(number int) string { return fmt.Sprintf("k-%03d", number) }

// createOf and changeOf are requests of Hub.Fail.
func createOf(number int) string {
	return "create BundleDeployment " + placeOf(nameOf(number)) + "/web"
}
func changeOf(number int) string {
	return "update BundleDeployment " + placeOf(nameOf(number)) + "/web"
}

// fail answers these requests with an error.
func (d *delivery) fail(err error, requests ...string) {
	for _, request := range requests {
		d.hub.Fail(request, err)
	}
}

// pass makes one pass over the Bundle.
func (d *delivery) pass(ctx context.Context) error { return d.handle(ctx, web) }

// settle applies everything that the agents have to apply, and waits for the caches.
func (d *delivery) settle(t *testing.T) {
	t.Helper()
	for _, bd := range d.all(t) {
		bd.Status.AppliedDeploymentID, bd.Status.Ready = bd.Spec.DeploymentID, true
		d.hub.Have(bd)
	}
	d.hub.Sync()
	d.hub.Requests()
}

// apply applies what was promoted, and waits for the caches. The agents that have nothing to apply report nothing.
func (d *delivery) apply(t *testing.T) {
	t.Helper()
	for _, bd := range d.all(t) {
		if bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID {
			bd.Status.AppliedDeploymentID = bd.Spec.DeploymentID
			d.hub.Have(bd)
		}
	}
	d.hub.Sync()
	d.hub.Requests()
}

// change gives the Bundle a new version.
func (d *delivery) change(t *testing.T, modifiers ...func(*fleet.Bundle)) {
	t.Helper()
	b := hubtest.MustGet[*fleet.Bundle](t, d.hub, "ws", "web")
	b.Generation++
	b.Spec.DefaultNamespace = fmt.Sprint("generation-", b.Generation)
	for _, modify := range modifiers {
		modify(b)
	}
	d.hub.Put(b)
}

// all are the BundleDeployments on the server, in the order of their clusters.
func (d *delivery) all(t *testing.T) (out []*fleet.BundleDeployment) {
	t.Helper()
	list, err := d.app.BundleDeployments.List("", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

// promoted returns the clusters whose agents have a new version to apply.
func (d *delivery) promoted(t *testing.T) (clusters []string) {
	t.Helper()
	for _, bd := range d.all(t) {
		if bd.Spec.DeploymentID != bd.Status.AppliedDeploymentID {
			clusters = append(clusters, bd.Labels[fleet.LabelCluster])
		}
	}
	return clusters
}

// writes are the requests since the last look that begin with one of the verbs, and how often each was made.
func (d *delivery) writes(verbs ...string) (all []string, times map[string]int) {
	times = map[string]int{}
	for _, request := range d.hub.Requests() {
		if slices.ContainsFunc(verbs, func(verb string) bool { return strings.HasPrefix(request, verb+" ") }) {
			all = append(all, request)
			times[request]++
		}
	}
	return all, times
}

// failures returns the reported failures, by cluster name.
func (d *delivery) failures() map[string]string {
	outcome, _ := d.outcomes.Get(web)
	out := map[string]string{}
	for _, target := range outcome.Targets {
		if target.Failure != "" {
			out[target.Cluster.Name] = target.Failure
		}
	}
	return out
}
