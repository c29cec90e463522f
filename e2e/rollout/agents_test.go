package rollout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// reporters is how many reports are under way at a time.
const reporters = 8

// agents are those of all clusters: one watch, and a report on every BundleDeployment that asks for something new.
type agents struct {
	hub    *client.Client
	bundle string
	// fails says of a cluster that it cannot run what the deployment ID stands for.
	fails func(cluster, deploymentID string) bool

	informer cache.SharedIndexInformer
	todo     chan *fleet.BundleDeployment
	working  sync.WaitGroup

	mu      sync.Mutex // guards what follows
	failed  error
	changed chan struct{}
	now     map[string]*fleet.BundleDeployment // by cluster
	asked   map[string]string                  // the deployment ID that was last worked on, by cluster
}

// startAgents lets agents work until ctx ends.
func startAgents(ctx context.Context, hub *client.Client, bundle string, fails func(cluster, deploymentID string) bool) (*agents, error) {
	a := &agents{
		hub: hub, bundle: bundle, fails: fails, todo: make(chan *fleet.BundleDeployment, 10_000),
		changed: make(chan struct{}), now: map[string]*fleet.BundleDeployment{}, asked: map[string]string{},
	}
	source := cache.NewListWatchFromClient(hub.Fleet, client.BundleDeployments, metav1.NamespaceAll, fields.Everything())
	a.informer = cache.NewSharedIndexInformer(source, &fleet.BundleDeployment{}, 0, nil)
	_, err := a.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: a.see, UpdateFunc: func(_, now any) { a.see(now) },
	})
	if err != nil {
		return nil, err
	}
	a.working.Go(func() { a.informer.RunWithContext(ctx) })
	for range reporters {
		a.working.Go(func() { a.work(ctx) })
	}
	return a, nil
}

// see takes note of a BundleDeployment, and has it worked on if the agent has not applied it.
func (a *agents) see(object any) {
	bd, ok := object.(*fleet.BundleDeployment)
	if !ok || bd.Name != a.bundle {
		return
	}
	a.mu.Lock()
	cluster, asked := bd.Labels[fleet.LabelCluster], bd.Spec.DeploymentID
	a.now[cluster] = bd
	isNew := asked != "" && asked != bd.Status.AppliedDeploymentID && asked != a.asked[cluster]
	if isNew {
		a.asked[cluster] = asked
	}
	close(a.changed)
	a.changed = make(chan struct{})
	a.mu.Unlock()
	if isNew {
		a.todo <- bd
	}
}

func (a *agents) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case bd := <-a.todo:
			ready := !a.fails(bd.Labels[fleet.LabelCluster], bd.Spec.DeploymentID)
			if err := a.report(ctx, bd, ready); err != nil && ctx.Err() == nil {
				a.mu.Lock()
				a.failed = errors.Join(a.failed, err)
				a.mu.Unlock()
			}
		}
	}
}

// report is what an agent says that has applied what it was told.
func (a *agents) report(ctx context.Context, bd *fleet.BundleDeployment, ready bool) error {
	body, err := json.Marshal(map[string]any{"status": map[string]any{
		"appliedDeploymentID": bd.Spec.DeploymentID, "ready": ready, "nonModified": true,
	}})
	if err != nil {
		return err
	}
	err = a.hub.Fleet.Patch(types.MergePatchType).Namespace(bd.Namespace).Resource(client.BundleDeployments).
		Name(bd.Name).SubResource("status").Body(body).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// turn has a cluster's agent say how it is, without anything having been asked of it. It returns when that was seen.
func (a *agents) turn(ctx context.Context, cluster string, ready bool) error {
	a.mu.Lock()
	bd := a.now[cluster]
	a.mu.Unlock()
	if err := a.report(ctx, bd, ready); err != nil {
		return err
	}
	return a.until(ctx, fmt.Sprintf("%s to be ready: %v", cluster, ready), func(now map[string]*fleet.BundleDeployment) bool {
		return now[cluster].Status.Ready == ready
	})
}

// until waits for something to be true of the BundleDeployments, by cluster.
func (a *agents) until(ctx context.Context, what string, done func(map[string]*fleet.BundleDeployment) bool) error {
	for {
		a.mu.Lock()
		ok, failed, changed := done(a.now), a.failed, a.changed
		text := a.String()
		a.mu.Unlock()
		switch {
		case failed != nil:
			return failed
		case ok:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w\n%s", what, ctx.Err(), text)
		}
	}
}

// String says how many BundleDeployments are how. To be called with the lock.
func (a *agents) String() string {
	counts := map[string]int{}
	for _, bd := range a.now {
		counts[fmt.Sprintf("staged %s, current %s, applied %s, ready %v", short(bd.Spec.StagedDeploymentID), short(bd.Spec.DeploymentID),
			short(bd.Status.AppliedDeploymentID), bd.Status.Ready)]++
	}
	return fmt.Sprint(counts)
}

func short(deploymentID string) string {
	_, hash, _ := strings.Cut(deploymentID, ":")
	return hash[:min(len(hash), 6)]
}

// deploymentID is what a cluster's agent is to apply.
func (a *agents) deploymentID(cluster string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now[cluster].Spec.DeploymentID
}

// isWellOrFails says of a cluster that failed by itself that it need not be cured: it is well, or cannot be.
func (a *agents) isWellOrFails(cluster string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	bd := a.now[cluster]
	return bd.Status.Ready || a.fails(cluster, bd.Spec.DeploymentID)
}
