package importing

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Stage says how far the import of a Cluster is.
type Stage string

const (
	// None means that the Cluster is not imported: its agent comes by itself, or another manager
	// owns it, or it is going.
	None Stage = "None"
	// NeedsClientID means that the Cluster gets a random client ID.
	NeedsClientID Stage = "NeedsClientID"
	// Blocked means that the import cannot go on until somebody changes something; the condition says what.
	Blocked Stage = "Blocked"
	// NeedsToken means that the Cluster's import token is made, or renewed.
	NeedsToken Stage = "NeedsToken"
	// AwaitingToken means that the import token has no values yet.
	AwaitingToken Stage = "AwaitingToken"
	// NeedsAgent means that the agent downstream is not what it should be, and is applied.
	NeedsAgent Stage = "NeedsAgent"
	// InSync means that the agent downstream is what it should be.
	InSync Stage = "InSync"
	// Noted means that what has changed comes to the agent with its Bundle: only the status is written.
	Noted Stage = "Noted"
	// MustRemove means that the local agent is disabled and is removed.
	MustRemove Stage = "MustRemove"
	// Disabled means that the local agent is disabled and gone.
	Disabled Stage = "Disabled"
)

// Input is what was found about a Cluster. A nil object was not found.
type Input struct {
	Now     time.Time
	Cluster *fleet.Cluster
	// Namesakes are the Clusters of the workspace with the Cluster's client ID, it among them or not.
	Namesakes []*fleet.Cluster
	// Kubeconfig is the Secret the Cluster names.
	Kubeconfig *corev1.Secret
	// Token is the Cluster's import token, Values the Secret with its values.
	Token  *fleet.ClusterRegistrationToken
	Values *corev1.Secret
	// Inherited says that the agent is another implementation's and stays as it is; see Inherited.
	Inherited bool
	// Bundle is the agent's Bundle.
	Bundle *fleet.Bundle
	// Stale says that the agent was heard of once and counts as gone.
	Stale bool
	// Doubted says that the agent is to be looked at though nothing of it has changed: its kubeconfig is another one,
	// or it counts as gone.
	Doubted bool
	// Repair is what to do again downstream, as whoever looked there has found; see Supervise.
	Repair supervision.Repair
	// Accounts are the UIDs of the live accounts of the Cluster's granted registrations.
	Accounts []types.UID
	// PullSecrets are the versions of the Secrets in the hub's system namespace that go with the agent, by name; ""
	// is a Secret that is not there. See PropagatedPullSecrets.
	PullSecrets map[string]string
	Config      config.Config
	Defaults    AgentDefaults
	Namespaces  clusters.Namespaces
}

// Outcome is what a Cluster is owed by its import now.
type Outcome struct {
	Stage Stage
	// Supervise says that the agent that is in place is not heard of, and is to be looked for.
	Supervise bool
	// Reason and Message say why the import is blocked.
	Reason, Message string
	// CreateToken and RenewToken make the import token, or end one that is about to expire.
	CreateToken *fleet.ClusterRegistrationToken
	RenewToken  bool
	// Kubeconfig, beside CreateToken, is that by which the cluster is to be asked first whether it is there: for one
	// that is not, no token is made.
	Kubeconfig []byte
	// Deploy, if set, is what to apply downstream; Remove what to take away.
	Deploy *AgentDeployment
	Remove *AgentRemoval
	// Done is the status once Deploy or Remove has been carried out.
	Done Status
}

// Decide decides what a Cluster is owed by its import now.
func Decide(in Input) Outcome {
	cluster := in.Cluster
	if cluster.DeletionTimestamp != nil || cluster.Labels[fleet.LabelClusterManagement] != "" {
		return Outcome{Stage: None}
	}
	if clusters.IsLocal(cluster, in.Config.Bootstrap) && in.Config.Bootstrap.LocalAgentDisabled {
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
		return blocked(fleet.ReasonSettingsInvalid, err.Error())
	case cluster.Spec.KubeConfigSecret == "":
		return noteSettings(cluster, want)
	}
	return bring(in, want)
}

// inPeace says whether nobody wants an agent to be looked at that is as it should be.
func inPeace(in Input) bool {
	return !in.Doubted && (in.Repair == supervision.RepairNone || in.Inherited)
}

// bring is what is owed to an agent that the import looks after.
func bring(in Input, want Status) Outcome {
	settled := inSync(in, want)
	if settled && inPeace(in) {
		return Outcome{Stage: InSync, Done: want, Supervise: !in.Inherited && supervision.Supervised(in.Cluster, in.Stale)}
	}
	switch {
	case in.Inherited:
		return blocked(fleet.ReasonAgentInherited, AgentInheritedMessage)
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

// onlyFrozenLeft returns the outcome for an agent to which nothing is owed but settings that manageAgent blocks. An agent
// that has never reported is supervised meanwhile.
func onlyFrozenLeft(in Input, want Status) Outcome {
	if supervision.NeverHeard(in.Cluster) {
		return Outcome{Stage: InSync, Done: want, Supervise: true}
	}
	return blocked(fleet.ReasonAgentFrozen, "the agent's settings come with its Bundle, which stays as it is while manageAgent is false: set manageAgent to true, or delete the Bundle, so that the import applies them")
}

// approach is the way from a Cluster that can be imported to an agent in place.
func approach(in Input, want Status) Outcome {
	deploy := deployment(in, want)
	if !deploy.NewRegistration && in.Repair != supervision.RepairIdentity {
		return Outcome{Stage: NeedsAgent, Deploy: deploy, Done: want}
	}
	switch {
	case in.Token == nil:
		return Outcome{Stage: NeedsToken, CreateToken: importToken(in.Cluster), Kubeconfig: deploy.Kubeconfig}
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
