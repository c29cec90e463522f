package importing

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Stage is the state of a Cluster's import.
type Stage string

const (
	// None means that the Cluster is not imported: its agent is installed by hand, another manager owns the Cluster,
	// or it is being deleted.
	None Stage = "None"
	// NeedsClientID means that the Cluster gets a random client ID.
	NeedsClientID Stage = "NeedsClientID"
	// Blocked means that the import waits for a change by a person. The condition says which one.
	Blocked Stage = "Blocked"
	// NeedsToken means that the Cluster's import token has to be created or renewed.
	NeedsToken Stage = "NeedsToken"
	// AwaitingToken means that the import token has no values yet.
	AwaitingToken Stage = "AwaitingToken"
	// NeedsAgent means that the agent downstream differs from what is wanted and has to be applied.
	NeedsAgent Stage = "NeedsAgent"
	// InSync means that the agent downstream is as wanted.
	InSync Stage = "InSync"
	// Noted means that the agent gets the change with its Bundle. Only the status is written.
	Noted Stage = "Noted"
	// MustRemove means that the local agent is disabled and has to be removed.
	MustRemove Stage = "MustRemove"
	// Disabled means that the local agent is disabled and removed.
	Disabled Stage = "Disabled"
)

// Input describes a Cluster and its objects. A nil object was not found.
type Input struct {
	Now     time.Time
	Cluster *fleet.Cluster
	// Namesakes are the Clusters of the workspace with the Cluster's client ID. The Cluster itself may be among them.
	Namesakes []*fleet.Cluster
	// Kubeconfig is the Secret that the Cluster names. It is read only if NeedsKubeconfig returns true. The kubeconfig
	// in it may be a placeholder.
	Kubeconfig *corev1.Secret
	// Token is the Cluster's import token. Values is the Secret with its values.
	Token  *fleet.ClusterRegistrationToken
	Values *corev1.Secret
	// TokenUsed means that the agent has reported with a credential that it got with Token. See MayHaveUsedToken.
	TokenUsed bool
	// Inherited means that the agent was deployed by Rancher Fleet and stays unchanged. See Inherited.
	Inherited bool
	// Bundle is the agent's Bundle.
	Bundle *fleet.Bundle
	// Stale means that the agent has reported before and no longer does.
	Stale bool
	// Doubted means that the agent has to be inspected although its settings are unchanged: its kubeconfig changed,
	// or failed before the process started.
	Doubted bool
	// Repair is what to apply again downstream, as decided by supervision.Decide.
	Repair supervision.Repair
	// Accounts are the UIDs of the live accounts of the Cluster's granted registrations.
	Accounts []types.UID
	// PullSecrets maps the names of the Secrets that are copied from the hub's system namespace to their versions. The
	// version of a missing Secret is empty. See PropagatedPullSecrets.
	PullSecrets map[string]string
	Config      config.Config
	Defaults    AgentDefaults
	Namespaces  clusters.Namespaces
}

// Outcome is what the import of a Cluster does now.
type Outcome struct {
	Stage Stage
	// Supervise means that the deployed agent does not report and has to be inspected.
	Supervise bool
	// Reason and Message say why the import is blocked.
	Reason, Message string
	// CreateToken is the import token to create. The caller first checks that the kubeconfig reaches the cluster, and
	// creates no token if it does not. RenewToken deletes a token that is about to expire.
	CreateToken *fleet.ClusterRegistrationToken
	RenewToken  bool
	// EndToken means that the agent has used the import token. It is deleted, so that a stolen copy is worthless.
	EndToken bool
	// Deploy, if set, is the agent to apply downstream. Remove, if set, is the agent to remove.
	Deploy *AgentDeployment
	Remove *AgentRemoval
	// Done is the status to write after Deploy or Remove.
	Done Status
}

// Decide returns what the import of a Cluster does now.
func Decide(in Input) Outcome {
	cluster := in.Cluster
	switch {
	case !isImported(cluster):
		return Outcome{Stage: None}
	case isDisabled(cluster, in.Config):
		return disable(in)
	}
	if out := identify(in); out.Stage != "" {
		return out
	}
	if reason, message := KubeconfigRefused(cluster, in.Kubeconfig, in.Config); reason != "" {
		return blocked(reason, message)
	}
	want, err := desiredStatus(in)
	switch {
	case err != nil:
		return blocked(conditions.ReasonSettingsInvalid, err.Error())
	case cluster.Spec.KubeConfigSecret == "":
		return noteSettings(cluster, want)
	}
	return bring(in, want)
}

// isImported reports whether this hub may import a Cluster.
func isImported(cluster *fleet.Cluster) bool {
	return cluster.DeletionTimestamp == nil && cluster.Labels[fleet.LabelClusterManagement] == ""
}

