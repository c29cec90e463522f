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

// A new Cluster with a kubeconfig is asked whether it is there before anything is made for it. What a Cluster needs on
// the hub costs ten times as much as the question, and a good one must not wait until all that is made for hundreds that
// are not there. Those that do not answer get the same, a few at a time.
//
//	new ─► asked ─► answers ──────────────► namespace, client ID, token, agent
//	            └─► does not ─► its turn ─► namespace, client ID, and it is asked again

// answer is what came of the question.
type answer int

const (
	// unanswered means that there is none yet.
	unanswered answer = iota
	// present and absent are what the import still has to be told.
	present
	absent
	// told means that it was, or that there was nobody to be asked.
	told
)

// arrivals are the new Clusters that this process has asked.
type arrivals struct {
	mu    sync.Mutex
	known map[string]*arrival
}

type arrival struct {
	uid    types.UID
	answer answer
	// turn is closed when what was waited for is over; nil: nobody waits.
	turn chan struct{}
}

func newArrivals() *arrivals { return &arrivals{known: map[string]*arrival{}} }

// begin says whether a Cluster is to be asked now, and whether its answer is awaited.
func (a *arrivals) begin(cluster string, uid types.UID) (begun, waits bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.known[cluster]
	switch {
	case found != nil && found.uid == uid:
		return false, found.answer == unanswered
	case found != nil: // another one of its name
		found.end()
	}
	a.known[cluster] = &arrival{uid: uid}
	return true, true
}

// waits says whether the answer of a Cluster is awaited.
func (a *arrivals) waits(cluster string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.known[cluster]
	return found != nil && found.answer == unanswered
}

// becomes notes what came of the question. The channel is closed when the Cluster was worked on since.
func (a *arrivals) becomes(cluster string, uid types.UID, what answer) (worked <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	turn := make(chan struct{})
	found := a.known[cluster]
	if found == nil || found.uid != uid {
		close(turn) // it went meanwhile
		return turn
	}
	found.answer, found.turn = what, turn
	return turn
}

// worked notes that a Cluster was worked on.
func (a *arrivals) worked(cluster string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found := a.known[cluster]; found != nil {
		found.end()
	}
}

// take says once whether this is what came of the question.
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

// forget is for a Cluster that is gone.
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

// isAsked says whether a new Cluster has yet to answer. The first time, it is asked.
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
		h.arrivals.becomes(key, cluster.UID, told) // the import says what is missing, or refused
		return false, nil
	}
	go h.receive(ctx, cluster, secret.Data[protocol.KubeconfigValueKey])
	return true, nil
}

// receive asks a new Cluster, and lets it be worked on. If it is not there, that is said, and it takes its turn.
func (h *handler) receive(ctx context.Context, cluster *fleet.Cluster, kubeconfig []byte) {
	key, begun := keyOf(cluster), h.app.Clock()
	_, err := h.ask(ctx, key.String(), kubeconfig)
	if ctx.Err() != nil {
		return // the process ends
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
