package content

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// MinimumAge is the age that a Content must have before it is deleted. It leaves time to write the first
	// BundleDeployment, which follows the Content.
	MinimumAge = 5 * time.Minute
	// settling is how long a changed count waits for further changes. spacing is the minimum interval between writes
	// of a count. The count is only informative, and changes with each cluster that a Bundle is deployed to.
	settling = 5 * time.Second
	spacing  = 5 * time.Second
)

type handler struct {
	app   *hub.App
	queue *queue.Queue
}

// Register watches Contents and the BundleDeployments that need them.
func Register(ctx context.Context, a *hub.App) error {
	h := &handler{app: a}
	h.queue = queue.New(queue.Options{Name: "content", Settling: settling, Spacing: spacing, Log: a.Log}, h.handle)
	err := errors.Join(
		reconcile.WatchChanges(a.Contents.Informer(), h.contentChanged),
		reconcile.WatchChanges(a.BundleDeployments.Informer(), h.deploymentChanged),
	)
	if err != nil {
		return err
	}
	go h.queue.Run(ctx, a.MayReconcile, a.Contents.Informer().HasSynced, a.BundleDeployments.Informer().HasSynced)
	return nil
}

func (h *handler) contentChanged(change reconcile.Change[*fleet.Content]) {
	if change.New != nil {
		h.add(change.New.Name)
	}
}

// deploymentChanged enqueues the Contents that the BundleDeployment has started or ceased to need.
func (h *handler) deploymentChanged(change reconcile.Change[*fleet.BundleDeployment]) {
	needed := map[string]int{}
	if change.Old != nil {
		for _, name := range index.ContentsOf(change.Old) {
			needed[name]++
		}
	}
	if change.New != nil {
		for _, name := range index.ContentsOf(change.New) {
			needed[name]++
		}
	}
	for name, times := range needed {
		if times == 1 {
			h.add(name)
		}
	}
}

func (h *handler) add(name string) { h.queue.Add(types.NamespacedName{Name: name}) }

func (h *handler) handle(_ context.Context, key types.NamespacedName) error {
	content, err := reconcile.Optional(h.app.Contents.Cache().Get(key.Name))
	if err != nil || content == nil || !h.app.Owns(content) {
		return err
	}
	deployments, err := h.app.BundleDeployments.Cache().GetByIndex(index.DeploymentsByContent, key.Name)
	if err != nil {
		return err
	}
	out := decide(content, deployments, h.app.Clock())
	if out.recheck > 0 {
		h.queue.AddAfter(key, out.recheck)
	}
	if out.remove {
		return h.remove(content)
	}
	if out.references != content.Status.ReferenceCount {
		return h.patch(content.Name, map[string]any{"status": map[string]any{"referenceCount": out.references}}, "status")
	}
	return nil
}

// outcome is the decision about a Content.
type outcome struct {
	references int
	remove     bool
	// recheck is the time until the Content is old enough to be deleted; 0 means never.
	recheck time.Duration
}

func decide(content *fleet.Content, deployments []*fleet.BundleDeployment, now time.Time) outcome {
	var out outcome
	for _, bd := range deployments {
		if bd.DeletionTimestamp == nil {
			out.references++
		}
	}
	if len(deployments) > 0 {
		return out // one that is being deleted still uses the Content
	}
	if left := MinimumAge - now.Sub(content.CreationTimestamp.Time); left > 0 {
		out.recheck = left
	} else {
		out.remove = true
	}
	return out
}

// remove deletes a Content. It removes finalizers first, because no controller would remove them.
func (h *handler) remove(content *fleet.Content) error {
	if len(content.Finalizers) > 0 {
		if err := h.patch(content.Name, map[string]any{"metadata": map[string]any{"finalizers": nil}}); err != nil {
			return err
		}
	}
	if content.DeletionTimestamp != nil {
		return nil
	}
	err := h.app.Contents.Delete(content.Name, reconcile.Exactly(content))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting content %s: %w", content.Name, err)
	}
	h.app.Log.Debug("content deleted, it is not used", "content", content.Name)
	return nil
}

func (h *handler) patch(name string, change map[string]any, subresources ...string) error {
	body, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encoding a patch of content %s: %w", name, err)
	}
	_, err = h.app.Contents.Patch(name, types.MergePatchType, body, subresources...)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patching content %s: %w", name, err)
	}
	return nil
}
