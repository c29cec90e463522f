package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// agentFigures are those of agents, each a process of its own on a cluster of its own.
type agentFigures struct {
	// Agents are those of each; there may be several at the same time.
	Agents []agentSample `json:"agents"`
	// Budgets are held against the medians.
	Budgets []budget `json:"budgets"`
}

// agentSample are the figures of one.
type agentSample struct {
	// BinaryMB is the size of its executable, in millions of bytes.
	BinaryMB float64       `json:"binaryMB"`
	Idle     idleFigures   `json:"idle"`
	Large    largeFigures  `json:"largeChart"`
	Deploys  deployFigures `json:"deploys"`
	Resync   resyncFigures `json:"resync"`
}

// idleFigures are those of an agent that has nothing to do.
type idleFigures struct {
	Requests frequency `json:"requests"`
	Agent    footprint `json:"agentMemory"`
}

// measureAgent plays scenario agent on a hub of its own.
func measureAgent(ctx context.Context, o options, clock func() time.Time, progress io.Writer) (f agentFigures, err error) {
	o.downstreams = agentClusters(o.agent.together)
	b, err := start(ctx, o, clock, progress)
	if err != nil {
		return f, err
	}
	defer func() { err = b.end(err) }()
	var sites []*agentSite
	defer func() {
		for _, s := range sites {
			s.stop()
		}
	}()
	if sites, err = newAgentSites(ctx, b); err != nil {
		return f, err
	}
	if f.Agents, err = play(ctx, sites, b.say); err != nil {
		return f, err
	}
	f.Budgets = agentBudgets(f.Agents, o.agent.releases)
	_, _ = fmt.Fprintf(progress, "\nan agent with %d releases, median of %d\n", o.agent.releases, len(f.Agents)) // as with all progress
	summarizeBudgets(progress, f.Budgets)
	return f, nil
}

// agentClusters names the clusters of so many agents.
func agentClusters(together int) []string {
	all := []string{agentCluster}
	for i := 2; i <= together; i++ {
		all = append(all, fmt.Sprintf("%s-%d", agentCluster, i))
	}
	return all
}

// phase is a part of the scenario. What is for the most part waiting is measured of all agents at the same time; what
// takes the processors of one after another.
type phase struct {
	what     string
	together bool
	measure  func(ctx context.Context, s *agentSite, f *agentSample) error
}

// phases are in an order in which what comes earlier does not change what comes later.
func phases() []phase {
	return []phase{
		{"the executable", true, func(_ context.Context, s *agentSite, f *agentSample) (err error) {
			f.BinaryMB, err = s.executable()
			return err
		}},
		{"idle", true, func(ctx context.Context, s *agentSite, f *agentSample) (err error) {
			f.Idle, err = s.idles(ctx)
			return err
		}},
		{"a large chart", true, func(ctx context.Context, s *agentSite, f *agentSample) (err error) {
			f.Large, err = s.largeChart(ctx, f.Idle.Agent)
			return err
		}},
		{"deploying", false, func(ctx context.Context, s *agentSite, f *agentSample) (err error) {
			f.Deploys, err = s.deploys(ctx)
			return err
		}},
		{"after that", true, func(ctx context.Context, s *agentSite, f *agentSample) (err error) {
			f.Deploys.Agent, err = s.settled(ctx)
			return err
		}},
		{"a restart", true, func(ctx context.Context, s *agentSite, f *agentSample) (err error) {
			f.Resync, err = s.resync(ctx)
			return err
		}},
	}
}

