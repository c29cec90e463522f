package registering

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestRenewIn_StaysWithinTheShareOfTheLifetime(t *testing.T) {
	tests := map[string]struct {
		isNew  bool
		chance int
		left   time.Duration
		want   time.Duration
	}{
		"new token, earliest":                        {true, 0, 24 * time.Hour, 12 * time.Hour},
		"new token, latest":                          {true, 65535, 24 * time.Hour, 18 * time.Hour},
		"new token, and the clock is wrong":          {true, 65535, -time.Hour, 18 * time.Hour},
		"after a start, earliest":                    {false, 0, 24 * time.Hour, 0},
		"after a start, latest":                      {false, 65535, 24 * time.Hour, 24 * time.Hour / 10},
		"after a start, half an hour is left":        {false, 65535, 30 * time.Minute, 15 * time.Minute},
		"after a start, half an hour left, earliest": {false, 0, 30 * time.Minute, 0},
		"after a start, and it seems to be expired":  {false, 65535, -time.Hour, time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := RenewIn(24*time.Hour, tc.left, tc.isNew, tc.chance)
			if got > tc.want || got < tc.want-time.Second {
				t.Errorf("RenewIn = %v, want up to a second less than %v", got, tc.want)
			}
		})
	}
}

// A process only knows how long it has run itself. Agents that are restarted often renew after about the same uptime in sum as
// others: before their token expires, and not more often.
func TestOftenRestartedAgent_RenewsInTime(t *testing.T) {
	const lifetime, days = 24 * time.Hour, 100
	for _, uptime := range []time.Duration{10 * time.Second, time.Minute, time.Hour, 6 * time.Hour} {
		t.Run(uptime.String(), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			renewals, issued, oldest := 0, time.Duration(0), time.Duration(0)
			for start := time.Duration(0); start < days*lifetime; start += uptime {
				for due, isNew := start, false; ; isNew = true {
					if due += RenewIn(lifetime, issued+lifetime-due, isNew, random.IntN(chances)); due >= start+uptime {
						break
					}
					renewals, oldest, issued = renewals+1, max(oldest, due-issued), due
				}
			}
			if oldest = max(oldest, days*lifetime-issued); oldest >= lifetime {
				t.Errorf("a token became %s old", oldest)
			}
			if limit := 11 * days; renewals > limit {
				t.Errorf("%d renewals in %d lifetimes, want at most %d", renewals, days, limit)
			}
		})
	}
}
