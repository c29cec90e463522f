package machine

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// TestMain lets the tests' executable measure the speed, as the command does.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == OnlySpeed {
		_, _ = fmt.Fprintln(os.Stdout, SpeedHere(time.Now)) // a missing speed fails the test
		return
	}
	os.Exit(m.Run())
}

func TestSpeed_IsPositive(t *testing.T) {
	if got, err := Speed(t.Context()); err != nil || got < 1 {
		t.Errorf("%d documents per second, %v", got, err)
	}
}

func TestMachine_IsDescribed(t *testing.T) {
	if m := Here(); m.Processors < 1 || m.MemoryGiB <= 0 || m.Load == "" {
		t.Errorf("%+v", m)
	}
}
