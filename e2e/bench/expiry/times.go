package expiry

import (
	"flag"
	"time"
)

// Times are the durations of the scenario.
type Times struct {
	// Lifetime is that of the agents' tokens. API servers refuse less than ten minutes.
	Lifetime time.Duration
	// Settle is how long the agents run before their renewals are counted. It has to include the first renewal of an
	// agent, and its first look at what the hub has for a recovery. RenewFor is how long renewals are counted.
	Settle, RenewFor time.Duration
	// Outage is how long the API server is gone. If it may still accept a token after that, the accounts are deleted.
	Outage time.Duration
}

// Bind adds the flags.
func (t *Times) Bind(flags *flag.FlagSet) {
	flags.DurationVar(&t.Lifetime, "lifetime", 10*time.Minute, "scenario expiry: lifetime of the agents' tokens")
	flags.DurationVar(&t.Settle, "expiry-settle", 130*time.Second, "scenario expiry: duration until each agent has renewed its token and read what the hub has for a recovery")
	flags.DurationVar(&t.RenewFor, "renew-for", 450*time.Second, "scenario expiry: duration for which renewals are counted")
	flags.DurationVar(&t.Outage, "expiry-outage", 690*time.Second, "scenario expiry: duration of the API server's outage; if tokens may survive it, the agents' accounts are deleted")
}

// expires reports whether every token has expired after the outage.
func (t Times) expires() bool { return t.Outage > t.Lifetime+leeway }
