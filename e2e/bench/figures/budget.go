package figures

import (
	"fmt"
	"io"
)

// Budget is a limit for a figure: Must is what is promised, Aim is the goal.
type Budget struct {
	Figure string  `json:"figure"`
	Value  float64 `json:"value"`
	Must   float64 `json:"must"`
	Aim    float64 `json:"aim"`
	// Holds is "aim", "must" or "missed". A missed budget does not fail the run, because the machine may be busy.
	Holds string `json:"holds"`
}

// Below compares a figure that should be small.
func Below(figure string, value, must, aim float64) Budget {
	b := Budget{Figure: figure, Value: value, Must: must, Aim: aim, Holds: "missed"}
	if value <= must {
		b.Holds = "must"
	}
	if value <= aim {
		b.Holds = "aim"
	}
	return b
}

// Above compares a figure that should be large.
func Above(figure string, value, must, aim float64) Budget {
	b := Below(figure, -value, -must, -aim)
	b.Value, b.Must, b.Aim = value, must, aim
	return b
}

// Summarize prints budgets as text.
func Summarize(progress io.Writer, budgets []Budget) {
	for _, b := range budgets {
		_, _ = fmt.Fprintf(progress, "  %-46s %8.2f   must %g, aim %g: %s\n", b.Figure, b.Value, b.Must, b.Aim, b.Holds)
	}
}
