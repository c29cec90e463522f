package main

import (
	"testing"
	"time"
)

func TestSpeed(t *testing.T) {
	if got := speed(time.Now); got < 1 { //nolint:forbidigo // this is the clock
		t.Errorf("a processor does %d documents in a second", got)
	}
	// A clock that goes twice as fast finds the machine half as quick, or a clock would not matter.
	began := time.Now() //nolint:forbidigo // this is the clock
	fast := speed(func() time.Time { return began.Add(1000 * time.Since(began)) })
	if slow := speed(time.Now); fast >= slow { //nolint:forbidigo // this is the clock
		t.Errorf("%d documents by a clock a thousand times as fast, %d by a true one", fast, slow)
	}
}
