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

// agentFigures are the figures of agents. Each agent is a process with its own cluster.
type agentFigures struct {
	// Agents are the figures of each agent. Several agents may be measured at the same time.
	Agents []agentSample `json:"agents"`
	// Budgets are compared with the medians.
	Budgets []budget `json:"budgets"`
}

// agentSample holds the figures of one agent.
type agentSample struct {
	// BinaryMB is the size of the agent's executable in millions of bytes.
	BinaryMB float64       `json:"binaryMB"`
	Idle     idleFigures   `json:"idle"`
	Large    largeFigures  `json:"largeChart"`
	Deploys  deployFigures `json:"deploys"`
	Resync   resyncFigures `json:"resync"`
}

// idleFigures are the figures of an agent that has no work.
type idleFigures struct {
	Requests frequency `json:"requests"`
	Agent    footprint `json:"agentMemory"`
}

// measureAgent runs scenario agent on its own hub.
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
	_, _ = fmt.Fprintf(progress, "\nan agent with %d releases, median of %d\n", o.agent.releases, len(f.Agents)) // a failed write cannot be reported
	summarizeBudgets(progress, f.Budgets)
	return f, nil
}

// agentClusters returns the names of this number of clusters.
func agentClusters(together int) []string {
	all := []string{agentCluster}
	for i := 2; i <= together; i++ {
		all = append(all, fmt.Sprintf("%s-%d", agentCluster, i))
	}
	return all
}

// phase is a part of the scenario. With together it mostly waits, and all agents are measured at the same time.
// Otherwise it needs the processors, and the agents are measured one after another.
type phase struct {
	what     string
	together bool
	measure  func(ctx context.Context, s *agentSite, f *agentSample) error
}

// phases returns the phases in an order in which earlier phases do not influence later ones.
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

// play runs all phases with all agents.
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
					return fmt.Errorf("measuring agent %s in phase %q: %w", s.on, phase.what, err)
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
		return 0, fmt.Errorf("finding the agent's executable: %w", err)
	}
	return round(float64(executable.Size())/1e6, 1), nil
}

// settled returns the agent's memory some time after its work has ended.
func (s *agentSite) settled(ctx context.Context) (footprint, error) {
	if err := s.rest(ctx, s.agent.settle); err != nil {
		return footprint{}, err
	}
	return s.footprint()
}

// idles waits, and returns the agent's requests and resource usage of that time.
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

// largeFigures are the figures of an agent some time after it has deployed a large chart.
type largeFigures struct {
	// PackedKiB is the size of the chart's files in the Bundle, UnpackedMiB their size after decompression.
	PackedKiB float64 `json:"packedKiB"`
	// Deployed reports whether the deployment succeeded. In both cases the agent must have released the memory a
	// minute later.
	Deployed bool      `json:"deployed"`
	Agent    footprint `json:"agentMemory"`
	// Rise is the additional memory compared with before, without file-backed memory. A part of it is bookkeeping
	// of the Go runtime, which is never released.
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

// either waits until one of two events was seen, and reports whether it was the first.
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

// resyncFigures are the figures of an agent that starts when all its releases are in the wanted state.
type resyncFigures struct {
	// Writes is the number of writes without a reason. Rows are all requests until the agent was idle.
	Writes int   `json:"writes"`
	Rows   []row `json:"rows"`
	// Idle are its figures after that.
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

// agentBudgets returns the agent's budgets, compared with the medians of several agents. After a large chart the
// memory should be the same as before. The allowed difference is that between two measurements of an idle agent:
// 4 MiB may be allocated before memory is released (footprint).
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
		of("Bundle created to Bundle ready, p50, ms", 300, 200, func(f agentSample) float64 { return f.Deploys.Told.P50 }),
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

// median returns the smallest value that is not less than half of all values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}
