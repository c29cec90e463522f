package expiry

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
)

// renewalsPerDay is how often an agent renews a token that lasts a day, at most: after half of its lifetime.
const renewalsPerDay = 2

// Figures are the figures of agents whose tokens expire.
type Figures struct {
	Agents   int     `json:"agents"`
	Lifetime float64 `json:"lifetimeSeconds"`
	// Renewals is the number of renewed tokens that were counted, without an outage.
	Renewals int `json:"renewals"`
	// OnHub and Downstream are the requests of an agent for each renewal, on the hub and in its own cluster. Heartbeats and
	// watches are apart.
	OnHub      float64 `json:"requestsPerRenewal"`
	Downstream float64 `json:"downstreamRequestsPerRenewal"`
	// PerDay and DownstreamPerDay are those of a day with the most renewals of a token that lasts a day.
	PerDay           float64 `json:"requestsPerAgentAndDay"`
	DownstreamPerDay float64 `json:"downstreamRequestsPerAgentAndDay"`
	// Outage is how long the API server was gone. Accounts tells that the accounts were deleted, because the outage was
	// shorter than the lifetime.
	Outage   float64 `json:"outageSeconds"`
	Accounts bool    `json:"accountsDeleted,omitempty"`
	// Returned and ReturnedHalf are the times from the API server being ready again to the last agent's first accepted
	// heartbeat with a new token, and to that of half of the agents.
	Returned     float64 `json:"secondsUntilAllReturned"`
	ReturnedHalf float64 `json:"secondsUntilHalfReturned"`
	// Recoveries is the number of recovery requests, Refused how many of them failed. Most is the most of any second.
	Recoveries int `json:"recoveryRequests"`
	Refused    int `json:"recoveryRequestsRefused"`
	Most       int `json:"recoveryRequestsPerSecondMost"`
	// First and Last are the times of the first and the last recovery request, from the API server being ready again.
	First float64 `json:"secondsUntilFirstRecoveryRequest"`
	Last  float64 `json:"secondsUntilLastRecoveryRequest"`
}

// isOfRenewal reports whether such requests of agents are because of a renewal. Heartbeats have their own interval, and
// watches are opened again when the API server ends them.
func isOfRenewal(kind audit.Kind) bool {
	return kind.Identity == audit.Request && kind.Verb != "watch" && kind.Resource != "clusters/status"
}

// isRenewal reports whether such requests get an agent a new token.
func isRenewal(kind audit.Kind) bool {
	return isOfRenewal(kind) && kind.Verb == "create" && kind.Resource == "serviceaccounts/token"
}

// renewing fills in the figures of renewals, with the counts on the hub and the requests downstream.
func (f *Figures) renewing(counts audit.Counts, downstream int) {
	renewals := counts.Only(isRenewal).Total()
	f.Renewals = renewals.Requests - renewals.Refused
	if f.Renewals == 0 {
		return
	}
	f.OnHub = hundredths(float64(counts.Only(isOfRenewal).Total().Requests) / float64(f.Renewals))
	f.Downstream = hundredths(float64(downstream) / float64(f.Renewals))
	f.PerDay, f.DownstreamPerDay = hundredths(renewalsPerDay*f.OnHub), hundredths(renewalsPerDay*f.Downstream)
}

// isRecovery reports whether an event is a request with a workspace's recovery account.
func isRecovery(e audit.Event, account string) bool {
	return e.Verb == "create" && e.Resource() == "clusterregistrations" && e.Counts() && strings.HasSuffix(e.User.Username, ":"+account)
}

// returning fills in the figures of the agents' return, after the API server was back.
func (f *Figures) returning(back time.Time, beats []time.Time, recoveries []audit.Event) {
	slices.SortFunc(beats, time.Time.Compare)
	if len(beats) > 0 {
		f.Returned = hundredths(beats[len(beats)-1].Sub(back).Seconds())
		f.ReturnedHalf = hundredths(beats[(len(beats)-1)/2].Sub(back).Seconds())
	}
	var at []time.Time
	for _, e := range recoveries {
		at = append(at, e.Received)
		if e.IsRefused() {
			f.Refused++
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	f.Recoveries, f.Most = len(at), mostInASecond(at)
	if len(at) > 0 {
		f.First, f.Last = hundredths(at[0].Sub(back).Seconds()), hundredths(at[len(at)-1].Sub(back).Seconds())
	}
}

// mostInASecond returns how many of the sorted times are in the fullest second, whenever it begins.
func mostInASecond(sorted []time.Time) (most int) {
	first := 0
	for i, at := range sorted {
		for at.Sub(sorted[first]) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

func hundredths(x float64) float64 { return math.Round(x*100) / 100 }
