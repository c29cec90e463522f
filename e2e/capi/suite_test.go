// Package capi_test tells what a hub does that is also a management cluster of Cluster API. The core of Cluster API is
// the real one. Control planes of the plane stand for the clusters that it creates, and the test plays their provider
// by the contract: the endpoint, the Secret <name>-kubeconfig and the state of the control plane.
//
//	test ─► ExistingCluster, ExistingControlPlane, Secret ─► core ─► Cluster of Cluster API ─► hub ─► Cluster of Fleet
//
// Most tests use the same control plane, one after the other, and leave no agent on it. The hub is installed with
// capi.enabled before Cluster API is.
package capi_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/commandline"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Control planes that stand for clusters of Cluster API.
const (
	member  = "member"  // for one test after the other
	lasting = "lasting" // for a cluster that is rotated, paused, moved and deleted while it does not answer
)

// Other clusters of Cluster API. The one on lasting has its name.
const (
	joining   = "joining"   // joins by itself
	older     = "older"     // is written in version v1beta1
	byHand    = "by-hand"   // was imported by a user before
	raced     = "raced"     // gets a second importer
	contested = "contested" // has two importers that begin at once
	disturbed = "disturbed" // joins while processes are killed
)

// starting limits the start of everything, including builds.
const starting = 15 * time.Minute

// world is what all tests share.
type world struct {
	*framework.World

	core    *plane.CAPI
	objects dynamic.Interface // the admin's client of the hub for objects of Cluster API and its providers
	// before and detecting identify the controllers before Cluster API was installed, and when they had detected it.
	before, detecting string
}

var shared = sync.OnceValues(start)

func TestMain(m *testing.M) {
	code := m.Run()
	if w, _ := shared(); w != nil {
		if err := w.stop(code == 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// start installs the hub first, then Cluster API, so that the hub detects the CRDs while it runs.
func start() (*world, error) {
	ctx, cancel := context.WithTimeout(context.Background(), starting)
	defer cancel()
	w := &world{}
	var err error
	w.World, err = framework.Start(ctx, framework.Options{
		Downstreams: []string{member, lasting}, Later: []string{lasting}, Audit: true,
		Progress: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	})
	if err != nil {
		return nil, err
	}
	if err := w.install(ctx); err != nil {
		return w, fmt.Errorf("%w\nlogs: %s", err, w.LogDir)
	}
	return w, nil
}

func (w *world) install(ctx context.Context) error {
	err := w.InstallHub(ctx, map[string]any{
		"agentCheckinInterval": "5s", "bootstrap": map[string]any{"enabled": false}, "capi": map[string]any{"enabled": true},
	})
	if err != nil {
		return err
	}
	if _, err := w.TokenValues(ctx, "warm-up"); err != nil { // the controllers work
		return err
	}
	if w.before, _, err = w.controllerPod(ctx); err != nil {
		return err
	}
	if w.core, err = w.CAPI(ctx); err != nil {
		return err
	}
	if w.objects, err = dynamic.NewForConfig(w.Plane.Hub.Config()); err != nil {
		return err
	}
	if err := w.installProvider(ctx); err != nil {
		return err
	}
	return w.awaitDetection(ctx)
}

// awaitDetection waits until the log of the controllers reports that they watch Clusters of Cluster API.
func (w *world) awaitDetection(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, framework.Patience)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		identity, pod, err := w.controllerPod(ctx)
		if err != nil {
			return err
		}
		log, err := w.PodLog(framework.HubName, names.SystemNamespace, pod)
		if err != nil {
			return err
		}
		if bytes.Contains(log, []byte("clusters of Cluster API are watched")) {
			w.detecting = identity
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the controllers to detect Cluster API: %w", ctx.Err())
		}
	}
}

func (w *world) stop(passed bool) error {
	if err := w.Stop(); err != nil {
		return err
	}
	if passed {
		return w.RemoveLogs()
	}
	fmt.Fprintf(os.Stderr, "logs: %s\n", w.LogDir)
	return nil
}

// controllerPod returns the only pod of the controllers: its UID with its restarts, and its name.
func (w *world) controllerPod(ctx context.Context) (identity, name string, err error) {
	pods, err := w.Hub.Kube.CoreV1().Pods(names.SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app=fleet-controller"})
	if err != nil {
		return "", "", err
	}
	if len(pods.Items) != 1 {
		return "", "", fmt.Errorf("finding the controllers: want one pod, found %d", len(pods.Items))
	}
	pod := &pods.Items[0]
	return fmt.Sprintf("%s, %d restarts", pod.UID, framework.Restarts(pod)), pod.Name, nil
}

// story is one test.
type story struct {
	*world
	Gomega

	t   *testing.T
	ctx context.Context //nolint:containedctx // that of the test
	on  string          // the control plane of its cluster
}

// tell returns a story with the shared world, whose cluster is on this control plane. If the test fails, it prints the
// state of the hub.
func tell(t *testing.T, on string) *story {
	t.Helper()
	w, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.Describe(context.WithoutCancel(t.Context())))
		}
	})
	return &story{world: w, Gomega: NewWithT(t), t: t, ctx: t.Context(), on: on}
}

