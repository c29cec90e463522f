package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/bench/growth"
	"github.com/fleet-hub/fleet/e2e/bench/leftovers"
	"github.com/fleet-hub/fleet/e2e/bench/profiles"
	"github.com/fleet-hub/fleet/e2e/bench/usage"
	"github.com/fleet-hub/fleet/e2e/framework/inventory"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// batch holds the measurements of a number of clusters that registered together.
type batch struct {
	clusters int
	// span is the time from the first ClusterRegistration to the last first heartbeat, took the time of each
	// cluster. Both are observed from outside.
	span time.Duration
	took []time.Duration
	// counts are all requests until there are no more writes, used the processor time for them.
	counts audit.Counts
	used   usage.Used
	// failures is the number of failed requests of agents that were retried, without polling.
	failures int
}

// patient limits a step in which agents register. It ends early if the hub refuses one, which would wait until the limit.
func (b *bench) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	ctx, release := b.Observer.UnlessRefused(ctx)
	return ctx, func() { release(); cancel() }
}

// join registers n more agents, and waits until each has reported its own Bundle as ready and there are no more
// writes.
func (b *bench) join(ctx context.Context, n int) (batch, error) {
	patient, cancel := b.patient(ctx)
	defer cancel()
	here, err := b.Controller(patient)
	if err != nil {
		return batch{}, err
	}
	meter, err := usage.NewMeter(here.PID, os.Getpid())
	if err != nil {
		return batch{}, err
	}
	if err := b.Skip(); err != nil { // skip earlier requests
		return batch{}, err
	}
	agents := b.add(n)
	b.swarm.Start(ctx, agents...)
	if err := b.swarm.Await(patient, swarm.Settled, agents...); err != nil {
		return batch{}, err
	}
	made := batch{clusters: n}
	var ids []string
	for _, a := range agents {
		ids = append(ids, a.ClientID())
		made.failures += a.State().Failures
		took, err := b.Observer.Took(patient, a.ClientID())
		if err != nil {
			return batch{}, err
		}
		made.took = append(made.took, took)
	}
	if made.span, err = b.Observer.Span(patient, ids); err != nil {
		return batch{}, err
	}
	if made.counts, err = b.UntilQuiet(ctx); err != nil {
		return batch{}, err
	}
	made.used, err = meter.Used()
	return made, err
}

// grow registers n more agents, and adds a point to the growth curve.
func (b *bench) grow(ctx context.Context, n int) (batch, error) {
	before, err := b.Reading(ctx)
	if err != nil {
		return batch{}, err
	}
	made, err := b.join(ctx, n)
	if err != nil {
		return batch{}, err
	}
	after, err := b.Reading(ctx)
	if err != nil {
		return batch{}, err
	}
	b.Say("%s", b.curve.Add(n, made.span, before, after))
	if b.growth == "" {
		return made, nil
	}
	return made, b.curve.Write(b.growth)
}

// and returns the sum of two consecutive batches.
func (b batch) and(later batch) batch {
	return batch{
		clusters: b.clusters + later.clusters, span: b.span + later.span, took: append(b.took, later.took...),
		counts: figures.Merged(b.counts, later.counts), failures: b.failures + later.failures,
		used: usage.Used{Controller: b.used.Controller + later.used.Controller, Simulator: b.used.Simulator + later.used.Simulator},
	}
}

