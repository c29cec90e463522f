package logging

// Key is a word under which log lines tell what differs from one to the next.
type Key struct {
	Name string
	// Meaning is a sentence without a full stop.
	Meaning string
}

// Keys is the vocabulary: all keys that our own lines use, and no others. The same thing has the same key everywhere,
// or a search for it finds half. A test holds the code to it; what libraries log has keys of their own.
func Keys() []Key {
	return []Key{
		{"answer", "What the hub said to an identity: Accepted, Rejected, Untrusted, Unanswered"},
		{"because", "Why a command or flag of another release has no effect here"},
		{"bundle", "A Bundle"},
		{"bundledeployment", "A BundleDeployment"},
		{"cluster", "A Cluster"},
		{"command", "A command of the binary"},
		{"content", "A Content, by its name alone"},
		{"deploymentID", "Which state of its Bundle a BundleDeployment is to have"},
		{"detail", "What a library said"},
		{"duration", "How long it took"},
		{"error", "Why it did not work"},
		{"failures", "How often in a row it did not work"},
		{"garbageCollectionInterval", "The pause between two looks for releases without a BundleDeployment"},
		{"health", "Where the probes are served"},
		{"heardOf", "How many agents report, or did until now"},
		{"hub", "The hub's address"},
		{"identity", "This process, as the holder of a lease"},
		{"key", "What a queue's worker was looking at"},
		{"kinds", "The kinds of objects that are listed, and why a list failed last"},
		{"leader", "The process that holds the lease"},
		{"lease", "A Lease"},
		{"library", "Whose line it is: client-go, lasso or wrangler; other keys are the library's"},
		{"metrics", "Where the metrics are served"},
		{"namespace", "A namespace"},
		{"newRegistration", "Whether the agent has to register anew"},
		{"object", "An object of a release or of the hub, `<kind> <name>`"},
		{"objects", "How many objects of a release it was done to"},
		{"objectsKept", "Whether the objects of a removed release stay"},
		{"queue", "A work queue; the label `name` of its metrics"},
		{"reason", "The reason of a condition or of a stage"},
		{"registration", "A ClusterRegistration"},
		{"release", "A Helm release, `<namespace>/<name>[:<revision>]`"},
		{"secret", "A Secret, by its name; never what is in it"},
		{"server", "One of the process's HTTP servers: health or metrics"},
		{"shard", "Which part of the delivery a process does, empty for the one that is no shard"},
		{"silent", "How many of these have missed two heartbeats, or more"},
		{"sinceStart", "How long the process has run"},
		{"stage", "How far the agent's registration is"},
		{"system", "The namespace of the controllers"},
		{"token", "A ClusterRegistrationToken, by its name"},
		{"total", "How many objects were swept; beside it, under the name of each kind, how many of that"},
		{"used", "Whether the bootstrap secret was used, for a registration or as news of where the hub is"},
		{"version", "The release of the binary"},
		{"warning", "What is wrong with a configuration that is used all the same"},
	}
}
