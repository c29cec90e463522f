package supervision

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// DefaultCheckinInterval is the time between two heartbeats of an agent that nobody told another one.
const DefaultCheckinInterval = 15 * time.Minute

// checkinVariable is the variable of the agent's container that has its check-in interval. A Cluster's own
// agentEnvVars come later there than the hub's setting, and win.
const checkinVariable = "CHECKIN_INTERVAL"

// gapsKept are how many gaps are remembered: with three, one that is too long because the agent was gone, or too short
// because it was restarted, is not believed.
const gapsKept = 3

// Gaps are the last times between two heartbeats that the hub observed, the newest last. The zero value has none.
type Gaps struct {
	list [gapsKept]time.Duration
	n    int
}

// Add is g and one gap more; the oldest is forgotten.
func (g Gaps) Add(gap time.Duration) Gaps {
	if g.n == gapsKept {
		copy(g.list[:], g.list[1:])
		g.n--
	}
	g.list[g.n] = gap
	g.n++
	return g
}

// Settled says that there are enough gaps to know the agent's interval from them alone.
func (g Gaps) Settled() bool { return g.n == gapsKept }

// Usual is the gap to be expected: the median, of two the shorter one. Zero where none was observed.
func (g Gaps) Usual() time.Duration {
	if g.n == 0 {
		return 0
	}
	sorted := slices.Clone(g.list[:g.n])
	slices.Sort(sorted)
	return sorted[(g.n-1)/2]
}

// CheckinInterval is the time between two heartbeats that an agent may be expected to take. Nobody tells the hub which
// one an agent uses, so it is the longest of those that are likely:
//
//   - what the hub configures; 0 is 15 minutes
//   - CHECKIN_INTERVAL among the Cluster's agentEnvVars
//   - 15 minutes for an agent that somebody has installed by hand, until it has the hub's settings
//   - what was observed
//
// Once enough was observed, what the agent was told and what it does are known: then a shorter CHECKIN_INTERVAL of the
// Cluster counts, and the 15 minutes of an agent installed by hand do not.
func CheckinInterval(in ReportingInput) time.Duration {
	told := orDefault(in.Config.AgentCheckinInterval.Duration)
	own := ownInterval(in.Cluster)
	if in.Gaps.Settled() {
		if own > 0 {
			told = own
		}
		return max(told, in.Gaps.Usual())
	}
	interval := max(told, own, in.Gaps.Usual())
	if in.Cluster.Spec.KubeConfigSecret == "" && !in.Adopted {
		interval = max(interval, DefaultCheckinInterval)
	}
	return interval
}

// ownInterval is a Cluster's CHECKIN_INTERVAL; zero where it has none that can be read.
func ownInterval(cluster *fleet.Cluster) time.Duration {
	var own time.Duration
	for _, variable := range cluster.Spec.AgentEnvVars {
		if variable.Name != checkinVariable {
			continue
		}
		own = 0 // the last one of a name counts
		if interval, ok := readInterval(variable); ok {
			own = interval
		}
	}
	return own
}

// readInterval reads an interval as the agent does, which takes none and zero for the default.
func readInterval(variable corev1.EnvVar) (time.Duration, bool) {
	if variable.ValueFrom != nil {
		return 0, false
	}
	if variable.Value == "" {
		return DefaultCheckinInterval, true
	}
	interval, err := time.ParseDuration(variable.Value)
	return orDefault(interval), err == nil
}

func orDefault(interval time.Duration) time.Duration {
	if interval <= 0 {
		return DefaultCheckinInterval
	}
	return interval
}
