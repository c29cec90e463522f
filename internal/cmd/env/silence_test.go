package env

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/leader"
)

func TestNoticeSilence(t *testing.T) {
	tests := map[string]struct{ has, want map[string]string }{
		"unset variables: set": {nil, map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "10", "HTTP2_PING_TIMEOUT_SECONDS": "5"}},
		"set variables: kept":  {map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "60"}, map[string]string{"HTTP2_PING_TIMEOUT_SECONDS": "5"}},
		"0: kept, no check":    {map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "0", "HTTP2_PING_TIMEOUT_SECONDS": "0"}, map[string]string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			err := NoticeSilence(func(name string) string { return test.has[name] }, func(name, value string) error {
				got[name] = value
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("set (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoticeSilence_DetectsDeadConnectionsBeforeTheRenewDeadline(t *testing.T) {
	var sum time.Duration
	err := NoticeSilence(func(string) string { return "" }, func(_, value string) error {
		seconds, err := strconv.Atoi(value)
		sum += time.Duration(seconds) * time.Second
		return err
	})
	// A renewal that is stuck on the old connection takes half of the deadline; another one must have time after it.
	if err != nil || sum > leader.DefaultRenewDeadline/2 {
		t.Errorf("noticed after %s, %v", sum, err)
	}
}

func TestNoticeSilence_ReturnsTheErrorOfSetenv(t *testing.T) {
	failure := errors.New("read-only")
	if err := NoticeSilence(func(string) string { return "" }, func(string, string) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("it is %v", err)
	}
}
