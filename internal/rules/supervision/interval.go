package supervision

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// DefaultCheckinInterval is the time between two heartbeats of an agent without a configured interval.
const DefaultCheckinInterval = 15 * time.Minute

// checkinVariable is the environment variable of the agent's container that sets its check-in interval. A Cluster's
// own agentEnvVars follow the hub's setting there, and take precedence.
const checkinVariable = "CHECKIN_INTERVAL"

// gapsKept is how many gaps are remembered. With three, the median ignores one gap that is too long because the agent
// was down, or too short because it was restarted.
const gapsKept = 3

// Gaps are the last observed times between two heartbeats, the newest last. The zero value is empty.
type Gaps struct {
	list [gapsKept]time.Duration
	n    int
}

// Add returns g with one more gap. It drops the oldest one if g is full.
func (g Gaps) Add(gap time.Duration) Gaps {
	if g.n == gapsKept {
		copy(g.list[:], g.list[1:])
		g.n--
	}
	g.list[g.n] = gap
	g.n++
	return g
}

// Settled reports whether there are enough gaps to know the agent's interval from them alone.
func (g Gaps) Settled() bool { return g.n == gapsKept }

// Usual returns the median gap, the shorter one of two, or zero if no gap was observed.
func (g Gaps) Usual() time.Duration {
	if g.n == 0 {
		return 0
	}
	sorted := slices.Clone(g.list[:g.n])
	slices.Sort(sorted)
	return sorted[(g.n-1)/2]
}

// CheckinInterval returns the time expected between two heartbeats of an agent. Agents do not report their interval,
// so it is the longest of the likely ones:
//
//   - what the hub configures; 0 is 15 minutes
//   - CHECKIN_INTERVAL among the Cluster's agentEnvVars
//   - 15 minutes for an agent that was installed by hand, until it has the hub's settings
//   - the observed gaps
//
// With enough observed gaps, the hub knows the agent's configured and actual interval. Then a shorter CHECKIN_INTERVAL
// of the Cluster counts, and the 15 minutes of an agent installed by hand do not.
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

// ownInterval returns a Cluster's CHECKIN_INTERVAL, or zero if it is not set or cannot be parsed.
func ownInterval(cluster *fleet.Cluster) time.Duration {
	var own time.Duration
	for _, variable := range cluster.Spec.AgentEnvVars {
		if variable.Name != checkinVariable {
			continue
		}
		own = 0 // the last variable with this name counts
		if interval, ok := readInterval(variable); ok {
			own = interval
		}
	}
	return own
}

// readInterval parses an interval as the agent does: empty and zero mean the default.
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
