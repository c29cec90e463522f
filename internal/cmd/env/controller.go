package env

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// DefaultMaxClustersPerToken is how many Clusters one registration token may create where nothing else is said.
const DefaultMaxClustersPerToken = 5000

// Controller is what fleetcontroller is told.
type Controller struct {
	// Namespace is the system namespace: flag --namespace, variable NAMESPACE.
	Namespace string
	// Kubeconfig is a file; empty: the cluster the process runs in, else the default kubeconfig.
	Kubeconfig string
	// DisableBootstrap leaves the hub's own cluster unregistered.
	DisableBootstrap bool
	// Shard is the part of the delivery that this process does: what is labelled with it, fleet.cattle.io/shard-ref.
	// Flag --shard-id, without a variable. The process without one does what has no such label, and the registration.
	Shard string
	// DisableMetrics serves no metrics.
	DisableMetrics bool
	// LeaderElect waits for the lease before working. Off, only one process may run.
	LeaderElect bool
	// Debug logs what was looked at, not only what changed. DebugLevel is client-go's verbosity with it.
	Debug      bool
	DebugLevel int
	// LogFormat is LogText or LogJSON: flag --log-format, variable FLEET_LOG_FORMAT, this implementation's own.
	LogFormat string

	// MetricsAddress and HealthAddress are where the servers listen; "0" serves nothing.
	MetricsAddress, HealthAddress string
	// Election holds the times of our own election.
	Election Election
	// Identity names this replica in the lease.
	Identity string
	// TTLRequired refuses registration tokens without a time to live.
	TTLRequired bool
	// AllowInsecureKubeconfigs accepts insecure-skip-tls-verify in the kubeconfigs of Clusters: whoever sits between
	// the hub and such a cluster can read the kubeconfig's credential. Variable
	// FLEET_ALLOW_INSECURE_KUBECONFIGS, this implementation's own.
	AllowInsecureKubeconfigs bool
	// ServiceHost is where the API server of the hub is within its own cluster; empty outside of one.
	ServiceHost string
	// MaxClustersPerToken is how many Clusters one registration token may create; 0 is no limit. Variable
	// FLEET_MAX_CLUSTERS_PER_TOKEN, this implementation's own.
	MaxClustersPerToken int
	// Agent is what imported agents are started with.
	Agent AgentSettings
	// Elsewhere says that the pod runs registration in a container of its own, `fleetcontroller agentmanagement`, as
	// charts of the other implementation do: they give this container the worker counts of delivery and that one
	// the settings of the agents. One process does both here, and it has to be the one that knows the settings.
	Elsewhere bool
}

// AgentSettings are the controller's variables that concern the agents it starts.
type AgentSettings struct {
	// Replicas of the agent's Deployment.
	Replicas int32
	// LeaseDuration, RenewDeadline and RetryPeriod are duration texts for the agents' election.
	LeaseDuration, RenewDeadline, RetryPeriod string
	// PropagateDebug hands Debug, DebugLevel and DisableSecurityContext on to the agents.
	PropagateDebug bool
	// DisableSecurityContext starts agents without security contexts; only with PropagateDebug.
	DisableSecurityContext bool
}

// Bind declares the flags.
func (c *Controller) Bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.Namespace, "namespace", names.SystemNamespace, "system namespace of the controllers [NAMESPACE]")
	flags.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: in-cluster, then the default kubeconfig)")
	flags.BoolVar(&c.DisableBootstrap, "disable-bootstrap", false, "do not register the hub's own cluster")
	flags.StringVar(&c.Shard, "shard-id", "", "deliver what has this label fleet.cattle.io/shard-ref, and do nothing else")
	flags.BoolVar(&c.DisableMetrics, "disable-metrics", false, "serve no metrics")
	flags.BoolVar(&c.LeaderElect, "leader-elect", true, "work only while holding the lease")
	flags.BoolVar(&c.Debug, "debug", false, "log more")
	flags.IntVar(&c.DebugLevel, "debug-level", 0, "verbosity of the client library with --debug")
	flags.StringVar(&c.LogFormat, "log-format", LogText, "text, or json: one object for each line [FLEET_LOG_FORMAT]")
}

// Complete reads the environment and checks everything.
func (c *Controller) Complete(flags *pflag.FlagSet, environment Environment) error {
	r := &reader{environment: environment}
	r.flag(flags, "namespace", "NAMESPACE")
	r.format(flags)
	c.MetricsAddress = r.text("FLEET_METRICS_BIND_ADDRESS", ":8080")
	if c.DisableMetrics {
		c.MetricsAddress = "0"
	}
	c.HealthAddress = r.text("FLEET_HEALTHPROBE_BIND_ADDRESS", ":8081")
	c.Election = r.election()
	c.Identity = r.text("POD_NAME", r.hostname())
	c.TTLRequired = r.boolean("FLEET_REGISTRATION_TOKEN_TTL_REQUIRED")
	c.AllowInsecureKubeconfigs = r.boolean("FLEET_ALLOW_INSECURE_KUBECONFIGS")
	c.ServiceHost = r.text("KUBERNETES_SERVICE_HOST", "")
	c.MaxClustersPerToken = r.count("FLEET_MAX_CLUSTERS_PER_TOKEN", DefaultMaxClustersPerToken, 0)
	c.Agent = AgentSettings{
		Replicas:       int32(r.count("FLEET_AGENT_REPLICA_COUNT", 1, 0)), //nolint:gosec // parsed as 32 bits
		LeaseDuration:  r.durationText("FLEET_AGENT_ELECTION_LEASE_DURATION", "30s"),
		RenewDeadline:  r.durationText("FLEET_AGENT_ELECTION_RENEW_DEADLINE", "25s"),
		RetryPeriod:    r.durationText("FLEET_AGENT_ELECTION_RETRY_PERIOD", "10s"),
		PropagateDebug: r.boolean("FLEET_PROPAGATE_DEBUG_SETTINGS_TO_AGENTS"),
	}
	c.Elsewhere = r.text("BUNDLE_RECONCILER_WORKERS", "") != "" && r.text("FLEET_AGENT_REPLICA_COUNT", "") == ""
	c.Agent.DisableSecurityContext = r.boolean("FLEET_DEBUG_DISABLE_SECURITY_CONTEXT") && c.Agent.PropagateDebug
	switch {
	case r.err != nil:
		return r.err
	case c.Namespace == "":
		return errors.New("--namespace or NAMESPACE is required")
	case c.Shard != "" && len(validation.IsDNS1123Label(c.Shard)) > 0:
		return fmt.Errorf("--shard-id %q: %s", c.Shard, validation.IsDNS1123Label(c.Shard)[0])
	}
	return nil
}
