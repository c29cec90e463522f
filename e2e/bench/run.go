package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fleet-hub/fleet/e2e/bench/agentalone"
	"github.com/fleet-hub/fleet/e2e/bench/delivery"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/bench/growth"
	"github.com/fleet-hub/fleet/e2e/bench/machine"
)

// report is the printed document.
type report struct {
	Machine machine.Description `json:"machine"`
	Runs    []run               `json:"runs"`
	// Agent is omitted if scenario agent was not run.
	Agent *agentalone.Figures `json:"agent,omitempty"`
}

// run holds the figures of one hub. Scenarios that were not run are omitted.
type run struct {
	Clusters     int            `json:"clusters"`
	Workspaces   int            `json:"workspaces"`
	AtOnce       int            `json:"atOnce"`
	Speed        machine.Speeds `json:"speed"`
	Registration joined         `json:"registration"`
	// Growth has a point for each -step clusters.
	Growth growth.Curve `json:"growth"`
	// Profiles are those of -profiles, at the first and the last clusters.
	Profiles []profiled        `json:"profiles,omitempty"`
	Single   *figures.Spread   `json:"oneAtATime,omitempty"`
	Next     *flatness         `json:"next,omitempty"`
	Restart  *restarted        `json:"restart,omitempty"`
	Deliver  *delivery.Figures `json:"deliver,omitempty"`
	Change   *delivery.Figures `json:"change,omitempty"`
	Many     *laden            `json:"many,omitempty"`
	Standby  *standsBy         `json:"standby,omitempty"`
	Fleet    *grown            `json:"joinFleet,omitempty"`
	Idle     *resting          `json:"idle,omitempty"`
	Herd     *returned         `json:"herd,omitempty"`
	Expiry   *expired          `json:"expiry,omitempty"`
	Budgets  []figures.Budget  `json:"budgets"`
}

// measureAll measures one size after another and prints all results at the end. After an error it prints the
// results so far.
func measureAll(ctx context.Context, o options, clock func() time.Time, out, progress io.Writer) error {
	all := report{Machine: machine.Here(), Runs: []run{}}
	var failed error
	if o.plays(agentAlone) {
		all.Agent, failed = kept(measureAgent(ctx, o, clock, progress))
		if failed != nil || len(o.scenarios) == 1 {
			o.sizes = nil
		}
	}
	for _, n := range o.sizes {
		r, err := measure(ctx, o, n, clock, progress)
		if err != nil {
			failed = fmt.Errorf("measuring %d clusters: %w", n, err)
			break
		}
		all.Runs = append(all.Runs, r)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return errors.Join(failed, encoder.Encode(all))
}

// measure runs the scenarios with n clusters on a new hub.
func measure(ctx context.Context, o options, n int, clock func() time.Time, progress io.Writer) (r run, err error) {
	b, err := start(ctx, o, clock, progress)
	if err != nil {
		return run{}, err
	}
	defer func() { err = b.end(err) }()
	r, err = b.play(ctx, n)
	if err == nil {
		summarize(progress, r)
	}
	return r, err
}

// measureAgent runs scenario agent on its own hub.
func measureAgent(ctx context.Context, o options, clock func() time.Time, progress io.Writer) (f agentalone.Figures, err error) {
	o.downstreams = o.agent.Clusters()
	b, err := start(ctx, o, clock, progress)
	if err != nil {
		return f, err
	}
	defer func() { err = b.end(err) }()
	return agentalone.Measure(ctx, agentalone.Options{Settings: o.agent, Hub: b.Hub, AtOnce: o.atOnce})
}

// play runs the scenarios in their order.
func (b *bench) play(ctx context.Context, n int) (run, error) {
	r := run{Clusters: n, Workspaces: b.spread, AtOnce: b.atOnce}
	var err error
	if r.Speed.Before, err = machine.Speed(ctx); err != nil {
		return run{}, err
	}
	here := machine.Here()
	b.curve.Title = fmt.Sprintf("%d clusters%s, %d at once, on %d processors with %g GiB of memory, speed %d", n, b.inWorkspaces(), b.atOnce, here.Processors, here.MemoryGiB, r.Speed.Before)
	var first *batch
	for _, step := range []struct {
		scenario string
		do       func() error
	}{
		{registration, func() (err error) { first, err = b.registration(ctx, n, &r); return err }},
		{single, func() (err error) { r.Single, err = kept(b.single(ctx)); return err }},
		{next, func() (err error) { r.Next, err = kept(b.next(ctx, first)); return err }},
		{restart, func() (err error) { r.Restart, err = kept(b.restart(ctx)); return err }},
		{deliver, func() (err error) { r.Deliver, err = kept(b.deliver(ctx)); return err }},
		{change, func() (err error) { r.Change, err = kept(b.change(ctx)); return err }},
		{many, func() (err error) { r.Many, err = kept(b.many(ctx)); return err }},
		{standingBy, func() (err error) { r.Standby, err = kept(b.standby(ctx)); return err }},
		{fleetOf, func() (err error) { r.Fleet, err = kept(b.joinFleet(ctx)); return err }},
		{idle, func() (err error) { r.Idle, err = kept(b.idle(ctx)); return err }},
		{herd, func() (err error) { r.Herd, err = kept(b.herd(ctx)); return err }},
		{expiring, func() (err error) { r.Expiry, err = kept(b.expire(ctx)); return err }},
	} {
		if step.scenario != registration && !b.plays(step.scenario) {
			continue
		}
		if isTooLarge(step.scenario, n) {
			b.Say("scenario %s is skipped: too many clusters", step.scenario)
			continue
		}
		if step.scenario == next && first.clusters == n {
			continue // skipped: the first clusters are also the last ones
		}
		if err := step.do(); err != nil {
			return run{}, fmt.Errorf("running scenario %s: %w", step.scenario, err)
		}
	}
	r.Growth, r.Budgets = b.curve, budgetsOf(r)
	r.Speed.After, err = machine.Speed(ctx)
	return r, err
}

// isTooLarge reports whether a scenario would not end in reasonable time and memory with so many clusters: join-fleet,
// many and standby need as many BundleDeployments for each, idle and herd have each agent report every few seconds, and in expiry
// each has the memory of a real one.
func isTooLarge(scenario string, clusters int) bool {
	switch scenario {
	case fleetOf:
		return clusters > fleetLimit
	case many, standingBy, idle, herd, expiring:
		return clusters > promisedClusters
	}
	return false
}

// kept returns a pointer to the result.
func kept[T any](measured T, err error) (*T, error) { return &measured, err }

// summarize prints the budgets as text.
func summarize(progress io.Writer, r run) {
	_, _ = fmt.Fprintf(progress, "\n%d clusters, %d at a time; speed of the machine %d before, %d after\n", // a failed write cannot be reported
		r.Clusters, r.AtOnce, r.Speed.Before, r.Speed.After)
	figures.Summarize(progress, r.Budgets)
}
