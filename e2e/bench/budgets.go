package main

import "slices"

// budget is a limit for a figure: Must at most (at least if More is set), Aim is the goal.
type budget struct {
	Figure string  `json:"figure"`
	Value  float64 `json:"value"`
	Must   float64 `json:"must"`
	Aim    float64 `json:"aim"`
	// Holds is "aim", "must" or "missed". A missed budget does not fail the run, because the machine may be busy.
	Holds string `json:"holds"`
}

// below and above compare a figure that should be small, or large.
func below(figure string, value, must, aim float64) budget {
	b := budget{Figure: figure, Value: value, Must: must, Aim: aim, Holds: "missed"}
	if value <= must {
		b.Holds = "must"
	}
	if value <= aim {
		b.Holds = "aim"
	}
	return b
}

func above(figure string, value, must, aim float64) budget {
	b := below(figure, -value, -must, -aim)
	b.Value, b.Must, b.Aim = value, must, aim
	return b
}

// budgetsOf returns the budgets for the measured figures.
func budgetsOf(r run) []budget {
	all := []budget{
		below("requests per registration", r.Registration.Requests.Each, 32, 28),
		below("objects left per cluster", r.Registration.Objects.AfterExpiry, 16, 12),
		above("registrations per second", r.Registration.PerSecond, 20, 30),
		below("controller CPU per registration, ms", r.Registration.ControllerMillis, 15, 10),
	}
	if r.Single != nil {
		all = append(all, below("one at a time, p50, ms", r.Single.P50, 180, 120))
	}
	// These budgets are defined for a thousand clusters.
	if r.Clusters >= 1000 {
		all = append(all, below("controller RSS, MiB", r.Registration.Controller.Resident, 150, 110))
	}
	if r.Restart != nil && r.Clusters >= 1000 {
		all = append(all, below("controller peak RSS after a restart, MiB", r.Restart.Controller.Peak, 200, 200))
	}
	if r.Restart != nil {
		all = append(all, below("writes after a restart", float64(r.Restart.Writes), 1, 1))
	}
	if r.Next != nil {
		all = append(all, below("requests per registration, later beyond first", max(0, round(r.Next.Next.Each-r.Next.First.Each, 2)), 0.5, 0))
	}
	return slices.Concat(all, expiryBudgets(r), bundleBudgets(r))
}

// expiryBudgets returns the budgets for tokens that expire. Those of the return are defined for a thousand agents.
func expiryBudgets(r run) []budget {
	if r.Expiry == nil {
		return nil
	}
	all := []budget{
		below("requests per agent and day, on the hub", r.Expiry.PerDay, 8, 8),
		below("requests per agent and day, downstream", r.Expiry.DownstreamPerDay, 4, 4),
	}
	if r.Expiry.Agents >= promisedClusters {
		all = append(all,
			below("tokens expired: all agents returned, s", r.Expiry.Returned, 300, 300),
			below("recovery requests in any second", float64(r.Expiry.Most), 60, 60),
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
func bundleBudgets(r run) (all []budget) {
	for _, of := range []struct {
		what string
		done *delivered
	}{{"a Bundle", r.Deliver}, {"a change", r.Change}} {
		if of.done == nil || of.done.Clusters < promisedClusters {
			continue
		}
		all = append(all,
			below(of.what+" written for all clusters, s", of.done.Written, 8, 5),
			below(of.what+" reported and told, s", of.done.Final, 15, 10),
			below(of.what+", requests per cluster", of.done.Each, 6, 4.5),
		)
	}
	if m := r.Many; m != nil && m.Clusters >= promisedClusters && m.Bundles >= promisedBundles {
		all = append(all,
			below("controller RSS with all Bundles, MiB", m.Controller.Resident, 400, 250),
			below("ready after a restart with all Bundles, s", m.Restart.CaughtUp, 15, 15),
			below("writes after a restart with all Bundles", float64(m.Restart.Writes), 1, 1),
		)
	}
	if s := r.Standby; s != nil {
		all = append(all,
			below("first change after kill -9 of the leader, beyond its lease, s", max(0, round(s.Killed.FirstChange-s.Lease, 2)), 2, 2),
			below("first change after a clean stop of the leader, s", s.Stopped.FirstChange, 2, 2),
		)
	}
	if f := r.Fleet; f != nil && f.Clusters >= promisedFleet && f.Bundles >= promisedOfFleet {
		all = append(all,
			below("writes for one cluster more, before it reports", float64(f.Before), 135, 135),
			below("writes for one cluster more, until it is ready", float64(f.Ready), 290, 290),
		)
	}
	return all
}
