package hub

import "github.com/fleet-hub/fleet/internal/rules/importing"

// AgentDefaults returns the agent settings from the controllers' environment. Both the import and the agent's Bundle
// use them, so that they deploy the same agent.
func (a *Context) AgentDefaults() importing.AgentDefaults {
	e := a.Env
	d := importing.AgentDefaults{
		Replicas: e.Agent.Replicas, LeaseDuration: e.Agent.LeaseDuration, RetryPeriod: e.Agent.RetryPeriod, RenewDeadline: e.Agent.RenewDeadline,
		DisableSecurityContext: e.Agent.DisableSecurityContext,
	}
	if e.Agent.PropagateDebug {
		d.Debug, d.DebugLevel = e.Debug, e.DebugLevel
	}
	return d
}
