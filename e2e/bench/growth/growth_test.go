package growth

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSteps(t *testing.T) {
	tests := map[string]struct {
		n, step int
		cuts    []int
		want    []int
	}{
		"fewer than a step: one":                   {100, 1000, nil, []int{100}},
		"exactly a step: one":                      {1000, 1000, nil, []int{1000}},
		"several steps":                            {3000, 1000, nil, []int{1000, 1000, 1000}},
		"the last step may be smaller":             {2500, 1000, nil, []int{1000, 1000, 500}},
		"the first clusters are a step":            {2000, 1000, []int{100}, []int{100, 900, 1000}},
		"all clusters are the first ones":          {100, 1000, []int{100}, []int{100}},
		"more first clusters than all":             {50, 1000, []int{100}, []int{50}},
		"more first clusters than a step: one cut": {300, 100, []int{150}, []int{100, 50, 50, 100}},
		"several cuts, in any order":               {3000, 1000, []int{2500, 100, 500}, []int{100, 400, 500, 1000, 500, 500}},
		"a cut where a step ends anyway":           {2000, 1000, []int{1000, 0, 2000}, []int{1000, 1000}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Steps(test.n, test.step, test.cuts...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCurve_ComparesTheLastPointWithTheFirst(t *testing.T) {
	var c Curve
	at := Reading{Controller: time.Second, APIServer: 2 * time.Second}
	next := Reading{Controller: 2 * time.Second, APIServer: 7 * time.Second, ControllerResident: 100 << 20, APIServerResident: 512 << 20, Speed: 5000}
	c.Add(100, 4*time.Second, at, next)
	if c.LastToFirst != nil {
		t.Errorf("one point was compared: %+v", c.LastToFirst)
	}
	last := c.Add(200, 10*time.Second, next, Reading{Controller: 5 * time.Second, APIServer: 27 * time.Second, ControllerResident: 120 << 20, APIServerResident: 1 << 30, Speed: 4000})
	want := Curve{
		Points: []Point{
			{Clusters: 100, PerSecond: 25, ControllerMillis: 10, APIServerMillis: 50, ControllerMiB: 100, APIServerMiB: 512, Speed: 5000},
			{Clusters: 300, PerSecond: 20, ControllerMillis: 15, APIServerMillis: 100, ControllerMiB: 120, APIServerMiB: 1024, Speed: 4000},
		},
		LastToFirst: &Ratio{Rate: 0.8, Controller: 1.5, APIServer: 2, Speed: 0.8},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, want := last.String(), "300 clusters: 20.0 registrations/s; CPU of each: controller 15.0 ms, API server 100.0 ms; memory: controller 120 MiB, API server 1024 MiB; speed 4000"; got != want {
		t.Errorf("got %q", got)
	}
}

func TestCurve_NothingMeasured_ComparesNothing(t *testing.T) {
	var c Curve
	c.Add(0, 0, Reading{}, Reading{})
	c.Add(10, time.Second, Reading{}, Reading{Controller: time.Second})
	if diff := cmp.Diff(&Ratio{}, c.LastToFirst); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "growth.json")
	c := Curve{Title: "a run"}
	c.Add(10, time.Second, Reading{}, Reading{Controller: time.Second})
	if err := c.Write(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got Curve
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := c.Write(filepath.Join(t.TempDir(), "missing", "growth.json")); err == nil {
		t.Error("a missing directory was accepted")
	}
}
