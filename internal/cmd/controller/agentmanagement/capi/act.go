package capi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	"github.com/rancher/wrangler/v3/pkg/randomtoken"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/capi/join"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// act carries out the outcome.
func (h *handler) act(ctx context.Context, in gathered, out capirule.Outcome) error {
	if capirule.IsMarked(in.Fleet) && out.Stage != capirule.Following { // which follow does
		if err := h.join.End(in.Fleet); err != nil {
			return err
		}
	}
	switch out.Stage {
	case capirule.Identifying:
		h.identify(in)
		return nil
	case capirule.Creating:
		return h.create(in.Input)
	case capirule.Following:
		return h.follow(ctx, in.Input, out)
	case capirule.Keeping:
		return h.keep(in.Input, out)
	case capirule.Deleting:
		if err := h.end(ctx, in.Input, out); err != nil {
			return err
		}
	case capirule.ImportedByHand:
		if _, err := reconcile.Patch(h.app.Clusters, out.ByHand, func(c *fleet.Cluster) { capirule.NoteImported(c, in.Cluster) }); err != nil {
			return err
		}
	}
	h.recordEvent(in.Cluster, out)
	return nil
}

func (h *handler) create(in capirule.Input) error {
	clientID, err := newClientID(in)
	if err != nil {
		return err
	}
	created := capirule.NewCluster(in.Cluster)
	capirule.Arrange(created, in, clientID)
	_, err = h.app.Clusters.Create(created)
	if apierrors.IsAlreadyExists(err) {
		return nil // the cache will have it, which is an event
	}
	if err != nil {
		return fmt.Errorf("creating Cluster %s/%s: %w", created.Namespace, created.Name, err)
	}
	h.app.Log.Info("cluster of Cluster API registered", "cluster", in.Key.String())
	return nil
}

// newClientID returns a client ID if the Cluster needs one.
func newClientID(in capirule.Input) (string, error) {
	if !capirule.NeedsClientID(in) {
		return "", nil
	}
	clientID, err := randomtoken.Generate()
	if err != nil {
		return "", fmt.Errorf("making a client ID: %w", err)
	}
	return clientID, nil
}

func (h *handler) follow(ctx context.Context, in capirule.Input, out capirule.Outcome) error {
	clientID, err := newClientID(in)
	if err != nil {
		return err
	}
	followed, err := reconcile.Patch(h.app.Clusters, in.Fleet, func(c *fleet.Cluster) {
		capirule.Follow(c, in.Cluster)
		capirule.Arrange(c, in, clientID)
	})
	if err != nil {
		return err
	}
	joined, err := h.join.Reconcile(ctx, join.Request{
		From: in.Cluster, Version: h.watch.version(), Cluster: followed, ByManifest: capirule.ByManifest(in),
	})
	if joined.Reason != "" && capirule.IsMinor(out.Reason) {
		out.Reason, out.Message = joined.Reason, joined.Message
	}
	if !joined.Again.IsZero() {
		h.queue.AddAfter(in.Key, joined.Again.Sub(in.Now))
	}
	return errors.Join(err, h.report(followed, out))
}

func (h *handler) keep(in capirule.Input, out capirule.Outcome) error {
	kept, err := reconcile.Patch(h.app.Clusters, in.Fleet, func(c *fleet.Cluster) { capirule.Keep(c, out.Reason) })
	if err != nil {
		return err
	}
	return h.report(kept, out)
}

// end deletes the Cluster of Fleet and its manifest.
func (h *handler) end(ctx context.Context, in capirule.Input, out capirule.Outcome) error {
	if err := h.confirm(ctx, in); err != nil {
		return err
	}
	h.forgetIdentity(in.Key)
	err := h.delete(in.Fleet)
	if err == nil && out.Reason != "" { // the import refused it
		h.noteRefusal(in, out)
	}
	return errors.Join(err, h.join.Remove(ctx, in.Fleet))
}

// errBehind means that the watch has not seen the cluster yet for which a Cluster of Fleet was created.
var errBehind = errors.New("the watch of Cluster API is behind, so its Cluster is not deleted")

// confirm returns errBehind if the watch does not have the Cluster of Cluster API, but it exists. An API server that is
// behind may answer the first list with an older state.
func (h *handler) confirm(ctx context.Context, in capirule.Input) error {
	mark := in.Fleet.Annotations[annotation.CAPICluster]
	if in.Cluster != nil && capirule.MarkOf(in.Cluster) == mark {
		return nil // the cluster itself is the cause
	}
	found, err := h.watch.source.find(ctx, h.watch.version(), in.Key)
	if err != nil {
		return fmt.Errorf("reading Cluster %s of Cluster API, before its Cluster of Fleet is deleted: %w", in.Key, err)
	}
	if found != nil && capirule.MarkOf(found) == mark {
		return errBehind
	}
	return nil
}

// delete deletes the Cluster of Fleet, but not another one that was created with its name since.
func (h *handler) delete(cluster *fleet.Cluster) error {
	if err := reconcile.Delete(h.app.Clusters, cluster); err != nil {
		return fmt.Errorf("deleting Cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	h.app.Log.Info("cluster of Cluster API deleted", "cluster", cluster.Namespace+"/"+cluster.Name)
	return nil
}

// report writes the condition FollowsClusterAPI.
func (h *handler) report(cluster *fleet.Cluster, out capirule.Outcome) error {
	condition := genericcondition.GenericCondition{Type: conditions.FollowsClusterAPI, Status: corev1.ConditionTrue}
	if out.Reason != "" {
		condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, out.Reason, out.Message
	}
	_, err := hub.Report(h.app, h.app.Clusters, cluster, func(c *fleet.Cluster) {
		conditions.Set(&c.Status.Conditions, h.app.Clock(), condition)
	})
	return err
}

// eventPeriod is the interval at which an Event is repeated. The API server deletes Events after an hour.
const eventPeriod = 45 * time.Minute

// recordEvent records an Event about a Cluster of Cluster API without a Cluster of Fleet, once for each cause and period.
func (h *handler) recordEvent(about *capirule.Cluster, out capirule.Outcome) {
	if about == nil || out.Reason == "" {
		return
	}
	key, now := keyOf(about), h.app.Clock()
	h.mu.Lock()
	last := h.recorded[key]
	left := last.at.Add(eventPeriod).Sub(now)
	repeated := left > 0 && last == (report{about.UID, out.Reason, out.Message, last.at})
	if !repeated {
		h.recorded[key], left = report{about.UID, out.Reason, out.Message, now}, eventPeriod
	}
	h.mu.Unlock()
	h.queue.AddAfter(key, left)
	if repeated {
		return
	}
	h.app.Recorder.Event(&corev1.ObjectReference{
		APIVersion: capirule.Group + "/" + h.watch.version(), Kind: "Cluster", Namespace: about.Namespace, Name: about.Name, UID: about.UID,
	}, eventType(out.Reason), out.Reason, out.Message)
}

// eventType returns Normal for reasons that need no correction.
func eventType(reason string) string {
	switch reason {
	case conditions.ReasonAwaitingControlPlane, conditions.ReasonClusterPaused, conditions.ReasonNotSelected:
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}
