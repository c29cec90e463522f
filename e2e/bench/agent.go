package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/names"
)

// agentFigures are those of one agent, a process of its own, on a cluster of its own.
type agentFigures struct {
	// BinaryMB is the size of its executable, in millions of bytes.
	BinaryMB float64       `json:"binaryMB"`
	Idle     idleFigures   `json:"idle"`
	Large    largeFigures  `json:"largeChart"`
	Deploys  deployFigures `json:"deploys"`
	Resync   resyncFigures `json:"resync"`
	Budgets  []budget      `json:"budgets"`
}

// idleFigures are those of an agent that has nothing to do.
type idleFigures struct {
	Requests frequency `json:"requests"`
	Agent    footprint `json:"agentMemory"`
}

// measureAgent plays scenario agent on a hub of its own.
func measureAgent(ctx context.Context, o options, clock func() time.Time, progress io.Writer) (f agentFigures, err error) {
	o.downstreams = []string{agentCluster}
	b, err := start(ctx, o, clock, progress)
	if err != nil {
		return f, err
	}
	defer func() { err = b.end(err) }()
	s, err := newAgentSite(ctx, b)
	if err != nil {
		return f, err
	}
	defer s.stop()
	if f, err = s.play(ctx); err != nil {
		return f, err
	}
	f.Budgets = agentBudgets(f, s.agent.releases)
	_, _ = fmt.Fprintf(progress, "\nan agent with %d releases\n", s.agent.releases) // as with all progress
	summarizeBudgets(progress, f.Budgets)
	return f, nil
}

// play plays it in an order in which what comes earlier does not change what comes later.
func (s *agentSite) play(ctx context.Context) (f agentFigures, err error) {
	executable, err := os.Stat(fmt.Sprintf("/proc/%d/exe", s.pid))
	if err != nil {
		return f, fmt.Errorf("looking for the agent's executable: %w", err)
	}
	f.BinaryMB = round(float64(executable.Size())/1e6, 1)
	if f.Idle, err = s.idles(ctx); err != nil {
		return f, fmt.Errorf("idle: %w", err)
	}
	if f.Large, err = s.largeChart(ctx, f.Idle.Agent); err != nil {
		return f, fmt.Errorf("a large chart: %w", err)
	}
	if f.Deploys, err = s.deploys(ctx); err != nil {
		return f, fmt.Errorf("deploying: %w", err)
	}
	if f.Resync, err = s.resync(ctx); err != nil {
		return f, fmt.Errorf("a restart: %w", err)
	}
	return f, nil
}

// idles lets time pass, and says what the agent asked for meanwhile and what it uses then.
func (s *agentSite) idles(ctx context.Context) (f idleFigures, err error) {
	waiting, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if _, err := s.calmed(waiting); err != nil {
		return f, err
	}
	s.say("nothing happens for %s", s.agent.idle)
	began := s.clock()
	if err := s.rest(ctx, s.agent.idle); err != nil {
		return f, err
	}
	counts, _, err := s.requests()
	if err != nil {
		return f, err
	}
	f.Requests = frequencyOf(counts, s.clock().Sub(began))
	f.Agent, err = s.footprint()
	return f, err
}

// largeFigures are those of an agent that has deployed a large chart some time ago.
type largeFigures struct {
	// PackedKiB is the size of its files as they are in the Bundle, UnpackedMiB that of what is in them.
	PackedKiB float64 `json:"packedKiB"`
	// Deployed tells whether it could be; a minute later the agent has to have forgotten it in any case.
	Deployed bool      `json:"deployed"`
	Agent    footprint `json:"agentMemory"`
	// Rise is the memory that is used beyond what was before, without what is a file's: some of it is the runtime's own
	// bookkeeping, which it never gives back.
	Rise float64 `json:"rssAnonMiBMore"`
}