// sub returns the same story for a subtest.
func (s *story) sub(t *testing.T) *story {
	return &story{world: s.world, Gomega: NewWithT(t), t: t, ctx: t.Context(), on: s.on}
}

// must fails the test with an error.
func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// eventually repeats a check until it succeeds.
func (s *story) eventually(check func(g Gomega)) {
	s.t.Helper()
	s.Eventually(check).WithContext(s.ctx).WithTimeout(framework.Patience).Should(Succeed())
}

// joined waits for the first heartbeat of a Cluster of Fleet.
func (s *story) joined(name string) *fleet.Cluster {
	s.t.Helper()
	cluster, err := s.Joined(s.ctx, framework.Workspace, name, framework.Named(name))
	s.must(err)
	return cluster
}

// cluster reads a Cluster of Fleet.
func (s *story) cluster(name string) *fleet.Cluster {
	s.t.Helper()
	var cluster fleet.Cluster
	s.must(s.Hub.Get(s.ctx, client.Clusters, framework.Workspace, name, &cluster))
	return &cluster
}

// leave removes a cluster of Cluster API, and then the agent of a Cluster of Fleet from the control plane.
func (s *story) leave(name, cluster string) {
	s.t.Helper()
	s.gone(s.capiClusters("v1beta2").Delete(s.ctx, name, metav1.DeleteOptions{}))
	s.removed(name)
	s.eventually(func(g Gomega) { // while the hub still follows the removed cluster, it refuses
		left, err := commandline.Quiet(s.ctx, s.User, "", "unregister", cluster, "-n", framework.Workspace, "--keep-workloads", "--cluster-context", s.on)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(left.Code).To(Equal(exit.Done), left.Stderr)
	})
	s.Expect(s.AgentRemains(s.ctx, s.on)).To(BeEmpty())
}

// agent identifies the agent of a cluster: its pod, and the revisions of its Deployment and Helm release.
type agent struct{ pod, template, release string }

// agentOf waits until the agent is managed by its Bundle.
func (s *story) agentOf(cluster *fleet.Cluster) agent {
	s.t.Helper()
	managed, deployment, err := s.Managed(s.ctx, s.on, cluster)
	s.must(err)
	pod, err := s.AgentPod(s.ctx, s.on)
	s.must(err)
	return agent{
		pod:      fmt.Sprintf("%s, %d restarts", pod.UID, framework.Restarts(pod)),
		template: deployment.Annotations[framework.RevisionAnnotation], release: managed.Status.Release,
	}
}

// reason returns the reason of condition FollowsClusterAPI, or its status if it has none.
func reason(cluster *fleet.Cluster) string {
	condition := conditions.Get(cluster.Status.Conditions, conditions.FollowsClusterAPI)
	switch {
	case condition == nil:
		return "no condition"
	case condition.Reason == "":
		return string(condition.Status)
	}
	return condition.Reason
}
