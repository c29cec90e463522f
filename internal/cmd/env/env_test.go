package env

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
)

// of is an environment with a host name and these variables: pairs of name and value.
func of(variables ...string) Environment {
	values := map[string]string{"HOSTNAME": "host-1"}
	for i := 0; i < len(variables); i += 2 {
		values[variables[i]] = variables[i+1]
	}
	return func(name string) string { return values[name] }
}

func TestController(t *testing.T) {
	tests := map[string]struct {
		args   []string
		env    Environment
		change func(*Controller)
		err    string
	}{
		"no settings: defaults": {env: of()},
		"namespace from the variable": {
			env: of("NAMESPACE", "fleet-system"), change: func(c *Controller) { c.Namespace = "fleet-system" },
		},
		"flag with the default value wins over its variable": {
			args: []string{"--namespace", "cattle-fleet-system"}, env: of("NAMESPACE", "other"),
		},
		"all flags": {
			args: []string{"--namespace=n", "--kubeconfig=k", "--disable-bootstrap", "--disable-metrics", "--count-bundledeployments", "--leader-elect=false", "--debug", "--debug-level=3", "--shard-id=s"},
			env:  of(),
			change: func(c *Controller) {
				c.Namespace, c.Kubeconfig, c.DisableBootstrap, c.DisableMetrics = "n", "k", true, true
				c.CountDeployments = true
				c.Shard, c.LeaderElect, c.Debug, c.DebugLevel, c.MetricsAddress = "s", false, true, 3, "0"
			},
		},
		"all variables": {
			env: of(
				"NAMESPACE", "n", "POD_NAME", "pod-1", "FLEET_METRICS_BIND_ADDRESS", ":1", "FLEET_HEALTHPROBE_BIND_ADDRESS", ":2",
				"CATTLE_ELECTION_LEASE_DURATION", "30s", "CATTLE_ELECTION_RENEW_DEADLINE", "25s", "CATTLE_ELECTION_RETRY_PERIOD", "10s",
				"FLEET_REGISTRATION_TOKEN_TTL_REQUIRED", "true", "FLEET_AGENT_REPLICA_COUNT", "2", "FLEET_MAX_CLUSTERS_PER_TOKEN", "7", "FLEET_CONTENT_READERS", "serviceaccounts", "FLEET_ALLOW_INSECURE_KUBECONFIGS", "true",
				"KUBERNETES_SERVICE_HOST", "10.96.0.1",
				"FLEET_AGENT_ELECTION_LEASE_DURATION", "1m", "FLEET_AGENT_ELECTION_RENEW_DEADLINE", "50s", "FLEET_AGENT_ELECTION_RETRY_PERIOD", "5s",
				"FLEET_PROPAGATE_DEBUG_SETTINGS_TO_AGENTS", "true", "FLEET_DEBUG_DISABLE_SECURITY_CONTEXT", "true",
				"CATTLE_WRANGLER_CHECK_GVK_ERROR_MAPPING", "[]",
			),
			change: func(c *Controller) {
				c.Namespace, c.Identity, c.MetricsAddress, c.HealthAddress = "n", "pod-1", ":1", ":2"
				c.Election = Election{LeaseDuration: 30 * time.Second, RenewDeadline: 25 * time.Second, RetryPeriod: 10 * time.Second}
				c.TTLRequired, c.AllowInsecureKubeconfigs, c.MaxClustersPerToken = true, true, 7
				c.AllReadContents = true
				c.ServiceHost = "10.96.0.1"
				c.Agent = AgentSettings{
					Replicas: 2, LeaseDuration: "1m", RenewDeadline: "50s", RetryPeriod: "5s", PropagateDebug: true, DisableSecurityContext: true, ErrorMapping: "[]",
				}
			},
		},
		"security contexts stay unless debug settings are propagated": {
			env: of("FLEET_DEBUG_DISABLE_SECURITY_CONTEXT", "true"),
		},
		"worker counts without the agents' settings: settings of another container": {
			env: of("BUNDLE_RECONCILER_WORKERS", "50"), change: func(c *Controller) { c.Elsewhere = true },
		},
		"worker counts with the agents' settings": {env: of("BUNDLE_RECONCILER_WORKERS", "50", "FLEET_AGENT_REPLICA_COUNT", "1")},
		"agents may be scaled to zero": {
			env: of("FLEET_AGENT_REPLICA_COUNT", "0"), change: func(c *Controller) { c.Agent.Replicas = 0 },
		},
		"profiles of the process": {
			env: of("FLEET_PROFILING_BIND_ADDRESS", "127.0.0.1:6060"), change: func(c *Controller) { c.ProfilesAddress = "127.0.0.1:6060" },
		},
		"profiles by IPv6": {
			env: of("FLEET_PROFILING_BIND_ADDRESS", "[::1]:6060"), change: func(c *Controller) { c.ProfilesAddress = "[::1]:6060" },
		},
		"profiles on all addresses": {
			env: of("FLEET_PROFILING_BIND_ADDRESS", ":6060"),
			err: `variable FLEET_PROFILING_BIND_ADDRESS: ":6060" is not a loopback address with a port such as 127.0.0.1:6060`,
		},
		"profiles on an address of the network": {env: of("FLEET_PROFILING_BIND_ADDRESS", "0.0.0.0:6060"), err: `variable FLEET_PROFILING_BIND_ADDRESS: "0.0.0.0:6060" is not a loopback`},
		"profiles on a host name":               {env: of("FLEET_PROFILING_BIND_ADDRESS", "localhost:6060"), err: `variable FLEET_PROFILING_BIND_ADDRESS: "localhost:6060" is not a loopback`},
		"profiles without a port":               {env: of("FLEET_PROFILING_BIND_ADDRESS", "127.0.0.1"), err: `variable FLEET_PROFILING_BIND_ADDRESS: "127.0.0.1" is not a loopback`},
		"a negative number of Clusters":         {env: of("FLEET_MAX_CLUSTERS_PER_TOKEN", "-1"), err: `variable FLEET_MAX_CLUSTERS_PER_TOKEN: "-1" is not a whole number of at least 0`},
		"readers of Contents: agents":           {env: of("FLEET_CONTENT_READERS", "agents")},
		"unknown readers of Contents":           {env: of("FLEET_CONTENT_READERS", "all"), err: `variable FLEET_CONTENT_READERS: "all" is not one of agents, serviceaccounts`},
		"shard with an invalid name":            {args: []string{"--shard-id=a_b"}, env: of(), err: `--shard-id "a_b": a lowercase RFC 1123 label`},
		"no namespace for the controller":       {args: []string{"--namespace="}, env: of(), err: "--namespace or NAMESPACE is required"},
		"invalid duration":                      {env: of("CATTLE_ELECTION_RETRY_PERIOD", "10"), err: "variable CATTLE_ELECTION_RETRY_PERIOD: time: missing unit"},
		"negative duration":                     {env: of("CATTLE_ELECTION_LEASE_DURATION", "-1s"), err: "variable CATTLE_ELECTION_LEASE_DURATION: -1s is negative"},
		"invalid duration of the agent":         {env: of("FLEET_AGENT_ELECTION_RETRY_PERIOD", "soon"), err: "variable FLEET_AGENT_ELECTION_RETRY_PERIOD: time: invalid duration"},
		"invalid boolean":                       {env: of("FLEET_REGISTRATION_TOKEN_TTL_REQUIRED", "perhaps"), err: `variable FLEET_REGISTRATION_TOKEN_TTL_REQUIRED: "perhaps" is neither true nor false`},
		"invalid count":                         {env: of("FLEET_AGENT_REPLICA_COUNT", "many"), err: `variable FLEET_AGENT_REPLICA_COUNT: "many" is not a whole number of at least 0`},
		"negative count":                        {env: of("FLEET_AGENT_REPLICA_COUNT", "-1"), err: `variable FLEET_AGENT_REPLICA_COUNT: "-1" is not a whole number of at least 0`},
		"count above the limit":                 {env: of("FLEET_AGENT_REPLICA_COUNT", "99999999999"), err: `variable FLEET_AGENT_REPLICA_COUNT: "99999999999" is not a whole number of at least 0`},
		"two errors: the first is reported":     {env: of("CATTLE_ELECTION_LEASE_DURATION", "x", "FLEET_AGENT_REPLICA_COUNT", "x"), err: "variable CATTLE_ELECTION_LEASE_DURATION"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got Controller
			flags := pflag.NewFlagSet("fleetcontroller", pflag.ContinueOnError)
			got.Bind(flags)
			if err := flags.Parse(test.args); err != nil {
				t.Fatal(err)
			}
			if err := got.Complete(flags, test.env); !isWanted(err, test.err) {
				t.Fatalf("error %v, want %q", err, test.err)
			} else if err != nil {
				return
			}
			want := Controller{
				Namespace: "cattle-fleet-system", LeaderElect: true, MetricsAddress: ":8080", HealthAddress: ":8081", Identity: "host-1", LogFormat: LogText,
				MaxClustersPerToken: 10_000,

				Agent: AgentSettings{Replicas: 1, LeaseDuration: "30s", RenewDeadline: "25s", RetryPeriod: "10s"},
			}
			if test.change != nil {
				test.change(&want)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the options differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAgent(t *testing.T) {
	tests := map[string]struct {
		args   []string
		env    Environment
		change func(*Agent)
		err    string
	}{
		"only the namespace: defaults": {env: of("NAMESPACE", "n")},
		"all flags": {
			args: []string{"--namespace=m", "--kubeconfig=k", "--agent-scope=s", "--checkin-interval=1m", "--leader-elect=false", "--debug", "--debug-level=4"},
			env:  of("NAMESPACE", "n", "AGENT_SCOPE", "other", "CHECKIN_INTERVAL", "2m"),
			change: func(a *Agent) {
				a.Namespace, a.Kubeconfig, a.Scope, a.CheckinInterval = "m", "k", "s", time.Minute
				a.LeaderElect, a.Debug, a.DebugLevel = false, true, 4
			},
		},
		"all variables": {
			env: of(
				"NAMESPACE", "n", "AGENT_SCOPE", "s", "CHECKIN_INTERVAL", "2m", "POD_NAME", "pod-1",
				"FLEET_AGENT_METRICS_BIND_ADDRESS", "0", "FLEET_AGENT_PROBE_BIND_ADDRESS", ":2",
				"BUNDLEDEPLOYMENT_RECONCILER_WORKERS", "5", "DRIFT_RECONCILER_WORKERS", "6",
				"CATTLE_ELECTION_LEASE_DURATION", "30s", "CATTLE_ELECTION_RENEW_DEADLINE", "25s", "CATTLE_ELECTION_RETRY_PERIOD", "10s",
			),
			change: func(a *Agent) {
				a.Scope, a.CheckinInterval, a.Identity, a.MetricsAddress, a.HealthAddress = "s", 2*time.Minute, "pod-1", "0", ":2"
				a.BundleDeploymentWorkers, a.DriftWorkers = 5, 6
				a.Election = Election{LeaseDuration: 30 * time.Second, RenewDeadline: 25 * time.Second, RetryPeriod: 10 * time.Second}
			},
		},
		"empty check-in interval: default": {env: of("NAMESPACE", "n", "CHECKIN_INTERVAL", "0s")},
		"invalid check-in interval":        {env: of("NAMESPACE", "n", "CHECKIN_INTERVAL", "often"), err: `the check-in interval "often" is not a duration such as 15m`},
		"negative check-in interval":       {env: of("NAMESPACE", "n", "CHECKIN_INTERVAL", "-1m"), err: `the check-in interval "-1m" is not a duration such as 15m`},
		"no namespace":                     {env: of(), err: "--namespace or NAMESPACE is required"},
		"zero workers":                     {env: of("NAMESPACE", "n", "DRIFT_RECONCILER_WORKERS", "0"), err: `variable DRIFT_RECONCILER_WORKERS: "0" is not a whole number of at least 1`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got Agent
			flags := pflag.NewFlagSet("fleetagent", pflag.ContinueOnError)
			got.Bind(flags)
			if err := flags.Parse(test.args); err != nil {
				t.Fatal(err)
			}
			if err := got.Complete(flags, test.env); !isWanted(err, test.err) {
				t.Fatalf("error %v, want %q", err, test.err)
			} else if err != nil {
				return
			}
			want := Agent{
				Namespace: "n", CheckinInterval: DefaultCheckinInterval, LeaderElect: true, MetricsAddress: ":8080", HealthAddress: ":8081",
				BundleDeploymentWorkers: DefaultAgentWorkers, DriftWorkers: DefaultAgentWorkers, Identity: "host-1", Hostname: "host-1",
				LogFormat: LogText,
			}
			if test.change != nil {
				test.change(&want)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Agent{})); diff != "" {
				t.Errorf("the options differ (-want +got):\n%s", diff)
			}
		})
	}
}

func isWanted(err error, want string) bool {
	if err == nil || want == "" {
		return err == nil && want == ""
	}
	return strings.HasPrefix(err.Error(), want)
}

func TestOS(t *testing.T) {
	t.Setenv("FLEET_TEST_VARIABLE", "v")
	if OS("FLEET_TEST_VARIABLE") != "v" || OS("FLEET_TEST_NO_SUCH_VARIABLE") != "" {
		t.Error("not the process's environment")
	}
}

func TestMissingHostname_UsesTheNameOfTheHost(t *testing.T) {
	var c Controller
	flags := pflag.NewFlagSet("fleetcontroller", pflag.ContinueOnError)
	c.Bind(flags)
	if err := c.Complete(flags, func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	if c.Identity == "" {
		t.Error("no identity")
	}
}

func TestLogFormat(t *testing.T) {
	tests := map[string]struct {
		args []string
		env  Environment
		want string
		err  string
	}{
		"default: text":               {nil, of(), LogText, ""},
		"JSON by flag":                {[]string{"--log-format=json"}, of(), LogJSON, ""},
		"JSON by variable":            {nil, of("FLEET_LOG_FORMAT", "json"), LogJSON, ""},
		"flag wins over the variable": {[]string{"--log-format=text"}, of("FLEET_LOG_FORMAT", "json"), LogText, ""},
		"unknown format":              {nil, of("FLEET_LOG_FORMAT", "xml"), "xml", `--log-format "xml" is neither text nor json`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var controller Controller
			var agent Agent
			for process, options := range map[string]interface {
				Bind(*pflag.FlagSet)
				Complete(*pflag.FlagSet, Environment) error
			}{"controller": &controller, "agent": &agent} {
				flags := pflag.NewFlagSet(process, pflag.ContinueOnError)
				options.Bind(flags)
				if err := flags.Parse(append([]string{"--namespace=n"}, test.args...)); err != nil {
					t.Fatal(err)
				}
				if err := options.Complete(flags, test.env); (err != nil) != (test.err != "") || err != nil && err.Error() != test.err {
					t.Errorf("%s: error %v, want %q", process, err, test.err)
				}
			}
			if controller.LogFormat != test.want || agent.LogFormat != test.want {
				t.Errorf("controller %q, agent %q, want %q", controller.LogFormat, agent.LogFormat, test.want)
			}
		})
	}
}