// play plays all phases with all agents.
func play(ctx context.Context, sites []*agentSite, say func(string, ...any)) ([]agentSample, error) {
	samples := make([]agentSample, len(sites))
	for _, phase := range phases() {
		say("%s", phase.what)
		group, ctx := errgroup.WithContext(ctx)
		if !phase.together {
			group.SetLimit(1)
		}
		for i, s := range sites {
			group.Go(func() error {
				if err := phase.measure(ctx, s, &samples[i]); err != nil {
					return fmt.Errorf("%s, %s: %w", s.on, phase.what, err)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

func (s *agentSite) executable() (float64, error) {
	executable, err := os.Stat(fmt.Sprintf("/proc/%d/exe", s.pid))
	if err != nil {
		return 0, fmt.Errorf("looking for the agent's executable: %w", err)
	}
	return round(float64(executable.Size())/1e6, 1), nil
}

// settled is the agent's memory some time after it was at work.
func (s *agentSite) settled(ctx context.Context) (footprint, error) {
	if err := s.rest(ctx, s.agent.settle); err != nil {
		return footprint{}, err
	}
	return s.footprint()
}

// idles lets time pass, and says what the agent asked for meanwhile and what it uses then.
func (s *agentSite) idles(ctx context.Context) (f idleFigures, err error) {
	waiting, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if _, err := s.calmed(waiting); err != nil {
		return f, err
	}
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
	name := s.on + "-large"
	files := largeChart()
	packed := 0
	for _, file := range files {
		packed += len(file.Content) * 3 / 4 // it is base64
	}
	f.PackedKiB = round(float64(packed)/(1<<10), 0)
	if err := s.deploy(ctx, name, files); err != nil {
		return f, err
	}
	if f.Deployed, err = s.either(ctx, sawReady+name, sawFailed+name); err != nil {
		return f, err
	}
	if f.Agent, err = s.settled(ctx); err != nil {
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
	waiting, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if _, err := s.calmed(waiting); err != nil {
		return f, err
	}
	pods := s.world.On(s.on).Kube.CoreV1().Pods(names.SystemNamespace)
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

// agentBudgets are what is promised of an agent, held against the medians of several. Memory after a large chart is to
// be what it was before; what is allowed beyond that is by how much two looks at an agent at rest may differ: 4 MiB are
// allocated before memory is given back again (footprint).
func agentBudgets(all []agentSample, releases int) []budget {
	of := func(figure string, must, aim float64, value func(f agentSample) float64) budget {
		var values []float64
		for _, f := range all {
			values = append(values, value(f))
		}
		return below(figure, median(values), must, aim)
	}
	budgets := []budget{
		of("agent's executable, MB", 70, 70, func(f agentSample) float64 { return f.BinaryMB }),
		of("agent RssAnon, MiB", 28, 28, func(f agentSample) float64 { return f.Idle.Agent.Anonymous }),
		of("agent RSS, MiB", 60, 48, func(f agentSample) float64 { return f.Idle.Agent.Resident }),
		of("agent RssAnon after a large chart, MiB", 28, 28, func(f agentSample) float64 { return f.Large.Agent.Anonymous }),
		of("agent RSS after a large chart, MiB", 60, 48, func(f agentSample) float64 { return f.Large.Agent.Resident }),
		of("agent RssAnon after a large chart beyond before, MiB", 4, 2, func(f agentSample) float64 { return f.Large.Rise }),
		of("agent's requests per minute", 8, 6, func(f agentSample) float64 { return f.Idle.Requests.PerMinute }),
		of("created to ten objects, p50, ms", 150, 80, func(f agentSample) float64 { return f.Deploys.Existing.P50 }),
		of("ready to reported, slowest, ms", 200, 200, func(f agentSample) float64 { return f.Deploys.Reporting.Max }),
		of("edited to reported, slowest, ms", 1000, 300, func(f agentSample) float64 {
			if f.Deploys.Unreported > 0 {
				return millis(driftPatience)
			}
			return f.Deploys.Drift.Max
		}),
		of("writes of an agent restarted", 0, 0, func(f agentSample) float64 { return float64(f.Resync.Writes) }),
	}
	if releases >= 100 { // fewer say nothing
		budgets = append(budgets, of("agent RSS with 100 releases, MiB", 80, 65, func(f agentSample) float64 {
			return max(f.Deploys.Agent.Resident, f.Resync.Idle.Agent.Resident)
		}))
	}
	return budgets
}

// median is the smallest value that is not smaller than half of all.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}
