package env

import "fmt"

// Variables for client-go's HTTP/2 health check, in whole seconds: the idle time after which it sends a ping,
// and the time it waits for the response.
const (
	variableReadIdle = "HTTP2_READ_IDLE_TIMEOUT_SECONDS"
	variablePing     = "HTTP2_PING_TIMEOUT_SECONDS"
)

// NoticeSilence makes this process detect a broken connection within 15 seconds, for example after a network
// device has dropped its state. That is sooner than a lease must be renewed (30 s), so a leader reconnects and
// keeps the lease. The default of client-go is 45 seconds. Variables that are already set are not changed. It
// affects clients that are created afterwards.
func NoticeSilence(environment Environment, set func(name, value string) error) error {
	for name, value := range map[string]string{variableReadIdle: "10", variablePing: "5"} {
		if environment(name) != "" {
			continue
		}
		if err := set(name, value); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}
