package main

import (
	"testing"
	"time"
)

func TestSpeed_IsPositive(t *testing.T) {
	if got := speed(time.Now); got < 1 {
		t.Errorf("got %d documents per second", got)
	}
}
