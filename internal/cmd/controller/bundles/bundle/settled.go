package bundle

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// settled caches results for one generation of a Bundle: its deployment ID on each cluster, and the BundleDeployments
// that are up to date. A pass skips a cluster if the Cluster, the Bundle and the BundleDeployment are unchanged. A nil
// settled caches nothing.
type settled struct {
	memo   *memo
	bundle *fleet.Bundle
}

// settledTarget is the cached result for one cluster.
type settledTarget struct {
	as           targeting.Fingerprint
	deploymentID string
	// state is the state in which the BundleDeployment was up to date. It is zero if it was not, or if that is
	// unknown.
	state targeting.Fingerprint
}

// known returns the deployment ID of a cluster if the cluster is unchanged.
func (s *settled) known(cluster *fleet.Cluster, as targeting.Fingerprint) (deploymentID string, known bool) {
	if s == nil {
		return "", false
	}
	s.memo.mu.Lock()
	defer s.memo.mu.Unlock()
	before, ok := s.memo.of(s.bundle).settled[cluster.UID]
	return before.deploymentID, ok && before.as == as
}

// note stores the targets and drops those that are targets no longer. The results of unchanged targets are kept.
func (s *settled) note(targets []targeting.Target) {
	if s == nil {
		return
	}
	s.memo.mu.Lock()
	defer s.memo.mu.Unlock()
	of := s.memo.of(s.bundle)
	noted := make(map[types.UID]settledTarget, len(targets))
	for _, target := range targets {
		if target.Err != nil {
			continue
		}
		entry := settledTarget{as: target.Fingerprint, deploymentID: target.DeploymentID}
		if before := of.settled[target.Cluster.UID]; before.as == entry.as {
			entry = before
		}
		noted[target.Cluster.UID] = entry
	}
	of.settled = noted
	s.memo.bundles[s.bundle.UID] = of
}

// is reports whether a BundleDeployment was found up to date for its target and verdict, and nothing it depends on has
// changed since.
func (s *settled) is(target targeting.Target, bd *fleet.BundleDeployment, verdict rollout.Verdict) bool {
	if s == nil || bd == nil || bd.DeletionTimestamp != nil || s.memo.doubts(bd.UID) {
		return false
	}
	state := s.stateOf(target.Cluster, bd, verdict)
	s.memo.mu.Lock()
	defer s.memo.mu.Unlock()
	entry := s.memo.of(s.bundle).settled[target.Cluster.UID]
	return entry.as == target.Fingerprint && entry.state == state
}

// settle stores that nothing has to be written for a target.
func (s *settled) settle(target targeting.Target, bd *fleet.BundleDeployment, verdict rollout.Verdict) {
	if s == nil {
		return
	}
	state := s.stateOf(target.Cluster, bd, verdict)
	s.memo.mu.Lock()
	defer s.memo.mu.Unlock()
	if entry, ok := s.memo.of(s.bundle).settled[target.Cluster.UID]; ok {
		entry.state = state
		s.memo.bundles[s.bundle.UID].settled[target.Cluster.UID] = entry
	}
}

// stateOf returns a fingerprint of the BundleDeployment and of all it depends on, except for the Bundle's spec and the
// target's options. The BundleDeployment's generation changes with its spec.
func (s *settled) stateOf(cluster *fleet.Cluster, bd *fleet.BundleDeployment, verdict rollout.Verdict) targeting.Fingerprint {
	p := targeting.NewPrint()
	p.Map(s.bundle.Labels)
	p.Texts(cluster.Status.Namespace, string(bd.UID))
	p.Flags(cluster.Spec.Paused, cluster.Status.Scheduled, cluster.Status.ActiveSchedule)
	p.Number(bd.Generation)
	p.Number(int64(verdict))
	p.Map(bd.Labels)
	return p.Fingerprint()
}
