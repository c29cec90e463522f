package bundle

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// settled is what is remembered of a generation of a Bundle: what it means on each cluster, and which
// BundleDeployments were found to be as they should be. A pass that finds a cluster, the Bundle and the
// BundleDeployment as they were has nothing to work out. Nil remembers nothing.
type settled struct {
	memo   *memo
	bundle *fleet.Bundle
}

// settledTarget is one cluster.
type settledTarget struct {
	as           targeting.Fingerprint
	deploymentID string
	// state is that in which nothing was owed; zero: something was, or it is not known.
	state targeting.Fingerprint
}

// known is the deployment ID of a cluster that is as it was.
func (s *settled) known(cluster *fleet.Cluster, as targeting.Fingerprint) (deploymentID string, known bool) {
	if s == nil {
		return "", false
	}
	s.memo.mu.Lock()
	defer s.memo.mu.Unlock()
	before, ok := s.memo.of(s.bundle).settled[cluster.UID]
	return before.deploymentID, ok && before.as == as
}

// note remembers the targets, and forgets what were targets before. What was settled stays so where all is as it was.
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

// is says whether a BundleDeployment was found to be as its target and the rollout want it, and all that this depends on
// is as it was.
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

// settle remembers of a target that nothing is owed.
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

// stateOf is all that a BundleDeployment depends on, beside the Bundle's spec and the target's options, and
// what it is itself: its generation changes with its spec.
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
