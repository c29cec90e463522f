package env

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// DefaultMaxClustersPerToken is the default limit of Clusters that one registration token may create: as many as a hub was
// measured with.
const DefaultMaxClustersPerToken = 10_000

// Values of FLEET_CONTENT_READERS.
const (
	ContentReadersAgents          = "agents"
	ContentReadersServiceAccounts = "serviceaccounts"
)

// Controller contains the options of fleetcontroller.
type Controller struct {
	// Namespace is the system namespace: flag --namespace, variable NAMESPACE.
	Namespace string
	// Kubeconfig is a file. Empty means the cluster the process runs in, or the default kubeconfig.
	Kubeconfig string
	// DisableBootstrap does not register the hub's own cluster.
	DisableBootstrap bool
	// Shard is the shard of this process: it delivers the resources with this value of label
	// fleet.cattle.io/shard-ref. Flag --shard-id, no variable. The process without a shard delivers the resources
	// without this label, and does the registration.
	Shard string
	// DisableMetrics turns off the metrics server.
	DisableMetrics bool
	// CountDeployments omits the metrics of each BundleDeployment, and only counts them. Flag --count-bundledeployments,
	// not in Rancher Fleet.
	CountDeployments bool
	// LeaderElect waits for the lease before working. Without it, only one process may run.
	LeaderElect bool
	// Debug also logs what was checked, not only what changed. DebugLevel is client-go's verbosity with Debug.
	Debug      bool
	DebugLevel int
	// LogFormat is LogText or LogJSON: flag --log-format, variable FLEET_LOG_FORMAT. Rancher Fleet has neither.
	LogFormat string

	// MetricsAddress and HealthAddress are the addresses of the servers. "0" turns a server off.
	MetricsAddress, HealthAddress string
	// ProfilesAddress is a loopback address for profiles of the process. Empty turns them off, which is the default.
	// Variable FLEET_PROFILING_BIND_ADDRESS, not in Rancher Fleet.
	ProfilesAddress string
	// Election contains the times of our own election.
	Election Election
	// Identity names this replica in the lease.
	Identity string
	// TTLRequired rejects registration tokens without a TTL.
	TTLRequired bool
	// DefaultTokenTTL is the time to live of new registration tokens without one. 0 means that they never expire, as
	// with Rancher Fleet's charts. Variable FLEET_REGISTRATION_TOKEN_TTL_DEFAULT, not in Rancher Fleet.
	DefaultTokenTTL time.Duration
	// AllowInsecureKubeconfigs accepts insecure-skip-tls-verify in the kubeconfigs of Clusters. Then an attacker
	// between the hub and such a cluster can read the kubeconfig's credential. Variable
	// FLEET_ALLOW_INSECURE_KUBECONFIGS, not in Rancher Fleet.
	AllowInsecureKubeconfigs bool
	// ServiceHost is the address of the hub's API server within its own cluster. Empty outside of a cluster.
	ServiceHost string
	// MaxClustersPerToken is the number of Clusters that one registration token may create. 0 means no limit.
	// Variable FLEET_MAX_CLUSTERS_PER_TOKEN, not in Rancher Fleet.
	MaxClustersPerToken int
	// AllReadContents lets every service account of the hub read Contents by name, instead of those of the agents. This
	// keeps the cost of authorization constant. Variable FLEET_CONTENT_READERS is ContentReadersServiceAccounts then;
	// not in Rancher Fleet.
	AllReadContents bool
	// Agent contains the settings of imported agents.
	Agent AgentSettings
	// Elsewhere means that the pod has another container for the registration, `fleetcontroller agentmanagement`, as
	// in charts of Rancher Fleet. Those charts pass the worker counts of the delivery to this container and the
	// settings of the agents to that one. Here one process does both, and it must be the one with the settings.
	Elsewhere bool
}

