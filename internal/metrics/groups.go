package metrics

// group is a section of the documentation.
type group struct {
	// Title is the heading. Text is the paragraph below it.
	Title, Text string
	Definitions []Definition
}

// hubGroups returns the metrics of fleetcontroller.
func hubGroups() []group {
	return []group{
		{"Bundles, clusters and groups", "Per object, from the leader's cache. The names, labels and meanings are the same as in Rancher Fleet. " +
			"Label `state` is the object's state. The metrics `…_state` have one series per state: 1 for the current state and 0 for the others.", stateDefinitions()},
		{"Clusters' agents and registrations", "From the leader's cache. Aggregated over all clusters where one series per cluster would be too many.", fleetDefinitions()},
		{"Work of the controllers", "Counted since the process started.", hubDefinitions()},
		{"The process", "For both processes, in addition to the metrics of the Go runtime, `go_…` and `process_…`.", processDefinitions()},
		{"Handlers of the hub's controllers", "", lassoDefinitions()},
	}
}

// agentGroups returns the metrics of fleetagent that are not in hubGroups.
func agentGroups() []group {
	return []group{{"The agent", "", agentDefinitions()}}
}

// HubAll returns every metric of fleetcontroller.
func HubAll() []Definition {
	var all []Definition
	for _, group := range hubGroups() {
		all = append(all, group.Definitions...)
	}
	return all
}

// AgentAll returns every metric of fleetagent.
func AgentAll() []Definition {
	return append(agentDefinitions(), processDefinitions()...)
}
