// Package ledger stores the targeting outcome of each Bundle. The controller of Bundles writes it, and the controller
// of statuses reads it. Targeting is expensive and runs when a Bundle or a Cluster changes; statuses change much more
// often.
//
//	bundle ─► Set ─► status
//
// The ledger is lost with the process, and complete again after one pass over all Bundles.
package ledger

import (
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/rollout"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Outcome is the targeting outcome of a Bundle.
type Outcome struct {
	// Generation is the generation of the Bundle that was evaluated.
	Generation int64
	// ManifestHash is the SHA-256 of the Bundle's manifest, in hexadecimal, or empty.
	ManifestHash string
	// Failure, if set, says why the Bundle cannot be deployed anywhere. What it deployed before stays unchanged.
	Failure string
	// FailureReason is the reason of the condition that reports Failure.
	FailureReason string
	// Held, if set, says why some clusters stay unchanged: a selector that decides about them is invalid. Their
	// existing BundleDeployments are among the Targets.
	Held string
	// Unknown, if set, lists the ClusterGroups that the Bundle names and that do not exist.
	Unknown string
	// Refused, if set, lists the workspaces that do not accept the Bundle although it is mapped to them.
	Refused string
	// Circle, if set, says that the Bundle depends on itself.
	Circle string
	// Rollout is the layout of the rollout without Of: see Target.Partitions.
	Rollout rollout.Layout
	// Targets are the clusters of the Bundle, ordered by name.
	Targets []Target
}

// Target is a cluster that a Bundle should be deployed to.
type Target struct {
	// Cluster is the key of the Cluster.
	Cluster types.NamespacedName
	// Namespace is the cluster namespace, or empty if the Cluster has no namespace yet.
	Namespace string
	// Failure, if set, says why the Bundle cannot be deployed to the cluster.
	Failure string
	// InDoubt means that the write may have succeeded despite Failure, or may succeed soon. The rollout waits for it.
	InDoubt bool
	// DeploymentID is the newest deployment ID, or empty if it is unknown.
	DeploymentID string
	// Partitions are the rollout partitions of the cluster, in ascending order.
	Partitions []int
	// Unreachable means that the cluster's agent had stopped reporting.
	Unreachable bool
}

// Step returns the target as its rollout sees it. bd is the existing BundleDeployment, or nil.
func (t Target) Step(bd *fleet.BundleDeployment) rollout.Step {
	return rollout.Step{
		DeploymentID: t.DeploymentID, Deployment: bd, Partitions: t.Partitions,
		Unreachable: t.Unreachable, Blocked: t.Failure != "" && !t.InDoubt || t.DeploymentID == "" || t.Namespace == "",
	}
}

// Ledger is safe for concurrent use. Create it with New.
type Ledger struct {
	// Troubles are the problems that other controllers report for single BundleDeployments.
	Troubles *Troubles
	// Writing is the number of BundleDeployments that are being written. These writes take precedence over status
	// updates.
	Writing atomic.Int32

	changed func(bundle types.NamespacedName)

	mu       sync.RWMutex
	outcomes map[types.NamespacedName]Outcome
}

// New returns an empty ledger.
func New() *Ledger {
	l := &Ledger{changed: func(types.NamespacedName) {}, outcomes: map[types.NamespacedName]Outcome{}}
	l.Troubles = NewTroubles(func(bundle types.NamespacedName) { l.changed(bundle) })
	return l
}

// OnChange registers f, which is called after a Bundle's outcome has changed. It must be called before the first
// write. f must not block.
func (l *Ledger) OnChange(f func(bundle types.NamespacedName)) { l.changed = f }

// Set stores the outcome of a Bundle. The caller must not change the outcome afterwards.
func (l *Ledger) Set(bundle types.NamespacedName, outcome Outcome) {
	l.mu.Lock()
	before, known := l.outcomes[bundle]
	l.outcomes[bundle] = outcome
	l.mu.Unlock()
	if !known || !reflect.DeepEqual(before, outcome) {
		l.changed(bundle)
	}
}

// Get returns the last outcome of a Bundle. known is false if no outcome is stored.
func (l *Ledger) Get(bundle types.NamespacedName) (outcome Outcome, known bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	outcome, known = l.outcomes[bundle]
	return outcome, known
}

// Forget drops a deleted Bundle.
func (l *Ledger) Forget(bundle types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.outcomes, bundle)
}