func (s *agentSite) largeChart(ctx context.Context, before footprint) (f largeFigures, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	const name = "large"
	files := largeChart()
	packed := 0
	for _, file := range files {
		packed += len(file.Content) * 3 / 4 // it is base64
	}
	f.PackedKiB = round(float64(packed)/(1<<10), 0)
	s.say("a chart of %.0f KiB, and %s after it", f.PackedKiB, s.agent.settle)
	if err := s.deploy(ctx, name, files); err != nil {
		return f, err
	}
	if f.Deployed, err = s.either(ctx, sawReady+name, sawFailed+name); err != nil {
		return f, err
	}
	if err := s.rest(ctx, s.agent.settle); err != nil {
		return f, err
	}
	if f.Agent, err = s.footprint(); err != nil {
		return f, err
	}
	f.Rise = round(max(0, f.Agent.Anonymous-before.Anonymous), 1)
	return f, s.world.Hub.Delete(ctx, client.Bundles, s.cluster.Namespace, name)
}

// either waits until one of two was seen, and tells whether it was the first.
func (s *agentSite) either(ctx context.Context, first, second string) (bool, error) {
	found := false
	err := s.every(ctx, pollEvery, func() (bool, error) {
		missing, _, _ := s.seen.look([]string{first})
		other, _, _ := s.seen.look([]string{second})
		found = missing == ""
		return found || other == "", nil
	})
	return found, err
}

// resyncFigures are those of an agent that finds all its releases as they should be when it starts.
type resyncFigures struct {
	// Writes are those that nothing gave a reason for; Rows all it asked for until it was calm.
	Writes int   `json:"writes"`
	Rows   []row `json:"rows"`
	// Idle is what it is like then.
	Idle idleFigures `json:"idle"`
}

func (s *agentSite) resync(ctx context.Context) (f resyncFigures, err error) {
	s.say("the agent is restarted")
	waiting, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if _, err := s.calmed(waiting); err != nil {
		return f, err
	}
	pods := s.world.On(agentCluster).Kube.CoreV1().Pods(names.SystemNamespace)
	if err := pods.Delete(waiting, s.pod, metav1.DeleteOptions{}); err != nil {
		return f, fmt.Errorf("deleting the agent's pod: %w", err)
	}
	if err := s.locate(waiting, s.pid); err != nil {
		return f, err
	}
	counts, err := s.calmed(waiting)
	if err != nil {
		return f, err
	}
	f.Rows, f.Writes = rowsOf(counts), counts.Only(isUnneeded).Total().Requests
	f.Idle, err = s.idles(ctx)
	return f, err
}

// agentBudgets are what is promised of an agent.
func agentBudgets(f agentFigures, releases int) []budget {
	drift := f.Deploys.Drift.Max
	if f.Deploys.Unreported > 0 {
		drift = millis(driftPatience)
	}
	all := []budget{
		below("agent's executable, MB", f.BinaryMB, 70, 70),
		below("agent RssAnon, MiB", f.Idle.Agent.Anonymous, 28, 28),
		below("agent RSS, MiB", f.Idle.Agent.Resident, 60, 48),
		below("agent RssAnon after a large chart, MiB", f.Large.Agent.Anonymous, 28, 28),
		below("agent RSS after a large chart, MiB", f.Large.Agent.Resident, 60, 48),
		below("agent's requests per minute", f.Idle.Requests.PerMinute, 8, 6),
		below("created to ten objects, p50, ms", f.Deploys.Existing.P50, 150, 80),
		below("ready to reported, slowest, ms", f.Deploys.Reporting.Max, 200, 200),
		below("edited to reported, slowest, ms", drift, 1000, 300),
		below("writes of an agent restarted", float64(f.Resync.Writes), 0, 0),
	}
	if releases >= 100 { // fewer say nothing
		all = append(all, below("agent RSS with 100 releases, MiB", max(f.Deploys.Agent.Resident, f.Resync.Idle.Agent.Resident), 80, 65))
	}
	return all
}
