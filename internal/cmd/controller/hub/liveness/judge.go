package liveness

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// verdict is the rule's outcome for one agent, before all agents are judged together.
type verdict struct {
	key     types.NamespacedName
	record  *record
	cluster *fleet.Cluster
	// before is the stage that was reported last.
	before supervision.Reporting
	supervision.ReportingOutcome
}

// Judge judges all Clusters, because the configuration may have changed or a deadline may have passed.
func (t *Tracker) Judge() {
	t.mu.Lock()
	now := t.o.Clock()
	verdicts := t.verdicts(now)
	silent, heardOf, due := count(verdicts)
	was := t.many
	t.many = supervision.ManySilent(silent, heardOf) && (due || was)
	if was && !t.many {
		t.forgive(verdicts, now)
	}
	changed, late := t.settleAll(verdicts, now)
	many := t.many
	t.mu.Unlock()

	t.notify(changed...)
	for _, watcher := range t.late {
		for _, cluster := range late {
			watcher(cluster)
		}
	}
	switch {
	case many && !was:
		t.o.Log.Warn("many agents became silent at once, none of them is marked", "silent", silent, "heardOf", heardOf)
		t.o.OnMany(silent, heardOf)
	case was && !many:
		t.o.Log.Info("most agents report again, silent ones are judged individually", "silent", silent, "heardOf", heardOf)
	}
}

// settleAll settles all verdicts. It returns the Clusters whose stage changed, and those whose agents have become
// late.
func (t *Tracker) settleAll(verdicts []verdict, now time.Time) (changed, late []types.NamespacedName) {
	t.next = time.Time{}
	for _, v := range verdicts {
		wasLate := v.record.late
		t.settle(v, now)
		if v.record.stage != v.before {
			changed = append(changed, v.key)
		}
		if v.record.late && !wasLate {
			late = append(late, v.key)
		}
	}
	return changed, late
}

// verdicts updates all records and applies the rule to each.
func (t *Tracker) verdicts(now time.Time) []verdict {
	all := make([]verdict, 0, len(t.records))
	for key, r := range t.records {
		cluster, before := t.o.Cluster(key), r.stage
		t.update(key, cluster)
		if r = t.records[key]; r != nil {
			all = append(all, verdict{key, r, cluster, before, t.judgeOne(r, cluster, now)})
		}
	}
	return all
}

// count returns how many agents have reported and are not marked, how many of them are late, and whether one has to be
// marked.
func count(verdicts []verdict) (late, heardOf int, due bool) {
	for _, v := range verdicts {
		if v.record.stage != supervision.ReportingHeard {
			continue
		}
		heardOf++
		if v.Late {
			late++
		}
		due = due || v.Stage == supervision.ReportingSilent
	}
	return late, heardOf, due
}

// forgive gives late agents another interval: the others have just returned, and these return with their next
// heartbeat.
func (t *Tracker) forgive(verdicts []verdict, now time.Time) {
	for i, v := range verdicts {
		if v.record.stage == supervision.ReportingHeard && v.Late {
			v.record.notBefore = now.Add(supervision.WithJitter(supervision.CheckinInterval(t.input(v.record, v.cluster))))
			verdicts[i].ReportingOutcome = t.judgeOne(v.record, v.cluster, now)
		}
	}
}

// settle marks a silent or missing agent. It does not mark silent agents while too many are silent.
func (t *Tracker) settle(v verdict, now time.Time) {
	t.wake(now, v.LookAgain)
	v.record.late = v.Stage == supervision.ReportingSilent && v.record.stage != v.Stage && t.many
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
			counts[t.judgeOne(r, cluster, now).Stage]++
		}
	}
	return counts
}
