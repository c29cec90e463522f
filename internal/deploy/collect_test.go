package deploy

import (
	stdcmp "cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/copies"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/hub"
	"github.com/fleet-hub/fleet/internal/deploy/inventory"
	"github.com/fleet-hub/fleet/internal/deploy/pace"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	releases "github.com/fleet-hub/fleet/internal/deploy/release"
	"github.com/fleet-hub/fleet/internal/kube/clientset"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// storedRelease returns the Secret of a bundle's release, and its metadata.
func storedRelease(t *testing.T, bundle string) (corev1.Secret, *metav1.PartialObjectMetadata) {
	t.Helper()
	text, err := releases.Encode(&release.Release{
		Name: bundle, Namespace: "web", Version: 1, Info: &release.Info{Status: release.StatusDeployed},
		Chart: &chart.Chart{Metadata: &chart.Metadata{Annotations: map[string]string{
			fleet.AnnotationBundleID: bundle, fleet.AnnotationAgentNamespace: "agents",
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	found := deploytest.MetadataOf("Secret", releases.SecretName(bundle, 1), "1", "")
	found.Labels = map[string]string{"owner": "helm", "name": bundle, "version": "1"}
	return corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: found.ObjectMeta,
		Type: placement.ReleaseSecretType, Data: map[string][]byte{"release": text},
	}, found
}

// collecting is a deployer whose rounds of garbage collection are started by the test.
type collecting struct {
	*deployer
	t          *testing.T
	now        time.Time
	unreadable string // the release that cannot be read
}

// newCollecting creates a release for each BundleDeployment name.
func newCollecting(t *testing.T, status string, stored ...string) *collecting {
	t.Helper()
	c := &collecting{t: t, now: deploytest.Noon()}
	secrets := map[string]corev1.Secret{}
	var listed []runtime.Object
	for _, name := range stored {
		secret, found := storedRelease(t, name)
		found.Labels["status"] = status
		secrets[secret.Name], listed = secret, append(listed, found)
	}
	client := deploytest.NewMetadataClient(t, listed...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		if name == releases.SecretName(c.unreadable, 1) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(secrets[name]); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	typed, err := clientset.New(config)
	if err != nil {
		t.Fatal(err)
	}
	onHub, err := hub.New(config, "cluster-ns")
	if err != nil {
		t.Fatal(err)
	}
	c.deployer = &deployer{
		Options: Options{AgentNamespace: "agents", Clock: func() time.Time { return c.now }, GarbageCollectionInterval: defaultCollection},
		log:     slog.New(slog.DiscardHandler), hub: onHub, inventory: inventory.New(), orphans: orphans{},
		copier: copies.New(copies.Options{Hub: onHub, Metadata: client, AgentNamespace: "agents"}), records: newRecords(),
		reader: releases.NewReader(&access.Identity{Clientset: typed}, client, "agents", nil,
			func() time.Time { return c.now }, nil),
		queue: workqueue.NewTypedRateLimitingQueue(pace.NewBackoff(func() float64 { return 0 })),
	}
	t.Cleanup(c.queue.ShutDown)
	return c
}

// lists sets the BundleDeployments that the hub lists.
func (c *collecting) lists(names ...string) {
	c.t.Helper()
	var found []any
	for _, name := range names {
		found = append(found, deploytest.Deployment(func(bd *fleet.BundleDeployment) { bd.Name, bd.Namespace = name, "cluster-ns" }))
	}
	if err := c.hub.Informer.GetStore().Replace(found, ""); err != nil {
		c.t.Fatal(err)
	}
}

// queued returns and removes the enqueued BundleDeployments.
func (d *deployer) queued() (names []string) {
	for d.queue.Len() > 0 {
		name, _ := d.queue.Get()
		d.queue.Done(name)
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// An unreadable release does not hide others, and is found in the next round.
func TestUnreadableRelease_DoesNotHideOthers(t *testing.T) {
	c := newCollecting(t, "uninstalling", "a", "b", "c")
	c.lists("another")
	c.unreadable = "b"
	if err := c.sweep(t.Context()); err == nil || !strings.Contains(err.Error(), "web/b") {
		t.Errorf("the round ended with %v", err)
	}
	if diff := cmp.Diff([]string{"a", "c"}, c.queued()); diff != "" {
		t.Errorf("enqueued (-want +got):\n%s", diff)
	}
	c.unreadable = ""
	if err := c.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, c.queued()); diff != "" {
		t.Errorf("enqueued then (-want +got):\n%s", diff)
	}
}

// A release is not uninstalled just because its BundleDeployment has not been created yet.
func TestOrphan_IsUninstalledAfterTwoRounds(t *testing.T) {
	type look struct {
		minute int    // since the first
		listed string // on the hub
		want   string // what is looked at
	}
	tests := map[string]struct {
		status string
		looks  []look
	}{
		"missing in two rounds an interval apart: is uninstalled":          {looks: []look{{0, "y", ""}, {15, "y", "x"}, {30, "y", "x"}}},
		"rounds within the interval: do not count":                         {looks: []look{{0, "y", ""}, {1, "y", ""}, {14, "y", ""}, {29, "y", "x"}}},
		"hub lists nothing: is kept":                                       {looks: []look{{0, "", ""}, {20, "", ""}, {40, "", ""}}},
		"hub starts to list: interval starts then":                         {looks: []look{{0, "", ""}, {20, "fleet-agent-east", ""}, {34, "fleet-agent-east", ""}, {36, "fleet-agent-east", "x"}}},
		"hub lists nothing in between: interval starts again":              {looks: []look{{0, "y", ""}, {20, "", ""}, {40, "y", ""}, {60, "y", "x"}}},
		"BundleDeployment created in time: is kept":                        {looks: []look{{0, "y", ""}, {14, "x y", ""}, {28, "x y", ""}}},
		"created in time, then deleted: is uninstalled at once":            {looks: []look{{0, "y", ""}, {14, "x y", ""}, {15, "y", "x"}}},
		"listed at start, then deleted: is uninstalled at once":            {looks: []look{{0, "x", ""}, {1, "y", "x"}}},
		"last one listed at start, then deleted: is uninstalled at once":   {looks: []look{{0, "x", ""}, {1, "", "x"}}},
		"uninstallation interrupted: is continued":                         {status: "uninstalling", looks: []look{{0, "y", "x"}}},
		"uninstallation interrupted, hub lists nothing: waits for the hub": {status: "uninstalling", looks: []look{{0, "", ""}, {20, "y", "x"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCollecting(t, stdcmp.Or(test.status, "deployed"), "x")
			for _, l := range test.looks {
				c.now = deploytest.Noon().Add(time.Duration(l.minute) * time.Minute)
				c.lists(strings.Fields(l.listed)...)
				if err := c.sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(c.queued(), " "); got != l.want {
					t.Errorf("in minute %d, with %q on the hub, %q is enqueued, want %q", l.minute, l.listed, got, l.want)
				}
			}
		})
	}
}

// A BundleDeployment was moved to another release, and the agent stopped while it uninstalled the former one. The
// new release must stay.
func TestFormerReleaseUninstalling_OtherReleaseStays(t *testing.T) {
	c := newCollecting(t, "uninstalling", "x")
	c.lists("y")
	c.inventory.Add("x", placement.Release{Namespace: "web", Name: "x"})
	c.inventory.Add("x", placement.Release{Namespace: "web", Name: "newer"})
	c.orphans["x"] = time.Time{}
	if err := c.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.queued(); len(got) > 0 {
		t.Errorf("%q is enqueued", got)
	}
}

// uidOf returns the UID of a ConfigMap, which changes when the ConfigMap is recreated.
func (l *lab) uidOf(name string) types.UID {
	l.t.Helper()
	found, err := l.East.CoreV1().ConfigMaps(l.Name).Get(l.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return found.UID
}

// A Cluster was deleted and its cluster registers again. Releases that the new Cluster's Bundles need stay
// unchanged, also if a rollout has only staged them. The others are uninstalled after the interval.
func TestClusterRegistersAgain_WorkloadsStay(t *testing.T) {
	t.Parallel()
	before := newLab(t, "rejoin")
	before.start()
	for _, name := range []string{"goes-on", "waits", "goes"} {
		before.apply(bundle{Name: name, Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(before.Name)})
		before.expectStatus(name, ready)
	}
	before.halt()
	uid, waiting := before.uidOf("goes-on"), before.uidOf("waits")

	var passed atomic.Int64
	after := newLab(t, "rejoin-after")
	after.options = func(o *Options) {
		o.AgentNamespace, o.Clock = before.Name, func() time.Time { return deploytest.Noon().Add(time.Duration(passed.Load())) }
	}
	d := after.byHand()
	later := func(by time.Duration, goes bool) {
		t.Helper()
		d.queued()
		passed.Add(int64(by))
		if err := d.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := d.queued()
		if slices.Contains(got, "goes") != goes {
			t.Errorf("enqueued after another %s: %v", by, got)
		}
		for _, name := range got {
			if err := d.reconcile(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	asks := func(b bundle) {
		t.Helper()
		after.apply(b)
		after.eventually(func() string {
			if d.hub.Cached(b.Name) == nil {
				return b.Name + " is not known"
			}
			return ""
		})
	}
	later(time.Hour, false)
	// The agent's own BundleDeployment comes first and does not decide about others.
	asks(bundle{Name: "fleet-agent-east", Change: func(bd *fleet.BundleDeployment) { bd.Spec.Paused = true }})
	asks(bundle{Name: "waits", Files: deploytest.HelloFiles("hello"), Options: deploytest.InNamespace(before.Name), Change: func(bd *fleet.BundleDeployment) {
		bd.Spec.StagedDeploymentID, bd.Spec.DeploymentID = bd.Spec.DeploymentID, ""
	}})
	later(time.Hour, false)
	later(defaultCollection-time.Second, false)
	asks(bundle{Name: "goes-on", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(before.Name)})
	if err := d.reconcile(t.Context(), "goes-on"); err != nil {
		t.Fatal(err)
	}
	later(time.Second, true)
	later(time.Hour, false)
	before.expectNoRelease(before.Name, "goes")
	if before.configMapIsThere(before.Name, "goes") {
		t.Error("the unwanted object still exists")
	}
	if before.uidOf("goes-on") != uid || before.uidOf("waits") != waiting {
		t.Error("a wanted object was recreated")
	}
}

// An agent that was stopped during an uninstallation continues it at its next start, not an interval later.
func TestInterruptedUninstallation_IsContinued(t *testing.T) {
	t.Parallel()
	l := newLab(t, "half-gone")
	l.apply(bundle{Name: "there", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.store(l.Name, "half", "a", 1, release.StatusUninstalling, "")
	l.store(l.Name, "whole", "b", 1, release.StatusDeployed, "")
	l.start()
	l.expectNoRelease(l.Name, "half")
	l.expectStatus("there", ready)
	if got := l.revisionsOf(l.Name, "whole"); len(got) != 1 {
		t.Errorf("a release that may still be wanted was removed: %v", got)
	}
}
