package main

import (
	"os"
	"testing"
)

// TestMain lets the tests' executable measure the speed, as the command does.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == onlySpeed {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestSpeed_IsPositive(t *testing.T) {
	if got, err := machineSpeed(t.Context()); err != nil || got < 1 {
		t.Errorf("%d documents per second, %v", got, err)
	}
}
