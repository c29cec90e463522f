package clusterimport

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A new Cluster with a kubeconfig is probed before any object is created for it. Creating a Cluster's objects on the
// hub costs ten times as much as a probe, and a reachable cluster must not wait until this is done for hundreds of
// unreachable ones. Unreachable Clusters get the same objects, a few at a time.
//
//	new ─► probe ─► reachable ────────────► namespace, client ID, token, agent
//	            └─► unreachable ─► its turn ─► namespace, client ID, another probe

// An answer is the result of a probe.
type answer int

const (
	// unanswered means that the probe has not finished.
	unanswered answer = iota
	// present and absent are results that the import has not used yet.
	present
	absent
	// told means that the import has used the result, or that there was nothing to probe.
	told
)

// arrivals holds the new Clusters that this process has probed.
type arrivals struct {
	mu    sync.Mutex
	known map[string]*arrival
}

type arrival struct {
	uid    types.UID
	answer answer
	// turn is closed when the Cluster was reconciled. It is nil if receive does not wait for that.
	turn chan struct{}
}

func newArrivals() *arrivals { return &arrivals{known: map[string]*arrival{}} }

// begin reports whether to probe a Cluster now, and whether a probe's result is still awaited.
func (a *arrivals) begin(cluster string, uid types.UID) (begun, waits bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.known[cluster]
	switch {
	case found != nil && found.uid == uid:
		return false, found.answer == unanswered
	case found != nil: // another Cluster of the same name
		found.end()
	}
	a.known[cluster] = &arrival{uid: uid}
	return true, true
}

// waits reports whether the result of a Cluster's probe is still awaited.
func (a *arrivals) waits(cluster string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.known[cluster]
	return found != nil && found.answer == unanswered
}

// becomes records the result of a probe. The returned channel is closed when the Cluster was reconciled after that.
func (a *arrivals) becomes(cluster string, uid types.UID, what answer) (worked <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	turn := make(chan struct{})
	found := a.known[cluster]
	if found == nil || found.uid != uid {
		close(turn) // it was deleted in the meantime
		return turn
	}
	found.answer, found.turn = what, turn
	return turn
}

// worked records that a Cluster was reconciled.
func (a *arrivals) worked(cluster string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found := a.known[cluster]; found != nil {
		found.end()
	}
}

// take reports whether the probe had this result. It does so only once.
func (a *arrivals) take(cluster string, what answer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.known[cluster]
	if found == nil || found.answer != what {
		return false
	}
	found.answer = told
	return true
}

// forget removes a Cluster that is gone.
func (a *arrivals) forget(cluster string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found := a.known[cluster]; found != nil {
		found.end()
	}
	delete(a.known, cluster)
}

func (a *arrival) end() {
	if a.turn != nil {
		close(a.turn)
		a.turn = nil
	}
}

// isAsked reports whether a new Cluster's probe has not finished. The first call starts the probe.
func (h *handler) isAsked(ctx context.Context, cluster *fleet.Cluster) (bool, error) {
	if cluster.Spec.KubeConfigSecret == "" || clusters.IsLocal(cluster, h.app.Config.Get().Bootstrap) {
		return false, nil
	}
	key := keyOf(cluster).String()
	begun, waits := h.arrivals.begin(key, cluster.UID)
	if !begun {
		return waits, nil
	}
	secret, err := h.kubeconfigOf(ctx, cluster)
	if err != nil {
		h.arrivals.forget(key)
		return false, err
	}
	refused, _ := importing.KubeconfigRefused(cluster, secret, h.app.Config.Get())
	if refused != "" || secret == nil || len(secret.Data[protocol.KubeconfigValueKey]) == 0 {
		h.arrivals.becomes(key, cluster.UID, told) // the import reports what is missing or refused
		return false, nil
	}
	go h.receive(ctx, cluster, secret.Data[protocol.KubeconfigValueKey])
	return true, nil
}

// receive probes a new Cluster and enqueues it. If the cluster is unreachable, receive first reports that and waits
// for a free slot.
func (h *handler) receive(ctx context.Context, cluster *fleet.Cluster, kubeconfig []byte) {
	key, begun := keyOf(cluster), h.app.Clock()
	_, err := h.ask(ctx, key.String(), kubeconfig)
	if ctx.Err() != nil {
		return // the process is stopping
	}
	if err == nil {
		h.arrivals.becomes(key.String(), cluster.UID, present)
		h.app.Clusters.EnqueueAfter(key.Namespace, key.Name, 0)
		return
	}
	h.measure(cluster, importing.Outcome{}, h.app.Clock().Sub(begun), err)
	leave, late := enter(ctx, []lane{h.lanes.absent})
	if late != nil {
		return
	}
	defer leave()
	_, reportErr := h.reportRun(cluster, importing.Outcome{}, err)
	h.app.Log.Warn("import failed", "cluster", key.String(), "error", errors.Join(err, reportErr))
	worked := h.arrivals.becomes(key.String(), cluster.UID, absent)
	h.app.Clusters.EnqueueAfter(key.Namespace, key.Name, 0)
	select {
	case <-worked:
	case <-ctx.Done():
	}
}
