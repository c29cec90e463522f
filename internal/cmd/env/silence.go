package env

import "fmt"

// Variables that tell the client library how soon it looks after a connection on which nothing comes, and how long it
// then waits for a sign of life: whole seconds.
const (
	variableReadIdle = "HTTP2_READ_IDLE_TIMEOUT_SECONDS"
	variablePing     = "HTTP2_PING_TIMEOUT_SECONDS"
)

// NoticeSilence makes this process notice within 15 seconds that a connection has died and nobody was told, as when
// something on the way has forgotten it: sooner than a lease has to be renewed (30 s), so that a leader goes on over
// another connection and stays the leader. By itself the library takes 45 seconds. What is set already stays as it is.
// It works for clients that are made after it.
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
