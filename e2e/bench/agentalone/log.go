package agentalone

import (
	"context"
	"strings"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/bench/hub"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Identities under which the agent's requests are counted, on both API servers.
const (
	onHub        audit.Identity = "agent on the hub"
	onDownstream audit.Identity = "agent on its cluster"
	// aboutItself are reports of the agent's own Bundle: it is not ready while the agent starts.
	aboutItself audit.Identity = "agent on the hub, about itself"
)

// reportsDue is how long an agent without requests may still have something to report: it delays details by a
// second.
const reportsDue = 3 * time.Second

// accessLog is an API server's audit log, from which the agent's requests are read.
type accessLog struct {
	*audit.Log
	who audit.Identity
	// is reports whether a user name is the agent's.
	is func(user string) bool
}

// whose returns the identity under which a request is counted.
func (l *accessLog) whose(e audit.Event) audit.Identity {
	if l.who == onHub && e.Object.Resource == "bundledeployments" && strings.HasPrefix(e.Object.Name, names.Agent+"-") {
		return aboutItself
	}
	return l.who
}

// accountsIn returns a function that matches the ServiceAccounts of a namespace.
func accountsIn(namespace string) func(string) bool {
	return func(user string) bool { return strings.HasPrefix(user, "system:serviceaccount:"+namespace+":") }
}

// requests returns the agent's requests since the last call, without watches, and the time of the last one.
func (s *site) requests() (counts audit.Counts, last time.Time, err error) {
	counts = audit.Counts{}
	for _, log := range s.logs {
		events, err := log.Next()
		if err != nil {
			return nil, last, err
		}
		for _, e := range events {
			if e.Verb == "watch" || !log.is(e.User.Username) {
				continue
			}
			counts.Add(log.whose(e), e)
			if !e.Kind(log.who).IsLease() && e.Received.After(last) {
				last = e.Received
			}
		}
	}
	return counts, last, nil
}

// calmed counts the agent's requests until it has sent only lease requests for a while.
func (s *site) calmed(ctx context.Context) (audit.Counts, error) {
	sum, since := audit.Counts{}, s.Clock()
	err := hub.Every(ctx, pollEvery, func() (bool, error) {
		counts, last, err := s.requests()
		sum = figures.Merged(sum, counts)
		if last.After(since) {
			since = last
		}
		return s.Clock().Sub(since) >= max(s.Quiet, reportsDue), err
	})
	return sum, err
}

// frequency is the rate of an agent's requests.
type frequency struct {
	Seconds float64 `json:"seconds"`
	// PerMinute is the number of requests per minute to both API servers, including leases but not watches.
	PerMinute float64       `json:"requestsPerMinute"`
	Rows      []figures.Row `json:"rows"`
}

func frequencyOf(counts audit.Counts, took time.Duration) frequency {
	return frequency{Seconds: figures.Seconds(took), PerMinute: figures.Round(float64(counts.Total().Requests)/took.Minutes(), 2), Rows: rowsOf(counts)}
}

// rowsOf returns all counts as rows to print.
func rowsOf(counts audit.Counts) []figures.Row {
	rows := []figures.Row{}
	for _, kind := range counts.Kinds() {
		count := counts[kind]
		rows = append(rows, figures.Row{
			Identity: kind.Identity, Verb: kind.Verb, Resource: kind.Resource, Requests: count.Requests, Refused: count.Refused, Each: float64(count.Requests),
		})
	}
	return rows
}

// isUnneeded reports whether a request is a write that an agent has no reason for if its cluster is in the wanted
// state. Its lease, its heartbeat and reports of its own Bundle are needed.
func isUnneeded(k audit.Kind) bool {
	return k.IsWrite() && k.Resource != "clusters/status" && k.Identity != aboutItself
}
