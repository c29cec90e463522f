package main

import (
	"slices"

	"github.com/fleet-hub/fleet/e2e/bench/delivery"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
)

// budgetsOf returns the budgets for the measured figures.
func budgetsOf(r run) []figures.Budget {
	all := []figures.Budget{
		figures.Below("requests per registration", r.Registration.Requests.Each, 32, 28),
		figures.Below("objects left per cluster", r.Registration.Objects.AfterExpiry, 16, 12),
		figures.Above("registrations per second", r.Registration.PerSecond, 20, 30),
		figures.Below("controller CPU per registration, ms", r.Registration.ControllerMillis, 15, 10),
	}
	if r.Single != nil {
		all = append(all, figures.Below("one at a time, p50, ms", r.Single.P50, 180, 120))
	}
	// These budgets are defined for a thousand clusters.
	if r.Clusters >= 1000 {
		all = append(all, figures.Below("controller RSS, MiB", r.Registration.Controller.Resident, 150, 110))
	}
	if r.Restart != nil && r.Clusters >= 1000 {
		all = append(all, figures.Below("controller peak RSS after a restart, MiB", r.Restart.Controller.Peak, 200, 200))
	}
	if r.Restart != nil {
		all = append(all, figures.Below("writes after a restart", float64(r.Restart.Writes), 1, 1))
	}
	if r.Next != nil {
		all = append(all, figures.Below("requests per registration, later beyond first", max(0, figures.Round(r.Next.Next.Each-r.Next.First.Each, 2)), 0.5, 0))
	}
	return slices.Concat(all, expiryBudgets(r), bundleBudgets(r))
}

// expiryBudgets returns the budgets for tokens that expire. Those of the return are defined for a thousand agents.
func expiryBudgets(r run) []figures.Budget {
	if r.Expiry == nil {
		return nil
	}
	all := []figures.Budget{
		figures.Below("requests per agent and day, on the hub", r.Expiry.PerDay, 8, 8),
		figures.Below("requests per agent and day, downstream", r.Expiry.DownstreamPerDay, 4, 4),
	}
	if r.Expiry.Agents >= promisedClusters {
		all = append(all,
			figures.Below("tokens expired: all agents returned, s", r.Expiry.Returned, 300, 300),
			figures.Below("recovery requests in any second", float64(r.Expiry.Most), 60, 60),
		)
	}
	return all
}

// The budgets for Bundles are defined for these numbers of clusters and Bundles.
const (
	promisedClusters, promisedBundles = 1000, 20
	promisedFleet, promisedOfFleet    = 200, 50
)

// bundleBudgets returns the budgets for Bundles.
func bundleBudgets(r run) (all []figures.Budget) {
	for _, of := range []struct {
		what string
		done *delivery.Figures
	}{{"a Bundle", r.Deliver}, {"a change", r.Change}} {
		if of.done == nil || of.done.Clusters < promisedClusters {
			continue
		}
		all = append(all,
			figures.Below(of.what+" written for all clusters, s", of.done.Written, 8, 5),
			figures.Below(of.what+" reported and told, s", of.done.Final, 15, 10),
			figures.Below(of.what+", requests per cluster", of.done.Each, 6, 4.5),
		)
	}
	if m := r.Many; m != nil && m.Clusters >= promisedClusters && m.Bundles >= promisedBundles {
		all = append(all,
			figures.Below("controller RSS with all Bundles, MiB", m.Controller.Resident, 400, 250),
			figures.Below("ready after a restart with all Bundles, s", m.Restart.CaughtUp, 15, 15),
			figures.Below("writes after a restart with all Bundles", float64(m.Restart.Writes), 1, 1),
		)
	}
	if s := r.Standby; s != nil {
		all = append(all,
			figures.Below("first change after kill -9 of the leader, beyond its lease, s", max(0, figures.Round(s.Killed.FirstChange-s.Lease, 2)), 2, 2),
			figures.Below("first change after a clean stop of the leader, s", s.Stopped.FirstChange, 2, 2),
		)
	}
	if f := r.Fleet; f != nil && f.Clusters >= promisedFleet && f.Bundles >= promisedOfFleet {
		all = append(all,
			figures.Below("writes for one cluster more, before it reports", float64(f.Before), 135, 135),
			figures.Below("writes for one cluster more, until it is ready", float64(f.Ready), 290, 290),
		)
	}
	return all
}
