package env

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// DefaultCheckinInterval is the interval between heartbeats if none is given, or 0.
const DefaultCheckinInterval = 15 * time.Minute

// DefaultAgentWorkers is the default number of BundleDeployments that an agent processes concurrently.
const DefaultAgentWorkers = 50

// Agent contains the options of fleetagent.
type Agent struct {
	// Namespace is the namespace of the agent: flag --namespace, variable NAMESPACE. Required.
	Namespace string
	// Kubeconfig is a file. Empty means the cluster the process runs in, or the default kubeconfig.
	Kubeconfig string
	// Scope distinguishes this agent's objects from those of another agent in the same cluster: flag --agent-scope,
	// variable AGENT_SCOPE. It is usually empty.
	Scope string
	// CheckinInterval is the interval between heartbeats: flag --checkin-interval, variable CHECKIN_INTERVAL. It is
	// never 0 after Complete.
	CheckinInterval time.Duration
	// LeaderElect waits for the lease before working. Without it, only one process may run.
	LeaderElect bool
	// Debug also logs what was checked, not only what changed. DebugLevel is client-go's verbosity with Debug.
	Debug      bool
	DebugLevel int
	// LogFormat is LogText or LogJSON: flag --log-format, variable FLEET_LOG_FORMAT. Rancher Fleet has neither.
	LogFormat string

	// MetricsAddress and HealthAddress are the addresses of the servers. "0" turns a server off.
	MetricsAddress, HealthAddress string
	// Election contains the times of the agent's election.
	Election Election
	// BundleDeploymentWorkers and DriftWorkers limit the concurrent reconciles of each kind.
	BundleDeploymentWorkers, DriftWorkers int
	// Identity names this replica in the lease.
	Identity string
	// Hostname is the pod's name. It becomes a label of the registration.
	Hostname string

	checkin string
}

// Bind declares the flags.
func (a *Agent) Bind(flags *pflag.FlagSet) {
	flags.StringVar(&a.Namespace, "namespace", "", "namespace the agent runs in [NAMESPACE]")
	flags.StringVar(&a.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: in-cluster, then the default kubeconfig)")
	flags.StringVar(&a.Scope, "agent-scope", "", "scope that distinguishes the objects of several agents in one cluster [AGENT_SCOPE]")
	flags.StringVar(&a.checkin, "checkin-interval", "", "interval between heartbeats, 15m if empty or 0 [CHECKIN_INTERVAL]")
	flags.BoolVar(&a.LeaderElect, "leader-elect", true, "use leader election; disable it only with one replica")
	flags.BoolVar(&a.Debug, "debug", false, "log at debug level")
	flags.IntVar(&a.DebugLevel, "debug-level", 0, "klog verbosity of client-go (0 to 10), with --debug")
	flags.StringVar(&a.LogFormat, "log-format", LogText, "text, or json: one object for each line [FLEET_LOG_FORMAT]")
}

// Complete reads the environment and validates all options.
func (a *Agent) Complete(flags *pflag.FlagSet, environment Environment) error {
	r := &reader{environment: environment}
	r.flag(flags, "namespace", "NAMESPACE")
	r.flag(flags, "agent-scope", "AGENT_SCOPE")
	r.flag(flags, "checkin-interval", "CHECKIN_INTERVAL")
	r.format(flags)
	a.MetricsAddress = r.text("FLEET_AGENT_METRICS_BIND_ADDRESS", ":8080")
	a.HealthAddress = r.text("FLEET_AGENT_PROBE_BIND_ADDRESS", ":8081")
	a.Election = r.election()
	a.BundleDeploymentWorkers = r.count("BUNDLEDEPLOYMENT_RECONCILER_WORKERS", DefaultAgentWorkers, 1)
	a.DriftWorkers = r.count("DRIFT_RECONCILER_WORKERS", DefaultAgentWorkers, 1)
	a.Hostname = r.hostname()
	a.Identity = r.text("POD_NAME", a.Hostname)
	if r.err != nil {
		return r.err
	}
	if a.Namespace == "" {
		return errors.New("--namespace or NAMESPACE is required")
	}
	return a.completeCheckin()
}

func (a *Agent) completeCheckin() error {
	a.CheckinInterval = DefaultCheckinInterval
	if a.checkin == "" {
		return nil
	}
	interval, err := time.ParseDuration(a.checkin)
	if err != nil || interval < 0 {
		return fmt.Errorf("the check-in interval %q is not a duration such as 15m", a.checkin)
	}
	if interval > 0 {
		a.CheckinInterval = interval
	}
	return nil
}
