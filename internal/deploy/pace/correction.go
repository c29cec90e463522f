package pace

import "time"

const (
	// correctionsPerMinute limits corrections of drift that reappears at once, because another writer wants another
	// state. Every correction makes a revision.
	correctionsPerMinute = 10
	// lastCorrection is the longest pause after corrections without effect.
	lastCorrection = 15 * time.Minute
)

// Correction records the correction of drift of one BundleDeployment.
type Correction struct {
	// generation is the generation of the BundleDeployment at the last try. A new generation is tried at once.
	generation int64
	// recent are the times of the last corrections.
	recent []time.Time
	// retry is the pause after consecutive failures, Failure the last of them.
	retry   Retry
	Failure string
}

// For starts again if the BundleDeployment has another generation than before.
func (c *Correction) For(generation int64) {
	if c.generation != generation {
		*c = Correction{generation: generation}
	}
}

// Wait returns how long to wait before the next correction.
func (c *Correction) Wait(now time.Time) time.Duration {
	wait := c.retry.Wait(now)
	if len(c.recent) >= correctionsPerMinute {
		wait = max(wait, c.recent[0].Add(time.Minute).Sub(now))
	}
	return wait
}

// Began records the start of a correction.
func (c *Correction) Began(now time.Time) {
	c.recent = append(c.recent, now)
	if len(c.recent) > correctionsPerMinute {
		c.recent = c.recent[len(c.recent)-correctionsPerMinute:]
	}
}

// Failed records a failure. chance is in [0,1).
func (c *Correction) Failed(now time.Time, failure string, chance float64) {
	c.Failure = failure
	c.retry.Failed(now, lastCorrection, chance)
}

// Worked clears the failures.
func (c *Correction) Worked() { c.retry, c.Failure = Retry{}, "" }
