package liveness

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// decision is the rule's outcome for one agent, before the numbers of all agents are compared.
type decision struct {
	key     types.NamespacedName
	record  *record
	cluster *fleet.Cluster
	// before is the record as it was reported last.
	before record
	supervision.ReportingOutcome
}

// DecideAll decides again for all Clusters, because the configuration may have changed or a deadline may have passed.
func (t *Tracker) DecideAll() {
	t.mu.Lock()
	now := t.o.Clock()
	decisions := t.decisions(now)
	reports, due := t.count(decisions)
	was := t.withheld
	t.withheld = supervision.Withheld(reports)
	maps.DeleteFunc(t.withheld, func(workspace string, _ bool) bool { return !due[workspace] && !was[workspace] })
	began, ended := without(t.withheld, was), without(was, t.withheld)
	t.extendDeadlines(decisions, ended, now)
	changed, late := t.markAll(decisions, now)
	t.mu.Unlock()

	t.notify(changed...)
	for _, watcher := range t.late {
		for _, cluster := range late {
			watcher(cluster)
		}
	}
	if len(began) > 0 {
		many := manyOf(began, reports)
		t.o.Log.Warn("many agents stopped reporting at once; their Clusters keep their state for now", "workspaces", len(many.Workspaces), "silent", many.Agents.Late, "reported", many.Agents.Reported)
		t.o.OnMany(many)
	}
	if len(ended) > 0 {
		many := manyOf(ended, reports)
		t.o.Log.Info("Clusters of agents that stopped reporting change their state again", "workspaces", len(many.Workspaces), "silent", many.Agents.Late, "reported", many.Agents.Reported)
	}
}

// without returns the workspaces in a that are not in b.
func without(a, b map[string]bool) map[string]bool {
	rest := maps.Clone(a)
	maps.DeleteFunc(rest, func(workspace string, _ bool) bool { return b[workspace] })
	return rest
}

func manyOf(workspaces map[string]bool, reports map[string]supervision.Reports) Many {
	many := Many{Workspaces: slices.Sorted(maps.Keys(workspaces))}
	for workspace := range workspaces {
		many.Agents.Late += reports[workspace].Late
		many.Agents.Reported += reports[workspace].Reported
	}
	return many
}

// markAll marks the agents of all decisions. It returns the Clusters whose stage changed, and those whose agents have become
// late.
func (t *Tracker) markAll(decisions []decision, now time.Time) (changed, late []types.NamespacedName) {
	t.next = time.Time{}
	for _, v := range decisions {
		wasLate := v.record.late
		t.mark(v, now)
		if v.record.differs(v.before) {
			changed = append(changed, v.key)
		}
		if v.record.late && !wasLate {
			late = append(late, v.key)
		}
	}
	return changed, late
}

// decisions updates all records and applies the rule to each.
func (t *Tracker) decisions(now time.Time) []decision {
	all := make([]decision, 0, len(t.records))
	for key, r := range t.records {
		cluster, before := t.o.Cluster(key), *r
		t.update(key, cluster)
		if r = t.records[key]; r != nil {
			all = append(all, decision{key, r, cluster, before, t.decide(r, cluster, now)})
		}
	}
	return all
}

// count counts the agents of each workspace that have reported and are not marked, without those that have to be marked
// anyway. due are the workspaces with an agent that has to be marked unless many are late. The agent of the hub's own
// cluster does not count: it reports also if agents elsewhere cannot reach the hub.
func (t *Tracker) count(decisions []decision) (reports map[string]supervision.Reports, due map[string]bool) {
	reports, due = map[string]supervision.Reports{}, map[string]bool{}
	bootstrap := t.o.Config().Bootstrap
	for _, v := range decisions {
		if v.record.stage != supervision.ReportingHeard || v.Overdue || clusters.IsLocal(v.cluster, bootstrap) {
			continue
		}
		workspace := reports[v.key.Namespace]
		workspace.Reported++
		if v.Late {
			workspace.Late++
		}
		reports[v.key.Namespace] = workspace
		if v.Stage == supervision.ReportingSilent {
			due[v.key.Namespace] = true
		}
	}
	return reports, due
}

// extendDeadlines gives the late agents of these workspaces another interval: others have just returned, and these return with
// their next heartbeat. An agent gets it only once until it reports, so that no one can prolong a silence for ever.
func (t *Tracker) extendDeadlines(decisions []decision, workspaces map[string]bool, now time.Time) {
	for i, v := range decisions {
		if workspaces[v.key.Namespace] && v.record.stage == supervision.ReportingHeard && v.Late && !v.Overdue && v.record.notBefore.IsZero() {
			v.record.notBefore = now.Add(supervision.WithJitter(supervision.CheckinInterval(t.input(v.record, v.cluster))))
			decisions[i].ReportingOutcome = t.decide(v.record, v.cluster, now)
		}
	}
}

// mark marks a silent or missing agent. It does not mark silent agents while too many are silent, unless they are
// overdue.
func (t *Tracker) mark(v decision, now time.Time) {
	t.wake(now, v.LookAgain)
	v.record.absent = v.Absent
	v.record.late = v.Stage == supervision.ReportingSilent && v.record.stage != v.Stage && t.withheld[v.key.Namespace] && !v.Overdue
	if v.Stage == v.record.stage || v.record.late {
		return
	}
	v.record.marked = v.Stage == supervision.ReportingSilent || v.Stage == supervision.ReportingMissing
	v.record.stage = v.Stage
}

// Counts returns the number of Clusters in each stage. It also counts silent agents that are not marked because too
// many are silent.
func (t *Tracker) Counts() map[supervision.Reporting]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := map[supervision.Reporting]int{}
	now := t.o.Clock()
	for key, r := range t.records {
		if cluster := t.o.Cluster(key); cluster != nil {
			counts[t.decide(r, cluster, now).Stage]++
		}
	}
	return counts
}
