package agentalone

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/bench/bundles"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/bench/hub"
	"github.com/fleet-hub/fleet/e2e/bench/usage"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Figures are the figures of agents. Each agent is a process with its own cluster.
type Figures struct {
	// Agents are the figures of each agent. Several agents may be measured at the same time.
	Agents []Sample `json:"agents"`
	// Budgets are compared with the medians.
	Budgets []figures.Budget `json:"budgets"`
}

// Sample holds the figures of one agent.
type Sample struct {
	// BinaryMB is the size of the agent's executable in millions of bytes.
	BinaryMB float64       `json:"binaryMB"`
	Idle     idleFigures   `json:"idle"`
	Large    largeFigures  `json:"largeChart"`
	Deploys  deployFigures `json:"deploys"`
	Resync   resyncFigures `json:"resync"`
}

// idleFigures are the figures of an agent that has no work.
type idleFigures struct {
	Requests frequency       `json:"requests"`
	Agent    usage.Footprint `json:"agentMemory"`
}

// Options configures Measure.
type Options struct {
	Settings
	// Hub is a hub with the clusters of Settings.Clusters.
	*hub.Hub
	// AtOnce limits how many Bundles are created at the same time.
	AtOnce int
}

// pollEvery is the interval between two looks at what watches and logs have shown.
const pollEvery = 250 * time.Millisecond

// Measure installs the agents, and measures them.
func Measure(ctx context.Context, o Options) (f Figures, err error) {
	var sites []*site
	defer func() {
		for _, s := range sites {
			s.stop()
		}
	}()
	if sites, err = newSites(ctx, o); err != nil {
		return f, err
	}
	if f.Agents, err = play(ctx, sites, o.Say); err != nil {
		return f, err
	}
	f.Budgets = budgetsOf(f.Agents, o.releases)
	_, _ = fmt.Fprintf(o.Progress, "\nan agent with %d releases, median of %d\n", o.releases, len(f.Agents)) // a failed write cannot be reported
	figures.Summarize(o.Progress, f.Budgets)
	return f, nil
}

// Clusters returns the names of the clusters that the agents need.
func (s Settings) Clusters() []string {
	all := []string{firstCluster}
	for i := 2; i <= s.together; i++ {
		all = append(all, fmt.Sprintf("%s-%d", firstCluster, i))
	}
	return all
}

// phase is a part of the scenario. With together it mostly waits, and all agents are measured at the same time.
// Otherwise it needs the processors, and the agents are measured one after another.
type phase struct {
	what     string
	together bool
	measure  func(ctx context.Context, s *site, f *Sample) error
}

// phases returns the phases in an order in which earlier phases do not influence later ones.
func phases() []phase {
	return []phase{
		{"the executable", true, func(_ context.Context, s *site, f *Sample) (err error) {
			f.BinaryMB, err = s.executable()
			return err
		}},
		{"idle", true, func(ctx context.Context, s *site, f *Sample) (err error) {
			f.Idle, err = s.idles(ctx)
			return err
		}},
		{"a large chart", true, func(ctx context.Context, s *site, f *Sample) (err error) {
			f.Large, err = s.largeChart(ctx, f.Idle.Agent)
			return err
		}},
		{"deploying", false, func(ctx context.Context, s *site, f *Sample) (err error) {
			f.Deploys, err = s.deploys(ctx)
			return err
		}},
		{"after that", true, func(ctx context.Context, s *site, f *Sample) (err error) {
			f.Deploys.Agent, err = s.settled(ctx)
			return err
		}},
		{"a restart", true, func(ctx context.Context, s *site, f *Sample) (err error) {
			f.Resync, err = s.resync(ctx)
			return err
		}},
	}
}

