package logging

// Key is the key of an attribute in log lines.
type Key struct {
	Name string
	// Meaning is a sentence without a full stop.
	Meaning string
}

// Keys returns all keys that our log lines use. The same thing has the same key everywhere, so that a search
// finds every line. A test checks the code against this list. Log lines of libraries have their own keys.
func Keys() []Key {
	return []Key{
		{"answer", "The hub's answer to an identity: Accepted, Rejected, Untrusted, Unanswered"},
		{"because", "Why a command or flag of another release has no effect here"},
		{"bundle", "A Bundle"},
		{"bundledeployment", "A BundleDeployment"},
		{"cluster", "A Cluster"},
		{"clusters", "The number of Clusters"},
		{"command", "A command of the binary"},
		{"content", "A Content, by its name alone"},
		{"deploymentID", "The state of its Bundle that a BundleDeployment must have"},
		{"detail", "The text of a library's log line"},
		{"duration", "The time the operation took"},
		{"error", "The error"},
		{"failures", "The number of consecutive failures"},
		{"garbageCollectionInterval", "The interval at which the agent looks for releases without a BundleDeployment"},
		{"group", "A ClusterGroup"},
		{"health", "The address of the probes"},
		{"heardOf", "The number of agents that report or have reported before"},
		{"hub", "The hub's address"},
		{"identity", "This process, as the holder of a lease"},
		{"key", "The item that a queue's worker was processing"},
		{"kinds", "The kinds of objects that are being listed, each with the last error"},
		{"leader", "The process that holds the lease"},
		{"lease", "A Lease"},
		{"library", "The library that logged the line: client-go, lasso or wrangler; other keys are the library's"},
		{"metrics", "The address of the metrics"},
		{"namespace", "A namespace"},
		{"newRegistration", "Whether the agent must register again"},
		{"object", "An object of a release or of the hub, `<kind> <name>`"},
		{"objects", "The number of affected objects of a release"},
		{"objectsKept", "Whether the objects of a removed release are kept"},
		{"other", "Another Cluster that was registered for the same cluster before"},
		{"pinned", "Whether the agent's key was pinned to the Cluster; false: its pin was removed"},
		{"profiles", "The address of the process's profiles, if they are turned on"},
		{"queue", "A work queue; the label `name` of its metrics"},
		{"reason", "The reason of a condition or of a stage"},
		{"registration", "A ClusterRegistration"},
		{"release", "A Helm release, `<namespace>/<name>[:<revision>]`"},
		{"secret", "A Secret, by its name; never its content"},
		{"serial", "The serial of a hub document: the time of its signature in seconds"},
		{"server", "One of the process's HTTP servers: health, metrics or profiles"},
		{"shard", "The shard of a process; empty for the process without a shard"},
		{"silent", "The number of these agents that have missed two or more heartbeats"},
		{"sinceStart", "The time since the process started"},
		{"stage", "The stage of the agent's registration"},
		{"system", "The namespace of the controllers"},
		{"token", "A ClusterRegistrationToken, by its name"},
		{"total", "The number of objects deleted as stale; next to it, the number per kind, under the kind's name"},
		{"used", "Whether the bootstrap secret was used, for a registration or for the hub's new address"},
		{"version", "The release of the binary"},
		{"warning", "A problem in a configuration that is used nevertheless"},
		{"workspaces", "The number of workspaces"},
	}
}
