package figures

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
)

func ms(n ...int) (samples []time.Duration) {
	for _, n := range n {
		samples = append(samples, time.Duration(n)*time.Millisecond)
	}
	return samples
}

func TestSpread_ComputesQuantiles(t *testing.T) {
	tests := map[string]struct {
		samples []time.Duration
		want    Spread
	}{
		"no samples":                             {nil, Spread{}},
		"one sample":                             {ms(7), Spread{1, 7, 7, 7}},
		"two samples: the smaller is the median": {ms(9, 3), Spread{2, 3, 9, 9}},
		"ten samples: the ninth is the p90":      {ms(10, 9, 8, 7, 6, 5, 4, 3, 2, 1), Spread{10, 5, 9, 10}},
		"twenty samples: one is slow":            {append(ms(1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2), ms(500)...), Spread{20, 2, 2, 500}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := append([]time.Duration(nil), test.samples...)
			if diff := cmp.Diff(test.want, SpreadOf(test.samples)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.samples); diff != "" {
				t.Errorf("the samples were changed:\n%s", diff)
			}
		})
	}
}

func TestRounding_KeepsFewDigits(t *testing.T) {
	tests := map[string]struct{ got, want float64 }{
		"milliseconds to a tenth": {Millis(1234567 * time.Nanosecond), 1.2},
		"seconds to a hundredth":  {Seconds(1239 * time.Millisecond), 1.24},
		"shares to a hundredth":   {Per(10, 3), 3.33},
		"division by zero: zero":  {Per(10, 0), 0},
		"negative number":         {Round(-1.25, 1), -1.3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.got != test.want {
				t.Errorf("got %v, want %v", test.got, test.want)
			}
		})
	}
}

func TestMerged_AddsCounts(t *testing.T) {
	patch := audit.Kind{Identity: audit.Controller, Verb: "patch", Resource: "clusters"}
	get := audit.Kind{Identity: audit.Controller, Verb: "get", Resource: "clusters"}
	a, b := audit.Counts{patch: {Requests: 2, Refused: 1}}, audit.Counts{patch: {Requests: 3, Refused: 2}, get: {Requests: 1}}
	want := audit.Counts{patch: {Requests: 5, Refused: 3}, get: {Requests: 1}}
	if diff := cmp.Diff(want, Merged(a, b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(a) != 1 || a[patch].Requests != 2 {
		t.Errorf("the first counts were changed: %v", a)
	}
}

func TestMedian_IsTheLowerMiddleValue(t *testing.T) {
	for name, test := range map[string]struct {
		values []float64
		want   float64
	}{
		"no values": {nil, 0}, "one value": {[]float64{3}, 3}, "two values": {[]float64{5, 3}, 3}, "five values": {[]float64{9, 1, 5, 7, 3}, 5},
	} {
		if got := Median(test.values); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