// play runs all phases with all agents.
func play(ctx context.Context, sites []*site, say func(string, ...any)) ([]Sample, error) {
	samples := make([]Sample, len(sites))
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

func (s *site) executable() (float64, error) {
	executable, err := os.Stat(fmt.Sprintf("/proc/%d/exe", s.pid))
	if err != nil {
		return 0, fmt.Errorf("finding the agent's executable: %w", err)
	}
	return figures.Round(float64(executable.Size())/1e6, 1), nil
}

// settled returns the agent's memory some time after its work has ended.
func (s *site) settled(ctx context.Context) (usage.Footprint, error) {
	if err := s.rest(ctx, s.settle); err != nil {
		return usage.Footprint{}, err
	}
	return s.footprint()
}

// idles waits, and returns the agent's requests and resource usage of that time.
func (s *site) idles(ctx context.Context) (f idleFigures, err error) {
	waiting, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	if _, err := s.calmed(waiting); err != nil {
		return f, err
	}
	began := s.Clock()
	if err := s.rest(ctx, s.idle); err != nil {
		return f, err
	}
	counts, _, err := s.requests()
	if err != nil {
		return f, err
	}
	f.Requests = frequencyOf(counts, s.Clock().Sub(began))
	f.Agent, err = s.footprint()
	return f, err
}

// largeFigures are the figures of an agent some time after it has deployed a large chart.
type largeFigures struct {
	// PackedKiB is the size of the chart's files in the Bundle, UnpackedMiB their size after decompression.
	PackedKiB float64 `json:"packedKiB"`
	// Deployed reports whether the deployment succeeded. In both cases the agent must have released the memory a
	// minute later.
	Deployed bool            `json:"deployed"`
	Agent    usage.Footprint `json:"agentMemory"`
	// Rise is the additional memory compared with before, without file-backed memory. A part of it is bookkeeping
	// of the Go runtime, which is never released.
	Rise float64 `json:"rssAnonMiBMore"`
}

func (s *site) largeChart(ctx context.Context, before usage.Footprint) (f largeFigures, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	name := s.on + "-large"
	files := bundles.LargeChart()
	packed := 0
	for _, file := range files {
		packed += len(file.Content) * 3 / 4 // it is base64
	}
	f.PackedKiB = figures.Round(float64(packed)/(1<<10), 0)
	if err := s.deploy(ctx, name, files); err != nil {
		return f, err
	}
	if f.Deployed, err = s.either(ctx, sawReady+name, sawFailed+name); err != nil {
		return f, err
	}
	if f.Agent, err = s.settled(ctx); err != nil {
		return f, err
	}
	f.Rise = figures.Round(max(0, f.Agent.Anonymous-before.Anonymous), 1)
	return f, s.World.Hub.Delete(ctx, client.Bundles, s.cluster.Namespace, name)
}

// either waits until one of two events was seen, and reports whether it was the first.
func (s *site) either(ctx context.Context, first, second string) (bool, error) {
	found := false
	err := hub.Every(ctx, pollEvery, func() (bool, error) {
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
	Writes int           `json:"writes"`
	Rows   []figures.Row `json:"rows"`
	// Idle are its figures after that.
	Idle idleFigures `json:"idle"`
}

func (s *site) resync(ctx context.Context) (f resyncFigures, err error) {
	waiting, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	if _, err := s.calmed(waiting); err != nil {
		return f, err
	}
	pods := s.World.On(s.on).Kube.CoreV1().Pods(names.SystemNamespace)
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

// budgetsOf returns the agent's budgets, compared with the medians of several agents. After a large chart the
// memory should be the same as before. The allowed difference is that between two measurements of an idle agent:
// 4 MiB may be allocated before memory is released (footprint).
func budgetsOf(all []Sample, releases int) []figures.Budget {
	of := func(figure string, must, aim float64, value func(f Sample) float64) figures.Budget {
		var values []float64
		for _, f := range all {
			values = append(values, value(f))
		}
		return figures.Below(figure, figures.Median(values), must, aim)
	}
	budgets := []figures.Budget{
		of("agent's executable, MB", 70, 70, func(f Sample) float64 { return f.BinaryMB }),
		of("agent RssAnon, MiB", 28, 28, func(f Sample) float64 { return f.Idle.Agent.Anonymous }),
		of("agent RSS, MiB", 60, 48, func(f Sample) float64 { return f.Idle.Agent.Resident }),
		of("agent RssAnon after a large chart, MiB", 28, 28, func(f Sample) float64 { return f.Large.Agent.Anonymous }),
		of("agent RSS after a large chart, MiB", 60, 48, func(f Sample) float64 { return f.Large.Agent.Resident }),
		of("agent RssAnon after a large chart beyond before, MiB", 4, 2, func(f Sample) float64 { return f.Large.Rise }),
		of("agent's requests per minute", 8, 6, func(f Sample) float64 { return f.Idle.Requests.PerMinute }),
		of("created to ten objects, p50, ms", 150, 80, func(f Sample) float64 { return f.Deploys.Existing.P50 }),
		of("Bundle created to Bundle ready, p50, ms", 300, 200, func(f Sample) float64 { return f.Deploys.Told.P50 }),
		of("ready to reported, slowest, ms", 200, 200, func(f Sample) float64 { return f.Deploys.Reporting.Max }),
		of("edited to reported, slowest, ms", 1000, 300, func(f Sample) float64 {
			if f.Deploys.Unreported > 0 {
				return figures.Millis(driftPatience)
			}
			return f.Deploys.Drift.Max
		}),
		of("writes of an agent restarted", 0, 0, func(f Sample) float64 { return float64(f.Resync.Writes) }),
	}
	if releases >= 100 { // fewer say nothing
		budgets = append(budgets, of("agent RSS with 100 releases, MiB", 80, 65, func(f Sample) float64 {
			return max(f.Deploys.Agent.Resident, f.Resync.Idle.Agent.Resident)
		}))
	}
	return budgets
}
