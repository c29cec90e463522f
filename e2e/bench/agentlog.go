package main

import (
	"context"
	"strings"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Whose requests are counted: those of the one agent, on either API server.
const (
	onHub        audit.Identity = "agent on the hub"
	onDownstream audit.Identity = "agent on its cluster"
	// aboutItself are reports of the Bundle that the agent comes with: one that starts is not ready before.
	aboutItself audit.Identity = "agent on the hub, about itself"
)

// reportsDue is how long an agent that asks for nothing may still have something to report: details wait a second.
const reportsDue = 3 * time.Second

// agentLog is an API server's audit log, of which the agent's requests are read.
type agentLog struct {
	*audit.Log
	who audit.Identity
	// is tells the agent's user name there.
	is func(user string) bool
}

// whose tells under what a request is counted.
func (l *agentLog) whose(e audit.Event) audit.Identity {
	if l.who == onHub && e.Object.Resource == "bundledeployments" && strings.HasPrefix(e.Object.Name, names.Agent+"-") {
		return aboutItself
	}
	return l.who
}

// accountsIn tells the accounts of a namespace.
func accountsIn(namespace string) func(string) bool {
	return func(user string) bool { return strings.HasPrefix(user, "system:serviceaccount:"+namespace+":") }
}

// requests are those of the agent since the last call, watches left out, and when the last of them was.
func (s *agentSite) requests() (counts audit.Counts, last time.Time, err error) {
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

// calmed counts the agent's requests until there were none but leases for a while.
func (s *agentSite) calmed(ctx context.Context) (audit.Counts, error) {
	sum, since := audit.Counts{}, s.clock()
	err := s.every(ctx, pollEvery, func() (bool, error) {
		counts, last, err := s.requests()
		sum = merged(sum, counts)
		if last.After(since) {
			since = last
		}
		return s.clock().Sub(since) >= max(s.quiet, reportsDue), err
	})
	return sum, err
}

// frequency is how often an agent asks for something.
type frequency struct {
	Seconds float64 `json:"seconds"`
	// PerMinute are requests to both API servers, leases among them and watches not.
	PerMinute float64 `json:"requestsPerMinute"`
	Rows      []row   `json:"rows"`
}

func frequencyOf(counts audit.Counts, took time.Duration) frequency {
	return frequency{Seconds: seconds(took), PerMinute: round(float64(counts.Total().Requests)/took.Minutes(), 2), Rows: rowsOf(counts)}
}

// rowsOf are counts as they are printed, none left out.
func rowsOf(counts audit.Counts) []row {
	rows := []row{}
	for _, kind := range counts.Kinds() {
		count := counts[kind]
		rows = append(rows, row{
			Identity: kind.Identity, Verb: kind.Verb, Resource: kind.Resource, Requests: count.Requests, Refused: count.Refused, Each: float64(count.Requests),
		})
	}
	return rows
}

// isUnneeded tells writes that an agent has no reason for whose cluster is as it should be: all but its lease, its
// heartbeat, and what it says of itself.
func isUnneeded(k audit.Kind) bool {
	return k.IsWrite() && k.Resource != "clusters/status" && k.Identity != aboutItself
}
