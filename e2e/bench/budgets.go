package main

// budget is a figure that is promised: Must at the most (at the least where More is set), Aim where we want to be.
type budget struct {
	Figure string  `json:"figure"`
	Value  float64 `json:"value"`
	Must   float64 `json:"must"`
	Aim    float64 `json:"aim"`
	// Holds is "aim", "must" or "missed". It decides nothing: the machine may be doing other things.
	Holds string `json:"holds"`
}

// below and above judge a figure that should be small, or large.
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

// budgetsOf are the budgets that what was measured can be held against.
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
	// Promised for a thousand clusters; fewer say nothing.
	if r.Clusters >= 1000 {
		all = append(all, below("controller RSS, MiB", r.Registration.Controller.Resident, 150, 110))
	}
	if r.Restart != nil && r.Clusters >= 1000 {
		all = append(all, below("controller peak RSS after a restart, MiB", r.Restart.Controller.Peak, 200, 200))
	}
	if r.Restart != nil {
		all = append(all, below("writes after a restart", float64(r.Restart.Writes), 0, 0))
	}
	if r.Next != nil {
		all = append(all, below("requests per registration, later beyond first", max(0, round(r.Next.Next.Each-r.Next.First.Each, 2)), 0.5, 0))
	}
	return all
}
