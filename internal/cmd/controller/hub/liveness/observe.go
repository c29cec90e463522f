package liveness

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// record is what is known of one Cluster's agent.
type record struct {
	uid types.UID
	// lastSeen is what the agent said last. It is only compared with what it says next.
	lastSeen time.Time
	deployed bool
	// since is when something was heard last, by our clock; beaten says that it was a heartbeat.
	since     time.Time
	beaten    bool
	notBefore time.Time
	marked    bool
	// late means that the agent is due to be marked as silent, and is not because too many are.
	late  bool
	gaps  supervision.Gaps
	stage supervision.Reporting
}

// observe takes in what the cache says of a Cluster. It is read with the lock held, so that nobody comes with an older
// state after a newer one was seen.
func (t *Tracker) observe(key types.NamespacedName) {
	t.mu.Lock()
	changed := t.update(key, t.o.Cluster(key))
	t.mu.Unlock()
	if changed {
		t.tell(key)
	}
}

// update brings a record up to date, and says whether its stage has changed since it was first known. What only time
// tells is judged later, with all others.
func (t *Tracker) update(key types.NamespacedName, cluster *fleet.Cluster) (changed bool) {
	now := t.o.Clock()
	r, known := t.records[key]
	if cluster == nil {
		delete(t.records, key)
		t.returned(now)
		return false
	}
	if !known || r.uid != cluster.UID {
		r = &record{
			uid: cluster.UID, lastSeen: cluster.Status.Agent.LastSeen.Time, deployed: supervision.AgentDeployed(cluster),
			since: now, marked: supervision.MarkedNotReporting(cluster),
		}
		t.records[key] = r
	}
	if r.take(cluster, now) {
		t.returned(now)
	}
	before := r.stage
	out := t.judgeOne(r, cluster, now)
	if before == supervision.ReportingUnexpected && out.Stage != before {
		r.since, r.beaten = now, false // until now nobody waited for it
		out = t.judgeOne(r, cluster, now)
	}
	r.stage = unlessMarked(out.Stage, r.marked)
	if out.Stage != r.stage && !t.many {
		out.LookAgain = now // it is due
	}
	t.wake(now, out.LookAgain)
	return known && r.stage != before
}

// take notes what is new in a Cluster, and says whether its agent was heard of, or is to be waited for anew.
func (r *record) take(cluster *fleet.Cluster, now time.Time) bool {
	deployed, wasDeployed := supervision.AgentDeployed(cluster), r.deployed
	r.deployed = deployed
	seen := cluster.Status.Agent.LastSeen.Time
	if seen.Equal(r.lastSeen) {
		if seen.IsZero() && deployed && !wasDeployed {
			r.since = now
		}
		return false
	}
	if r.beaten && !seen.IsZero() {
		r.gaps = r.gaps.Add(now.Sub(r.since))
	}
	r.lastSeen, r.since, r.beaten = seen, now, !seen.IsZero()
	r.marked, r.late, r.notBefore = false, false, time.Time{}
	return true
}

// judgeOne applies the rule to what is known.
func (t *Tracker) judgeOne(r *record, cluster *fleet.Cluster, now time.Time) supervision.ReportingOutcome {
	in := t.input(r, cluster)
	in.Now = now
	return supervision.JudgeReporting(in)
}

func (t *Tracker) input(r *record, cluster *fleet.Cluster) supervision.ReportingInput {
	return supervision.ReportingInput{
		Cluster: cluster, Config: t.o.Config(), Since: r.since, NotBefore: r.notBefore, Marked: r.marked, Gaps: r.gaps,
		Adopted: cluster.Spec.KubeConfigSecret == "" && t.o.Adopted(cluster), // of others nobody asks
	}
}

// unlessMarked is the stage of an agent that is late but was not marked for it.
func unlessMarked(stage supervision.Reporting, marked bool) supervision.Reporting {
	switch {
	case marked:
		return stage
	case stage == supervision.ReportingSilent:
		return supervision.ReportingHeard
	case stage == supervision.ReportingMissing:
		return supervision.ReportingAwaited
	}
	return stage
}

// returned has all judged soon if none was marked until now because many were late: one less is.
func (t *Tracker) returned(now time.Time) {
	if t.many {
		t.wake(now, now.Add(pause))
	}
}

// wake has all judged at that time at the latest; a zero time is never.
func (t *Tracker) wake(now, at time.Time) {
	if !t.running || at.IsZero() || !t.next.IsZero() && !at.Before(t.next) {
		return
	}
	t.next = at
	t.timer.Reset(max(least, at.Sub(now)))
}
