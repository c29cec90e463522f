package main

import (
	"testing"
	"time"
)

func TestSpeed(t *testing.T) {
	if got := speed(time.Now); got < 1 { //nolint:forbidigo // a clock of its own would not move
		t.Errorf("a processor does %d documents in a second", got)
	}
}