func isDisabled(cluster *fleet.Cluster, conf config.Config) bool {
	return clusters.IsLocal(cluster, conf.Bootstrap) && conf.Bootstrap.LocalAgentDisabled
}

// NeedsKubeconfig reports whether Decide needs the Secret that a Cluster names. A Cluster first gets its client ID.
func NeedsKubeconfig(cluster *fleet.Cluster, conf config.Config) bool {
	return cluster.Spec.KubeConfigSecret != "" && isImported(cluster) && (cluster.Spec.ClientID != "" || isDisabled(cluster, conf))
}

// inPeace reports whether an agent that is in sync does not have to be inspected.
func inPeace(in Input) bool {
	return !in.Doubted && (in.Repair == supervision.RepairNone || in.Inherited)
}

// bring returns the outcome for an agent that the import deploys.
func bring(in Input, want Status) Outcome {
	settled := inSync(in, want)
	if settled && inPeace(in) {
		return keep(in, want)
	}
	switch {
	case in.Inherited:
		return blocked(conditions.ReasonAgentInherited, AgentInheritedMessage)
	case frozen(in, want):
		if want = withoutCarried(in, want); inSync(in, want) && inPeace(in) {
			return onlyFrozenLeft(in, want)
		}
	case !settled && !in.Doubted && carriedByBundle(in, want):
		return Outcome{Stage: Noted, Done: want}
	}
	if reason, message := obstacle(in, want); reason != "" {
		return blocked(reason, message)
	}
	return approach(in, want)
}

// keep returns the outcome for an agent that is in sync and does not have to be inspected.
func keep(in Input, want Status) Outcome {
	return Outcome{
		Stage: InSync, Done: want, Supervise: !in.Inherited && supervision.Supervised(in.Cluster, in.Stale),
		EndToken: in.TokenUsed && !in.Stale && tokenIsOwn(in),
	}
}

// onlyFrozenLeft returns the outcome if only settings that manageAgent blocks are outstanding. An agent that has never
// reported is supervised meanwhile.
func onlyFrozenLeft(in Input, want Status) Outcome {
	if supervision.NeverReported(in.Cluster) {
		return Outcome{Stage: InSync, Done: want, Supervise: true}
	}
	return blocked(conditions.ReasonAgentFrozen, fmt.Sprintf("changed settings of the agent wait, because manageAgent is false in the hub's ConfigMap fleet-controller: set it to true there, or delete the agent's Bundle: kubectl delete bundles.fleet.cattle.io -n %s %s",
		in.Cluster.Namespace, names.AgentBundle(in.Cluster.Name)))
}

// approach returns the next step towards a deployed agent, for a Cluster that can be imported.
func approach(in Input, want Status) Outcome {
	deploy := deployment(in, want)
	if !deploy.NewRegistration && !in.Repair.NeedsBootstrap() {
		return Outcome{Stage: NeedsAgent, Deploy: deploy, Done: want}
	}
	switch {
	case in.Token == nil:
		return Outcome{Stage: NeedsToken, CreateToken: importToken(in.Cluster)}
	case in.Token.DeletionTimestamp != nil:
		return Outcome{Stage: AwaitingToken}
	case tokenUnfit(in):
		return Outcome{Stage: NeedsToken, RenewToken: true}
	}
	bootstrap, ok := bootstrapOf(in, want)
	if !ok {
		return awaitValues(in.Token)
	}
	deploy.Values.Bootstrap = &bootstrap
	if deploy.NewRegistration {
		want.ResetAgent, want.AgentNamespace = true, in.Cluster.Spec.AgentNamespace
	}
	return Outcome{Stage: NeedsAgent, Deploy: deploy, Done: want}
}

// AgentRemoval describes an agent to be removed.
type AgentRemoval struct {
	// StatusOnly means that the Cluster may use no kubeconfig, so only the status is cleared.
	StatusOnly bool
	TLSMode    string
	Namespace  string
	// SetIDs are the IDs of the sets that the agent may belong to.
	SetIDs []string
}

func disable(in Input) Outcome {
	status := in.Cluster.Status
	if status.Agent.Namespace == "" && status.AgentDeployedGeneration == nil {
		return Outcome{Stage: Disabled}
	}
	remove := &AgentRemoval{TLSMode: in.Config.AgentTLSMode, Namespace: status.Agent.Namespace}
	if remove.Namespace == "" {
		remove.Namespace = in.Namespaces.System
	}
	remove.SetIDs = setIDs(remove.Namespace, in.Namespaces)
	refused, _ := KubeconfigRefused(in.Cluster, in.Kubeconfig, in.Config)
	remove.StatusOnly = in.Kubeconfig == nil || refused != ""
	done := statusOf(in.Cluster)
	done.AgentDeployedGeneration, done.ResetAgent = nil, true
	return Outcome{Stage: MustRemove, Remove: remove, Done: done}
}
