package hub

import "github.com/fleet-hub/fleet/internal/rules/importing"

// AgentDefaults are the settings of all agents that come from the controllers' own environment. Whoever deploys an
// agent uses these, so that an agent is the same whoever deployed it.
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