// AgentSettings contains the controller's variables for the agents that it deploys.
type AgentSettings struct {
	// Replicas is the number of replicas of the agent's Deployment.
	Replicas int32
	// LeaseDuration, RenewDeadline and RetryPeriod are the agents' election times, as text.
	LeaseDuration, RenewDeadline, RetryPeriod string
	// PropagateDebug passes Debug, DebugLevel and DisableSecurityContext on to the agents.
	PropagateDebug bool
	// DisableSecurityContext deploys agents without security contexts. It needs PropagateDebug.
	DisableSecurityContext bool
	// ErrorMapping says which conditions of objects are errors, for all agents. Variable names.ErrorMappingVariable.
	ErrorMapping string
}

// Bind declares the flags.
func (c *Controller) Bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.Namespace, "namespace", names.SystemNamespace, "system namespace of the controllers [NAMESPACE]")
	flags.StringVar(&c.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: in-cluster, then the default kubeconfig)")
	flags.BoolVar(&c.DisableBootstrap, "disable-bootstrap", false, "do not register the hub's own cluster")
	flags.StringVar(&c.Shard, "shard-id", "", "shard of this process: deliver only resources with this value of label fleet.cattle.io/shard-ref")
	flags.BoolVar(&c.DisableMetrics, "disable-metrics", false, "turn off the metrics server")
	flags.BoolVar(&c.CountDeployments, "count-bundledeployments", false, "omit the metrics of each BundleDeployment, and only count them")
	flags.BoolVar(&c.LeaderElect, "leader-elect", true, "use leader election; disable it only with one replica")
	flags.BoolVar(&c.Debug, "debug", false, "log at debug level")
	flags.IntVar(&c.DebugLevel, "debug-level", 0, "klog verbosity of client-go (0 to 10), with --debug")
	flags.StringVar(&c.LogFormat, "log-format", LogText, "text, or json: one object for each line [FLEET_LOG_FORMAT]")
}

// Complete reads the environment and validates all options.
func (c *Controller) Complete(flags *pflag.FlagSet, environment Environment) error {
	r := &reader{environment: environment}
	r.flag(flags, "namespace", "NAMESPACE")
	r.format(flags)
	c.MetricsAddress = r.text("FLEET_METRICS_BIND_ADDRESS", ":8080")
	if c.DisableMetrics {
		c.MetricsAddress = "0"
	}
	c.HealthAddress = r.text("FLEET_HEALTHPROBE_BIND_ADDRESS", ":8081")
	c.ProfilesAddress = r.loopback("FLEET_PROFILING_BIND_ADDRESS")
	c.Election = r.election()
	c.Identity = r.text("POD_NAME", r.hostname())
	c.TTLRequired = r.boolean("FLEET_REGISTRATION_TOKEN_TTL_REQUIRED")
	c.DefaultTokenTTL = r.duration("FLEET_REGISTRATION_TOKEN_TTL_DEFAULT")
	c.AllowInsecureKubeconfigs = r.boolean("FLEET_ALLOW_INSECURE_KUBECONFIGS")
	c.ServiceHost = r.text("KUBERNETES_SERVICE_HOST", "")
	c.MaxClustersPerToken = r.count("FLEET_MAX_CLUSTERS_PER_TOKEN", DefaultMaxClustersPerToken, 0)
	c.AllReadContents = r.choice("FLEET_CONTENT_READERS", ContentReadersAgents, ContentReadersServiceAccounts) == ContentReadersServiceAccounts
	c.Agent = AgentSettings{
		Replicas:       int32(r.count("FLEET_AGENT_REPLICA_COUNT", 1, 0)), //nolint:gosec // parsed as 32 bits
		LeaseDuration:  r.durationText("FLEET_AGENT_ELECTION_LEASE_DURATION", "30s"),
		RenewDeadline:  r.durationText("FLEET_AGENT_ELECTION_RENEW_DEADLINE", "25s"),
		RetryPeriod:    r.durationText("FLEET_AGENT_ELECTION_RETRY_PERIOD", "10s"),
		PropagateDebug: r.boolean("FLEET_PROPAGATE_DEBUG_SETTINGS_TO_AGENTS"),
		ErrorMapping:   r.text(names.ErrorMappingVariable, ""),
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
