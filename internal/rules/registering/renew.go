package registering

import "time"

// A token that expires is renewed at a random point between renewFrom and renewUntil of its lifetime, in percent. The
// lifetime is known from the token; its age is measured by this process, so that no two clocks are compared. A token from
// before the start of the process may already have passed renewUntil, so it is renewed within startUntil percent more. The
// chance is the same at each moment after the start: an agent that is restarted often renews about once in startUntil percent
// of uptime, in time and at most ten times in a lifetime on average.
const (
	renewFrom  = 50
	renewUntil = 75
	startUntil = 10
	// soon is the shortest time to a renewal of a token that seems to expire, because the clock may be wrong.
	soon = time.Minute
)

// RenewIn returns the time from now to the renewal of a token. isNew means that this process has obtained it. Another one is renewed
// in half of the time that is left by this machine's clock, if that is earlier. chance is a random number from 0 to 65535.
func RenewIn(lifetime, left time.Duration, isNew bool, chance int) time.Duration {
	share := func(from, until int) time.Duration {
		return lifetime/100*time.Duration(from) + lifetime/100*time.Duration(until-from)/chances*time.Duration(chance)
	}
	if isNew {
		return share(renewFrom, renewUntil)
	}
	return min(share(0, startUntil), max(left/2, soon))
}
