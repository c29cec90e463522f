package main

import (
	"testing"
	"time"
)

func TestSpeed(t *testing.T) {
	if got := speed(time.Now); got < 1 {
		t.Errorf("a processor does %d documents in a second", got)
	}
}
