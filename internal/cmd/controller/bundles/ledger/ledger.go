// Package ledger is where the controller of Bundles writes down which clusters each
// Bundle should be on, and where that of statuses reads it. Targeting is costly and
// happens when a Bundle or a Cluster changes; statuses change all the time.
//
//	bundle ─► Set ─► status
//
// It is lost with the process, and complete again after one pass over all Bundles.
package ledger

import (
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/rollout"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Outcome is what targeting made of a Bundle.
type Outcome struct {
	// Generation is the Bundle's that was looked at.
	Generation int64
	// ManifestHash is the SHA-256 of the Bundle's manifest, in hexadecimal; empty if
	// it has none.
	ManifestHash string
	// Failure, if set, says why the Bundle as a whole goes nowhere. What it deployed
	// before stays as it is.
	Failure string
	// FailureReason is that of the condition that tells of Failure.
	FailureReason string
	// Held, if set, says why some clusters keep what they have, though nobody can say
	// whether they should: a selector on the way to them does not parse. Those that
	// have something are among the Targets.
	Held string
	// Unknown, if set, says which ClusterGroups the Bundle names that are not there.
	Unknown string
	// Refused, if set, says which workspaces do not accept the Bundle, though it is mapped to them.
	Refused string
	// Circle, if set, says that the Bundle waits for itself.
	Circle string
	// Rollout is how the targets are divided for the rollout, with Of left out: see Target.Partitions.
	Rollout rollout.Layout
	// Targets are the clusters it should be on, ordered by name.
	Targets []Target
}

// Target is a cluster a Bundle should be on.
type Target struct {
	// Cluster names the Cluster.
	Cluster types.NamespacedName
	// Namespace is the cluster's own; empty while it has none.
	Namespace string
	// Failure, if set, says why the cluster cannot be told what to deploy.
	Failure string
	// InDoubt means that in spite of Failure it may have been told, or will be soon: its rollout waits for it.
	InDoubt bool
	// DeploymentID is the newest; empty where it is not known.
	DeploymentID string
	// Partitions are those of the rollout that the cluster is in, ascending.
	Partitions []int
	// Unreachable means that the cluster's agent was silent.
	Unreachable bool
}

// Step is the target as its rollout sees it, with what is deployed there; nil if nothing is.
func (t Target) Step(bd *fleet.BundleDeployment) rollout.Step {
	return rollout.Step{
		DeploymentID: t.DeploymentID, Deployment: bd, Partitions: t.Partitions,
		Unreachable: t.Unreachable, Blocked: t.Failure != "" && !t.InDoubt || t.DeploymentID == "" || t.Namespace == "",
	}
}

// Ledger is safe for concurrent use. The zero value is not ready; see New.
type Ledger struct {
	// Troubles are what others have to say of single BundleDeployments.
	Troubles *Troubles
	// Writing is how many BundleDeployments are being written just now: what is on its way to clusters goes first.
	Writing atomic.Int32

	changed func(bundle types.NamespacedName)

	mu       sync.RWMutex
	outcomes map[types.NamespacedName]Outcome
}

// New makes an empty ledger.
func New() *Ledger {
	l := &Ledger{changed: func(types.NamespacedName) {}, outcomes: map[types.NamespacedName]Outcome{}}
	l.Troubles = NewTroubles(func(bundle types.NamespacedName) { l.changed(bundle) })
	return l
}

// OnChange has f called after a Bundle's outcome has changed. To be called before
// anything is written; f must not block.
func (l *Ledger) OnChange(f func(bundle types.NamespacedName)) { l.changed = f }

// Set writes down the outcome of a Bundle. It must not be changed afterwards.
func (l *Ledger) Set(bundle types.NamespacedName, outcome Outcome) {
	l.mu.Lock()
	before, known := l.outcomes[bundle]
	l.outcomes[bundle] = outcome
	l.mu.Unlock()
	if !known || !reflect.DeepEqual(before, outcome) {
		l.changed(bundle)
	}
}

// Get is the last outcome of a Bundle; known is false if there was none.
func (l *Ledger) Get(bundle types.NamespacedName) (outcome Outcome, known bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	outcome, known = l.outcomes[bundle]
	return outcome, known
}

// Forget drops a Bundle that is gone.
func (l *Ledger) Forget(bundle types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.outcomes, bundle)
}
