package growth

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"
)

// Reading holds what the hub's processes have used so far.
type Reading struct {
	// Controller and APIServer are processor time.
	Controller, APIServer time.Duration
	// ControllerResident and APIServerResident are memory in bytes (VmRSS).
	ControllerResident, APIServerResident int64
	// Speed is how many documents a processor encodes and decodes in a second, while the hub is at rest.
	Speed int
}

// Point holds the figures of the clusters that registered since the point before.
type Point struct {
	// Clusters is the number of clusters of the benchmark that are registered at this point.
	Clusters int `json:"clusters"`
	// PerSecond is the rate of their registrations.
	PerSecond float64 `json:"registrationsPerSecond"`
	// ControllerMillis and APIServerMillis are processor time per registration, until there are no more writes.
	ControllerMillis float64 `json:"controllerCPUMillisEach"`
	APIServerMillis  float64 `json:"apiServerCPUMillisEach"`
	// ControllerMiB and APIServerMiB are resident memory when there are no more writes.
	ControllerMiB float64 `json:"controllerRSSMiB"`
	APIServerMiB  float64 `json:"apiServerRSSMiB"`
	// Speed is the machine's speed then, as in Reading. Times of two points compare only if it is the same.
	Speed int `json:"speed"`
}

// Ratio compares the last point with the first one. 1 means that nothing has grown.
type Ratio struct {
	Rate       float64 `json:"rate"`
	Controller float64 `json:"controllerCPU"`
	APIServer  float64 `json:"apiServerCPU"`
	// Speed compares the machine's speed. If it is below 1, the other figures have grown for this reason, too.
	Speed float64 `json:"speed"`
}

// Curve is one run.
type Curve struct {
	// Title describes the machine and the run.
	Title  string  `json:"title"`
	Points []Point `json:"points"`
	// LastToFirst is nil with fewer than two points.
	LastToFirst *Ratio `json:"lastToFirst,omitempty"`
}

// Steps divides the registration of n clusters: at every multiple of step, and at the cuts.
func Steps(n, step int, cuts ...int) (sizes []int) {
	done := 0
	for done < n {
		next := min(n, (done/step+1)*step)
		for _, cut := range cuts {
			if cut > done {
				next = min(next, cut)
			}
		}
		sizes = append(sizes, next-done)
		done = next
	}
	return sizes
}

// Add appends a point: added clusters registered within span.
func (c *Curve) Add(added int, span time.Duration, before, after Reading) Point {
	clusters := added
	if last := len(c.Points) - 1; last >= 0 {
		clusters += c.Points[last].Clusters
	}
	p := Point{
		Clusters: clusters, PerSecond: rounded(float64(added) / max(span.Seconds(), 0.001)),
		ControllerMillis: each(after.Controller-before.Controller, added), APIServerMillis: each(after.APIServer-before.APIServer, added),
		ControllerMiB: rounded(float64(after.ControllerResident) / (1 << 20)), APIServerMiB: rounded(float64(after.APIServerResident) / (1 << 20)),
		Speed: after.Speed,
	}
	c.Points = append(c.Points, p)
	if len(c.Points) > 1 {
		from := c.Points[0]
		c.LastToFirst = &Ratio{
			Rate: ratio(p.PerSecond, from.PerSecond), Controller: ratio(p.ControllerMillis, from.ControllerMillis),
			APIServer: ratio(p.APIServerMillis, from.APIServerMillis), Speed: ratio(float64(p.Speed), float64(from.Speed)),
		}
	}
	return p
}

// String returns the point as a line of progress.
func (p Point) String() string {
	return fmt.Sprintf("%d clusters: %.1f registrations/s; CPU of each: controller %.1f ms, API server %.1f ms; memory: controller %.0f MiB, API server %.0f MiB; speed %d",
		p.Clusters, p.PerSecond, p.ControllerMillis, p.APIServerMillis, p.ControllerMiB, p.APIServerMiB, p.Speed)
}

// Write writes the curve to a file. It is called after each point, so that an interrupted run leaves its points.
func (c *Curve) Write(file string) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the growth curve: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil { //nolint:gosec // figures, no secrets
		return fmt.Errorf("writing the growth curve: %w", err)
	}
	return nil
}

func each(total time.Duration, n int) float64 {
	return rounded(float64(total) / float64(time.Millisecond) / float64(max(n, 1)))
}

// ratio returns 0 if there is nothing to compare with.
func ratio(last, first float64) float64 {
	if first == 0 {
		return 0
	}
	return math.Round(last/first*100) / 100
}

func rounded(value float64) float64 { return math.Round(value*10) / 10 }
