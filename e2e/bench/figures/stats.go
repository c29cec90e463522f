package figures

import (
	"math"
	"slices"
	"time"
)

// Spread is the distribution of durations in milliseconds.
type Spread struct {
	Samples int     `json:"samples"`
	P50     float64 `json:"p50Millis"`
	P90     float64 `json:"p90Millis"`
	Max     float64 `json:"maxMillis"`
}

// SpreadOf returns the distribution of samples.
func SpreadOf(samples []time.Duration) Spread {
	sorted := slices.Sorted(slices.Values(samples))
	return Spread{Samples: len(sorted), P50: Millis(quantile(sorted, 0.5)), P90: Millis(quantile(sorted, 0.9)), Max: Millis(quantile(sorted, 1))}
}

// quantile returns the smallest sample that is not less than the given part of all, or zero without samples.
func quantile(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(part*float64(len(sorted))))-1)]
}

// Millis returns a duration in milliseconds, rounded to tenths.
func Millis(d time.Duration) float64 { return Round(float64(d)/float64(time.Millisecond), 1) }

// Seconds returns a duration in seconds, rounded to hundredths.
func Seconds(d time.Duration) float64 { return Round(d.Seconds(), 2) }

// Per returns a divided by n, rounded to hundredths, or zero if n is zero.
func Per(a float64, n int) float64 {
	if n == 0 {
		return 0
	}
	return Round(a/float64(n), 2)
}

// Round returns a number with this number of digits behind the point.
func Round(x float64, digits int) float64 {
	power := math.Pow10(digits)
	return math.Round(x*power) / power
}

// Median returns the smallest value that is not less than half of all values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}
