package member

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clusters"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/capi"
	clusterrules "github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// stateChecks returns the checks of the Cluster's state.
func stateChecks() []check.Check[*Facts] {
	return []check.Check[*Facts]{
		{ID: "cluster-conditions", Judge: checkConditions},
		{ID: "cluster-heartbeat", Judge: checkHeartbeat},
		{ID: "cluster-paused", Judge: checkPaused},
		{ID: "cluster-namespace", Needs: sources(sourcePlace), Judge: checkNamespace},
		{ID: "cluster-version", Needs: sources(SourceConfig), Judge: checkVersion},
		{ID: "cluster-bundles", Needs: sources(sourceDeployments), Judge: checkBundles},
	}
}

func checkConditions(f *Facts) (rows []check.Row) {
	if f.Cluster.DeletionTimestamp != nil {
		rows = check.Group(rows, "", check.Fail(f.Object(), "the Cluster is being deleted", remedy.Describe("clusters", f.Cluster.Namespace, f.Cluster.Name)))
	}
	for _, condition := range f.Cluster.Status.Conditions {
		if !conditions.IsTrouble(condition) || condition.Reason == conditions.ReasonAgentNotReporting || condition.Reason == conditions.ReasonClientIDAmbiguous {
			continue // the others have checks of their own
		}
		rows = check.Group(rows, condition.Reason, check.ClusterCondition(f.Cluster, condition))
	}
	return rows
}

// logs returns the command that reads the agent's log.
func (f *Facts) logs() string {
	return f.Here.On(remedy.Command("kubectl", "logs", "-n", AgentNamespace(f.Cluster), "deployment/"+names.Agent))
}

// age returns how long the Cluster exists.
func (f *Facts) age() time.Duration { return f.Now.Sub(f.Cluster.CreationTimestamp.Time) }

func checkHeartbeat(f *Facts) []check.Row {
	seen := f.Cluster.Status.Agent.LastSeen
	switch clusters.Summarize(f.Cluster).State {
	case clusters.Silent:
		if seen.IsZero() {
			return []check.Row{check.Fail(f.Object(), "the agent was deployed and has never reported", f.logs())}
		}
		return []check.Row{check.Fail(f.Object(), "the agent has not reported since "+seen.UTC().Format(time.RFC3339), f.logs())}
	case clusters.Waiting:
		if clusterrules.ManagedElsewhere(f.Cluster) {
			return []check.Row{check.Ok(f.Object(), "another manager owns the Cluster")}
		}
		if f.Imported() {
			return []check.Row{check.Warn(f.Object(), "the hub has not installed the agent yet", remedy.Describe("clusters", f.Cluster.Namespace, f.Cluster.Name))}
		}
		return []check.Row{check.Warn(f.Object(), "no agent has joined as this Cluster yet", f.join())}
	case clusters.NotImported, clusters.Deleting:
		return nil // check cluster-conditions reports it
	}
	return []check.Row{check.Ok(f.Object(), "last seen "+seen.UTC().Format(time.RFC3339))}
}

// join returns the command that prints the text with which the cluster joins.
func (f *Facts) join() string {
	if capi.IsByManifest(f.Cluster) { // the text of its token would join it without the settings of the Cluster
		return remedy.OfCluster(f.Cluster, conditions.ReasonAwaitingAgent)
	}
	return cmp.Or(remedy.ShowToken(f.Cluster, f.Tokens), f.Repair)
}

func checkPaused(f *Facts) []check.Row {
	if !f.Cluster.Spec.Paused {
		return nil
	}
	return []check.Row{check.Warn(f.Object(), "the Cluster is paused: changes of Bundles do not reach it",
		remedy.Patch("clusters", f.Cluster, map[string]any{"spec": map[string]any{"paused": false}}))}
}

func checkNamespace(f *Facts) []check.Row {
	wanted, reported := f.Namespace(), f.Cluster.Status.Namespace
	target := check.Object{Kind: "Namespace", Name: wanted}
	log := remedy.Command("kubectl", "logs", "-n", f.System, "deployment/"+names.ControllerConfig)
	switch {
	case f.Cluster.DeletionTimestamp != nil, clusterrules.ManagedElsewhere(f.Cluster):
		return nil
	case f.Place == nil && f.age() < check.CreationPatience:
		return []check.Row{check.Ok(target, "the hub creates the namespace")}
	case f.Place == nil:
		return []check.Row{check.Fail(target, "the Cluster's namespace does not exist: nothing is deployed on the cluster", log)}
	case f.Place.DeletionTimestamp != nil:
		return []check.Row{check.Fail(target, "the Cluster's namespace is being deleted: look for objects with finalizers in it", remedy.Command("kubectl", "describe", "namespace", wanted))}
	case reported != "" && reported != wanted:
		return []check.Row{check.Fail(target, fmt.Sprintf("the status of the Cluster names another namespace (%s): the hub does not use it", reported), log)}
	}
	return nil
}

func checkVersion(f *Facts) []check.Row {
	return check.OldAgent(f.Cluster, f.Version, f.Config, f.Here)
}

func checkBundles(f *Facts) (rows []check.Row) {
	for _, deployment := range f.Deployments {
		target := check.OfFleet("BundleDeployment", deployment)
		if reported := state.Of(deployment); deployment.DeletionTimestamp == nil && reported == fleet.ErrApplied {
			rows = check.Group(rows, reasonOf(deployment), check.Fail(target, state.Message(deployment), remedy.Describe("bundledeployments", deployment.Namespace, deployment.Name)))
		}
	}
	return rows
}

// reasonOf returns the reason of the first condition that needs attention.
func reasonOf(deployment *fleet.BundleDeployment) string {
	i := slices.IndexFunc(deployment.Status.Conditions, conditions.IsTrouble)
	if i < 0 {
		return ""
	}
	return deployment.Status.Conditions[i].Reason
}
