package doctor

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clusters"
	"github.com/fleet-hub/fleet/internal/cmd/cli/complete"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/agent"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/agent/gather"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/both"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/member"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func newCluster(o *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "cluster NAME",
		Short: "Check one Cluster on the hub, its agent, and whether both agree",
		Long: `Check what the hub knows of one Cluster: its conditions, its registration, its account, its kubeconfig, and its Bundles.

With --cluster-context, also check the agent on the cluster as "fleet doctor agent" does, and compare both sides: registration,
account, client ID, and the address, the CA and the UID of the hub. A cluster that does not answer takes bounded time.

` + rowsHelp,
		Example:           "  fleet doctor cluster east\n  fleet doctor cluster east --cluster-context east --all",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete.Clusters(o.flags),
		RunE: func(command *cobra.Command, args []string) error {
			return o.run(command.Context(), func(ctx context.Context) ([]check.Row, error) { return o.checkCluster(ctx, args[0]) })
		},
	}
	o.bind(command, o.flags.Bind)
	flags := command.Flags()
	flags.StringVar(&o.cluster, "cluster-context", "", "context of the cluster: also check its agent, and compare both sides")
	flags.StringVar(&o.agent, "agent-namespace", "", "namespace of the agent (default: that of the Cluster)")
	flags.StringVar(&o.system, "system-namespace", names.SystemNamespace, "namespace of the hub's controllers")
	return command
}

func (o *options) checkCluster(ctx context.Context, name string) ([]check.Row, error) {
	hub, err := o.open(o.flags)
	if err != nil {
		return nil, err
	}
	cluster, err := clusters.Get(ctx, hub, name)
	if err != nil {
		return nil, err
	}
	onHub := member.Gather(ctx, hub, cluster, member.Scope{System: o.system, Here: o.toCluster(cluster), Repair: o.repair(cluster)}, o.clock())
	if o.cluster == "" {
		return onHub.Rows(), nil
	}
	there, err := o.open(o.flags.In(o.cluster))
	if err != nil {
		return nil, err
	}
	onCluster := o.gatherAgent(ctx, there, cluster)
	return slices.Concat(onHub.Rows(), onCluster.Rows(), both.Rows(onHub, onCluster)), nil
}

// gatherAgent reads the cluster. If it does not answer, the rows of the hub are still printed.
func (o *options) gatherAgent(ctx context.Context, there *access.Cluster, cluster *fleet.Cluster) agent.Report {
	scope := agent.Scope{
		Namespace: cmp.Or(o.agent, member.AgentNamespace(cluster)), Here: o.toCluster(cluster), Repair: o.repair(cluster),
		Cluster: types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name},
	}
	report, err := gather.Report(ctx, there, scope, o.clock)
	if err != nil {
		return agent.Unreachable(scope, err, o.clock())
	}
	return report
}

// toCluster returns the context of the cluster in commands, to which run adds the kubeconfig. Without --cluster-context, it is
// called like the Cluster.
func (o *options) toCluster(cluster *fleet.Cluster) remedy.Target {
	return remedy.Target{Context: cmp.Or(o.cluster, cluster.Name)}
}

// repair returns the command that gives the agent of a Cluster an identity again. With both contexts, one command does both
// sides.
func (o *options) repair(cluster *fleet.Cluster) string {
	hub := o.flags.CurrentContext()
	if cluster.Spec.KubeConfigSecret != "" || o.cluster == "" || hub == "" {
		return remedy.Command("fleet", "repair", cluster.Name, "-n", cluster.Namespace)
	}
	return remedy.Command("fleet", "join", "--hub-context", hub, "--context", o.cluster, "--cluster", cluster.Name, "-n", cluster.Namespace)
}
