package supervision

import (
	"time"

	"github.com/fleet-hub/fleet/internal/config"
)

const (
	// manyAgents is the smallest number of late agents that suggests a problem of the hub or its network. When many
	// agents become silent at once, the agents themselves are rarely the cause.
	manyAgents = 4
	// withheldIntervals is how many check-in intervals the mark of a silent agent is withheld at most, once heartbeats of
	// other agents arrive: they show that the hub can be reached.
	withheldIntervals = 12
)

// Reports counts the agents of a workspace that have ever reported and are not marked. Late is how many of them are late.
type Reports struct{ Late, Reported int }

// mostAreLate reports whether more than half of the agents are late.
func (r Reports) mostAreLate() bool { return 2*r.Late > r.Reported }

// Withheld returns the workspaces in which silent agents are not marked, because so many agents are late at once that the
// cause is probably the hub or its network. In such a workspace, more than half of the agents are late. On the hub, at
// least four are late, and more than half.
//
// The count for the hub excludes the other workspace with the most late agents. The holder of a token can register any
// number of agents in a workspace and let them become silent. This must not keep silent agents of another workspace from
// being marked.
func Withheld(workspaces map[string]Reports) map[string]bool {
	var hub Reports
	var most, second int // the largest numbers of late agents in a workspace
	for _, own := range workspaces {
		hub.Late, hub.Reported = hub.Late+own.Late, hub.Reported+own.Reported
		most, second = max(most, own.Late), max(second, min(most, own.Late))
	}
	withheld := map[string]bool{}
	for workspace, own := range workspaces {
		other := most
		if own.Late == most {
			other = second
		}
		counted := Reports{Late: hub.Late - other, Reported: hub.Reported - other}
		if own.mostAreLate() && counted.mostAreLate() && counted.Late >= manyAgents {
			withheld[workspace] = true
		}
	}
	return withheld
}

// Heartbeats describes those of all agents that go through the hub's network. The zero value means that none has
// arrived yet.
type Heartbeats struct {
	// since is the first heartbeat after a pause, and last is the last one.
	since, last time.Time
}

// Add returns the heartbeats with one more heartbeat.
func (a Heartbeats) Add(now time.Time, conf config.Config) Heartbeats {
	if !a.areContinuous(now, orDefault(conf.AgentCheckinInterval.Duration)) {
		a.since = now
	}
	a.last = now
	return a
}

// areContinuous reports whether heartbeats arrive without a pause in which an agent with this interval would become silent.
func (a Heartbeats) areContinuous(now time.Time, interval time.Duration) bool {
	return !a.last.IsZero() && !now.After(a.last.Add(silentAfter(interval)))
}

// withheldUntil returns when the mark of a silent agent is no longer withheld. It returns zero if no heartbeats arrive.
func withheldUntil(in ReportingInput) time.Time {
	hub := orDefault(in.Config.AgentCheckinInterval.Duration)
	if !in.Heartbeats.areContinuous(in.Now, hub) {
		return time.Time{}
	}
	since := in.Since
	if since.Before(in.Heartbeats.since) {
		since = in.Heartbeats.since
	}
	return since.Add(withheldIntervals * max(hub, CheckinInterval(in)))
}
