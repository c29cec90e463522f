// Package env converts flags and environment variables into options. No other package reads the environment.
// Names and defaults are those of Rancher Fleet, where it has them.
//
//	Bind(flags) ─► the command line is parsed ─► Complete(flags, env.OS) ─► valid options, or an error
//
// A flag overrides its variable.
package env

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Environment returns the value of a variable. "" means unset.
type Environment func(name string) string

// OS reads the environment of the process.
func OS(name string) string { return os.Getenv(name) }

// Log formats for --log-format.
const (
	LogText = "text"
	LogJSON = "json"
)

// Election contains the times of a leader election. Zero means the election's default.
type Election struct{ LeaseDuration, RenewDeadline, RetryPeriod time.Duration }

// reader keeps the first error, so that its callers need no error handling.
type reader struct {
	environment Environment
	err         error
}

// flag sets a flag from a variable, unless the flag was given on the command line.
func (r *reader) flag(flags *pflag.FlagSet, flag, variable string) {
	value := r.environment(variable)
	if r.err != nil || value == "" || flags.Changed(flag) {
		return
	}
	if err := flags.Set(flag, value); err != nil {
		r.err = fmt.Errorf("variable %s: %w", variable, err)
	}
}

// format sets and validates --log-format.
func (r *reader) format(flags *pflag.FlagSet) {
	r.flag(flags, "log-format", "FLEET_LOG_FORMAT")
	if found := flags.Lookup("log-format").Value.String(); r.err == nil && found != LogText && found != LogJSON {
		r.err = fmt.Errorf("--log-format %q is neither %s nor %s", found, LogText, LogJSON)
	}
}

func (r *reader) text(variable, fallback string) string {
	if value := r.environment(variable); value != "" {
		return value
	}
	return fallback
}

// choice returns one of the allowed values; the first is the default.
func (r *reader) choice(variable string, allowed ...string) string {
	value := r.text(variable, allowed[0])
	if r.err == nil && !slices.Contains(allowed, value) {
		r.err = fmt.Errorf("variable %s: %q is not one of %s", variable, value, strings.Join(allowed, ", "))
	}
	return value
}

// loopback returns an address and port that only the same host, or the same pod, can reach. "" means none.
func (r *reader) loopback(variable string) string {
	value := r.environment(variable)
	if r.err != nil || value == "" {
		return ""
	}
	if at, err := netip.ParseAddrPort(value); err != nil || !at.Addr().IsLoopback() {
		r.err = fmt.Errorf("variable %s: %q is not a loopback address with a port such as 127.0.0.1:6060", variable, value)
	}
	return value
}

func (r *reader) duration(variable string) time.Duration {
	value := r.environment(variable)
	if r.err != nil || value == "" {
		return 0
	}
	d, err := time.ParseDuration(value)
	if err == nil && d < 0 {
		err = fmt.Errorf("%s is negative", value)
	}
	if err != nil {
		r.err = fmt.Errorf("variable %s: %w", variable, err)
	}
	return d
}

// durationText validates a duration but returns its text unchanged.
func (r *reader) durationText(variable, fallback string) string {
	r.duration(variable)
	return r.text(variable, fallback)
}

func (r *reader) boolean(variable string) bool {
	value := r.environment(variable)
	if r.err != nil || value == "" {
		return false
	}
	b, err := strconv.ParseBool(value)
	if err != nil {
		r.err = fmt.Errorf("variable %s: %q is neither true nor false", variable, value)
	}
	return b
}

// count parses a whole number that is at least least.
func (r *reader) count(variable string, fallback, least int) int {
	value := r.environment(variable)
	if r.err != nil || value == "" {
		return fallback
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || int(n) < least {
		r.err = fmt.Errorf("variable %s: %q is not a whole number of at least %d", variable, value, least)
		return fallback
	}
	return int(n)
}

func (r *reader) election() Election {
	return Election{
		LeaseDuration: r.duration("CATTLE_ELECTION_LEASE_DURATION"),
		RenewDeadline: r.duration("CATTLE_ELECTION_RENEW_DEADLINE"),
		RetryPeriod:   r.duration("CATTLE_ELECTION_RETRY_PERIOD"),
	}
}

// hostname returns HOSTNAME, which Kubernetes sets to the pod's name, or the host name of the system.
func (r *reader) hostname() string {
	if name := r.environment("HOSTNAME"); name != "" {
		return name
	}
	name, _ := os.Hostname() // on an error the name stays empty, which all callers accept
	return name
}