// joined are the figures of clusters that registered together.
type joined struct {
	// Seconds is the time from the first ClusterRegistration to the last first heartbeat, both observed from
	// outside.
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"perSecond"`
	// Took is the time from a cluster's ClusterRegistration to its first heartbeat, while others register.
	Took     figures.Spread `json:"took"`
	Requests figures.Costs  `json:"requests"`
	Objects  leftovers.Left `json:"objects"`
	// ControllerMillis and SimulatorMillis are processor time per cluster, until there are no more writes.
	ControllerMillis float64 `json:"controllerCPUMillisEach"`
	SimulatorMillis  float64 `json:"simulatorCPUMillisEach"`
	// Controller is the controller's memory when there are no more writes.
	Controller usage.Footprint `json:"controllerMemory"`
	// Failures is the number of failed requests of agents that were retried.
	Failures int `json:"failures"`
}

func (b batch) figures() joined {
	return joined{
		Seconds: figures.Seconds(b.span), PerSecond: figures.Round(float64(b.clusters)/max(b.span.Seconds(), 0.001), 1), Took: figures.SpreadOf(b.took),
		Requests: figures.CostsOf(b.counts, b.clusters), Failures: b.failures,
		ControllerMillis: figures.Per(figures.Millis(b.used.Controller), b.clusters), SimulatorMillis: figures.Per(figures.Millis(b.used.Simulator), b.clusters),
	}
}

// ends is the size of the first and of the last step of a run that is larger than both, to compare their rates.
const ends = 500

// cuts returns the numbers of clusters at which a step ends, in addition to the multiples of -step.
func (o options) cuts(n int) (at []int) {
	if o.plays(next) {
		at = append(at, o.first)
	}
	if n > 2*ends {
		at = append(at, ends, n-ends)
	}
	return at
}

// registration registers n clusters, and records their figures. With scenario next the first ones are a separate batch,
// whose costs are compared with those of the last ones.
func (b *bench) registration(ctx context.Context, n int, r *run) (first *batch, err error) {
	before, err := inventory.Take(ctx, b.World.Plane.Hub.Config())
	if err != nil {
		return nil, err
	}
	var sum batch
	for _, size := range growth.Steps(n, b.step, b.cuts(n)...) {
		made, err := b.registerStep(ctx, size, n, r)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = &made
			sum = made
			continue
		}
		sum = sum.and(made)
	}
	after, err := inventory.Take(ctx, b.World.Plane.Hub.Config())
	if err != nil {
		return nil, err
	}
	here, err := b.Controller(ctx)
	if err != nil {
		return nil, err
	}
	r.Registration = sum.figures()
	r.Registration.Objects = leftovers.Between(before, after, n, names.RegistrationNamespace(names.SystemNamespace))
	r.Registration.Controller, err = usage.Of(here.PID)
	return first, err
}

// registerStep registers some of n clusters. With -profiles, it takes profiles at the ends.
func (b *bench) registerStep(ctx context.Context, size, n int, r *run) (batch, error) {
	b.Say("%d clusters register, %d at a time", size, b.atOnce)
	if until := b.made + size; b.profiles == "" || until != ends && until != n {
		return b.grow(ctx, size)
	}
	made, p, err := b.growProfiled(ctx, size)
	r.Profiles = append(r.Profiles, p)
	return made, err
}

// profileLength is the duration of a profile. 500 clusters need longer to register.
const profileLength = 15 * time.Second

// profiled are the profiles of a step of the registration.
type profiled struct {
	// Clusters is the number of registered clusters at the end of the step.
	Clusters int                `json:"clusters"`
	Of       []profiles.Profile `json:"of"`
}

// growProfiled registers n more agents and takes profiles meanwhile.
func (b *bench) growProfiled(ctx context.Context, n int) (made batch, p profiled, err error) {
	p.Clusters = b.made + n
	p.Of, err = b.profiledWhile(ctx, fmt.Sprintf("at-%d-clusters", p.Clusters), func() (err error) {
		made, err = b.grow(ctx, n)
		return err
	})
	return made, p, err
}

// profiledWhile takes profiles of the controller and of the API server while do runs.
func (b *bench) profiledWhile(ctx context.Context, label string, do func() error) ([]profiles.Profile, error) {
	processes, err := b.Profiled(ctx)
	if err != nil {
		return nil, err
	}
	var of []profiles.Profile
	taken := make(chan error, 1)
	go func() {
		var err error
		of, err = profiles.Take(ctx, processes, profileLength, b.profiles, label)
		taken <- err
	}()
	err = do()
	if err := errors.Join(err, <-taken); err != nil {
		return nil, err
	}
	for _, of := range of {
		b.Say("%s", of)
	}
	return of, nil
}

// single registers clusters one after another. Each one starts when the previous one has reported everything.
func (b *bench) single(ctx context.Context) (figures.Spread, error) {
	b.Say("%d clusters register one after another", b.singles)
	ctx, cancel := b.patient(ctx)
	defer cancel()
	var took []time.Duration
	for range b.singles {
		agents := b.add(1)
		b.swarm.Start(context.WithoutCancel(ctx), agents...)
		if err := b.swarm.Await(ctx, swarm.Settled, agents...); err != nil {
			return figures.Spread{}, err
		}
		one, err := b.Observer.Took(ctx, agents[0].ClientID())
		if err != nil {
			return figures.Spread{}, err
		}
		took = append(took, one)
	}
	_, err := b.UntilQuiet(ctx)
	return figures.SpreadOf(took), err
}

// flatness compares the first clusters with the same number of clusters that register when all others exist.
type flatness struct {
	Clusters int           `json:"clusters"`
	First    figures.Costs `json:"first"`
	Next     figures.Costs `json:"next"`
}

func (b *bench) next(ctx context.Context, first *batch) (flatness, error) {
	b.Say("the next %d clusters register", first.clusters)
	made, err := b.join(ctx, first.clusters)
	if err != nil {
		return flatness{}, err
	}
	return flatness{Clusters: first.clusters, First: figures.CostsOf(first.counts, first.clusters), Next: figures.CostsOf(made.counts, first.clusters)}, nil
}
