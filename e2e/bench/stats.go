package main

import (
	"math"
	"slices"
	"time"
)

// spread is the distribution of durations in milliseconds.
type spread struct {
	Samples int     `json:"samples"`
	P50     float64 `json:"p50Millis"`
	P90     float64 `json:"p90Millis"`
	Max     float64 `json:"maxMillis"`
}

func spreadOf(samples []time.Duration) spread {
	sorted := slices.Sorted(slices.Values(samples))
	return spread{Samples: len(sorted), P50: millis(quantile(sorted, 0.5)), P90: millis(quantile(sorted, 0.9)), Max: millis(quantile(sorted, 1))}
}

// quantile returns the smallest sample that is not less than the given part of all, or zero without samples.
func quantile(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(part*float64(len(sorted))))-1)]
}

func millis(d time.Duration) float64 { return round(float64(d)/float64(time.Millisecond), 1) }

func seconds(d time.Duration) float64 { return round(d.Seconds(), 2) }

// per returns a divided by n, rounded to hundredths, or zero if n is zero.
func per(a float64, n int) float64 {
	if n == 0 {
		return 0
	}
	return round(a/float64(n), 2)
}

func round(x float64, digits int) float64 {
	power := math.Pow10(digits)
	return math.Round(x*power) / power
}
