package liveness

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// record is the state of one Cluster's agent.
type record struct {
	uid types.UID
	// lastSeen is the time in the agent's last heartbeat. It is only compared with the next one.
	lastSeen time.Time
	deployed bool
	// since is the hub's time of the last change. beaten means that this change was a heartbeat.
	since     time.Time
	beaten    bool
	notBefore time.Time
	marked    bool
	// late means that the agent should be marked as silent, but is not because too many are silent.
	late  bool
	gaps  supervision.Gaps
	stage supervision.Reporting
	// absent means that no agent has ever reported, although there was time for that.
	absent bool
}

// differs reports whether an agent is judged differently than before.
func (r *record) differs(before record) bool {
	return r.stage != before.stage || r.absent != before.absent
}

// observe updates a record from the cache. It reads the cache with the lock held, so that no older state follows a
// newer one.
func (t *Tracker) observe(key types.NamespacedName) {
	t.mu.Lock()
	changed := t.update(key, t.o.Cluster(key))
	t.mu.Unlock()
	if changed {
		t.notify(key)
	}
}

// update updates a record and reports whether a known record is judged differently. Deadlines are judged later, together
// with all other agents.
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
	switch {
	case r.take(cluster, now):
		t.addHeartbeat(r, cluster, now)
		t.returned(now)
	case !t.running && supervision.MarkedNotReporting(cluster): // another process has marked the agent
		r.marked = true
	}
	before := *r
	out := t.decide(r, cluster, now)
	if before.stage == supervision.ReportingUnexpected && out.Stage != before.stage {
		r.since, r.beaten = now, false // no agent was expected before
		out = t.decide(r, cluster, now)
	}
	r.stage, r.absent = unlessMarked(out.Stage, r.marked), out.Absent
	if out.Stage != r.stage && !t.withheld[key.Namespace] {
		out.LookAgain = now // it is due now
	}
	t.wake(now, out.LookAgain)
	return known && r.differs(before)
}

// take updates a record from a Cluster. It reports whether lastSeen changed: a heartbeat, or a reset.
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

// addHeartbeat records a heartbeat. Those of the hub's own cluster arrive also if agents elsewhere cannot reach the hub.
func (t *Tracker) addHeartbeat(r *record, cluster *fleet.Cluster, now time.Time) {
	conf := t.o.Config()
	if r.beaten && !clusters.IsLocal(cluster, conf.Bootstrap) {
		t.heartbeats = t.heartbeats.Add(now, conf)
	}
}

// decide applies the rule to a record.
func (t *Tracker) decide(r *record, cluster *fleet.Cluster, now time.Time) supervision.ReportingOutcome {
	in := t.input(r, cluster)
	in.Now = now
	return supervision.DecideReporting(in)
}

func (t *Tracker) input(r *record, cluster *fleet.Cluster) supervision.ReportingInput {
	return supervision.ReportingInput{
		Cluster: cluster, Config: t.o.Config(), Since: r.since, NotBefore: r.notBefore, Marked: r.marked, Gaps: r.gaps, Heartbeats: t.heartbeats,
		Adopted: cluster.Spec.KubeConfigSecret == "" && t.o.Adopted(cluster), // unused for other Clusters
	}
}

// unlessMarked returns the stage of an agent that may be late but is not marked.
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

// returned schedules a judgement if agents are not marked because too many were late: there is one less now.
func (t *Tracker) returned(now time.Time) {
	if len(t.withheld) > 0 {
		t.wake(now, now.Add(pause))
	}
}

// wake schedules a judgement at that time or earlier. A zero time means never.
func (t *Tracker) wake(now, at time.Time) {
	if !t.running || at.IsZero() || !t.next.IsZero() && !at.Before(t.next) {
		return
	}
	t.next = at
	t.timer.Reset(max(least, at.Sub(now)))
}
