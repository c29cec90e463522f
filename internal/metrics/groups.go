package metrics

import "slices"

// HubAll returns every metric of fleetcontroller.
func HubAll() []Definition {
	return slices.Concat(stateDefinitions(), fleetDefinitions(), hubDefinitions(), processDefinitions(), lassoDefinitions())
}

// AgentAll returns every metric of fleetagent.
func AgentAll() []Definition {
	return append(agentDefinitions(), processDefinitions()...)
}
