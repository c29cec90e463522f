package handshake

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The life of a token that an import makes for its Cluster.
const (
	// ImportTokenTTL is its time to live.
	ImportTokenTTL = 12 * time.Hour
	// ImportTokenReserve is what must be left of it for an import to hand it out: an agent may take a
	// while to be pulled and started.
	ImportTokenReserve = time.Hour
)

// ImportStage says how far the import of a Cluster is.
type ImportStage string

const (
	// ImportNone means that the Cluster is not imported: its agent comes by itself, or another manager
	// owns it, or it is going.
	ImportNone ImportStage = "None"
	// ImportNeedsClientID means that the Cluster gets a random client ID.
	ImportNeedsClientID ImportStage = "NeedsClientID"
	// ImportBlocked means that the import cannot go on until somebody changes something; the condition says what.
	ImportBlocked ImportStage = "Blocked"
	// ImportNeedsToken means that the Cluster's import token is made, or renewed.
	ImportNeedsToken ImportStage = "NeedsToken"
	// ImportAwaitingToken means that the import token has no values yet.
	ImportAwaitingToken ImportStage = "AwaitingToken"
	// ImportNeedsAgent means that the agent downstream is not what it should be, and is applied.
	ImportNeedsAgent ImportStage = "NeedsAgent"
	// ImportInSync means that the agent downstream is what it should be.
	ImportInSync ImportStage = "InSync"
	// ImportNoted means that what has changed comes to the agent with its Bundle: only the status is written.
	ImportNoted ImportStage = "Noted"
	// ImportMustRemove means that the local agent is disabled and is removed.
	ImportMustRemove ImportStage = "MustRemove"
	// ImportDisabled means that the local agent is disabled and gone.
	ImportDisabled ImportStage = "Disabled"
)

// AgentDefaults are the settings of every agent that come from the controller's own environment.
type AgentDefaults struct {
	Replicas                                  int32
	LeaseDuration, RetryPeriod, RenewDeadline string
	Debug                                     bool
	DebugLevel                                int
	DisableSecurityContext                    bool
	// Env is put before a Cluster's own agentEnvVars, unless those name the same variable.
	Env []corev1.EnvVar
}

// AgentValues is everything a deployment of the agent depends on: what charts/fleet-agent is rendered with.
type AgentValues struct {
	// Namespace is the agent's namespace; Scope is the Cluster's spec.agentNamespace (AGENT_SCOPE).
	Namespace, Scope string
	Replicas         int32
	// Image is complete, registry included.
	Image, ImagePullPolicy string
	ImagePullSecrets       []corev1.LocalObjectReference
	// CheckinInterval is a Go duration in text.
	CheckinInterval string
	// The numbers of the agent's workers, in text.
	BundleDeploymentWorkers, DriftWorkers string
	// The agent's leader election, Go durations in text.
	LeaseDuration, RetryPeriod, RenewDeadline string
	Debug                                     bool
	DebugLevel                                int
	DisableSecurityContext                    bool
	Env                                       []corev1.EnvVar
	// Tolerations come after the two every agent has.
	Tolerations []corev1.Toleration
	// Affinity replaces the built-in one; nil keeps it.
	Affinity            *corev1.Affinity
	Resources           *corev1.ResourceRequirements
	HostNetwork         bool
	PriorityClass       *fleet.PriorityClassSpec
	PodDisruptionBudget *fleet.PodDisruptionBudgetSpec
	// Bootstrap is rendered as Secret fleet-agent-bootstrap; nil leaves the agent's identity as it is.
	Bootstrap *Bootstrap
	// Config is rendered as ConfigMap fleet-agent; nil renders none, as in the agent's Bundle.
	Config *config.Agent
}

// ImportInput is what was found about a Cluster. A nil object was not found.
type ImportInput struct {
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
	Repair Repair
	// Known says that a ClusterRegistration of the Cluster's client is on the hub.
	Known bool
	// PullSecrets are the versions of the Secrets in the hub's system namespace that go with the agent, by name; ""
	// is a Secret that is not there. See PropagatedPullSecrets.
	PullSecrets map[string]string
	Config      config.Config
	Defaults    AgentDefaults
	Namespaces  Namespaces
}

// ImportOutcome is what a Cluster is owed by its import now.
type ImportOutcome struct {
	Stage ImportStage
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
	Done ImportStatus
}

// AgentDeployment is an agent to be applied downstream.
type AgentDeployment struct {
	// Kubeconfig reaches the downstream cluster. It is a user's: not to be trusted.
	Kubeconfig []byte
	TLSMode    string
	// SetID marks the objects as a set.
	SetID  string
	Values AgentValues
	// NewRegistration makes the agent give up its identity: the first import, and whenever somebody
	// asks for it by the generation or the agent moves.
	NewRegistration bool
	// LeaveNamespace is where the agent was before it moved; empty if it did not.
	LeaveNamespace string
	// Known says that a ClusterRegistration of the Cluster's client is on the hub: an agent that has an identity is
	// handed over no means to get another, unless it is to register anew.
	Known bool
	// LookOnly means that nothing has changed: nothing is applied if the agent is there.
	LookOnly bool
	// BesideBundle leaves to the agent's Bundle what it carries: only ConfigMap, PriorityClass, PodDisruptionBudget and
	// pull secrets are applied.
	BesideBundle bool
	// Identity is what the agent's Secrets say if they are this Cluster's. An agent without such a Secret needs a new
	// registration.
	Identity AgentIdentity
	// Readdress, if set, is the hub's address for the agent's stored kubeconfig, or for its bootstrap secret while it
	// has none.
	Readdress *HubAddress
	// PullSecrets are the names of Secrets to be copied from the hub's system namespace.
	PullSecrets []string
	// Scheduling means that another scheduling customisation was applied before: what of it is not wanted any more goes.
	Scheduling bool
	// Leftovers are removed where the hub's system namespace is not the usual one.
	Leftovers bool
}

// AgentIdentity tells whose agent the Secrets of an agent's namespace are.
type AgentIdentity struct {
	// ClusterNamespace and ClusterName are the Cluster's; TokenName is its import token's.
	ClusterNamespace, ClusterName, TokenName string
}

// HubAddress is how an agent reaches its hub.
type HubAddress struct {
	URL string
	// CA is PEM; empty means the system's roots.
	CA []byte
}

// AgentRemoval is an agent to be taken away.
type AgentRemoval struct {
	// Kubeconfig is nil if there is nothing to reach it with: then only the status is cleared.
	Kubeconfig []byte
	TLSMode    string
	Namespace  string
}

// ImportStatus are the fields of a Cluster's status that an import owns.
type ImportStatus struct {
	AgentDeployedGeneration          *int64
	Migrated                         bool
	APIServerURL, APIServerCAHash    string
	AgentTLSMode                     string
	GarbageCollectionInterval        *metav1.Duration
	AgentEnvVarsHash                 string
	AgentAffinityHash                string
	AgentResourcesHash               string
	AgentTolerationsHash             string
	AgentSchedulingCustomizationHash string
	AgentPrivateRepoURL              string
	AgentHostNetwork                 bool
	// PullSecrets tells the versions of the pull secrets that went with the agent; "" for none. It is kept in the
	// Cluster's annotation AnnotationPullSecrets, for want of a field.
	PullSecrets string
	// ResetAgent replaces status.agent by AgentNamespace and no heartbeat.
	ResetAgent     bool
	AgentNamespace string
}

// IsLocal says whether a Cluster is the hub's own.
func IsLocal(cluster *fleet.Cluster, bootstrap config.Bootstrap) bool {
	return cluster.Name == names.LocalCluster && bootstrap.Enabled() && cluster.Namespace == bootstrap.Namespace
}

// Import decides what a Cluster is owed by its import now.
func Import(in ImportInput) ImportOutcome {
	cluster := in.Cluster
	if cluster.DeletionTimestamp != nil || cluster.Labels[fleet.LabelClusterManagement] != "" {
		return ImportOutcome{Stage: ImportNone}
	}
	if IsLocal(cluster, in.Config.Bootstrap) && in.Config.Bootstrap.LocalAgentDisabled {
		return disable(in)
	}
	if out := identify(in); out.Stage != "" {
		return out
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
func inPeace(in ImportInput) bool {
	return !in.Doubted && (in.Repair == RepairNone || in.Inherited)
}

// bring is what is owed to an agent that the import looks after.
func bring(in ImportInput, want ImportStatus) ImportOutcome {
	settled := inSync(in, want)
	if settled && inPeace(in) {
		return ImportOutcome{Stage: ImportInSync, Done: want, Supervise: !in.Inherited && Supervised(in.Cluster, in.Stale)}
	}
	switch {
	case in.Inherited:
		return blocked(fleet.ReasonAgentInherited, AgentInheritedMessage)
	case !settled && frozen(in, want):
		return blocked(fleet.ReasonAgentFrozen, "the agent's settings come with its Bundle, which stays as it is while manageAgent is false: set manageAgent to true, or delete the Bundle, so that the import applies them")
	case !settled && !in.Doubted && carriedByBundle(in, want):
		return ImportOutcome{Stage: ImportNoted, Done: want}
	}
	if reason, message := obstacle(in, want); reason != "" {
		return blocked(reason, message)
	}
	return approach(in, want)
}

// identify sees to it that it is clear which agent is the Cluster's, and that an import is to bring it; without
// a stage the import goes on.
func identify(in ImportInput) ImportOutcome {
	spec, older := in.Cluster.Spec, olderNamesake(in)
	switch {
	case spec.ClientID == "" && spec.KubeConfigSecret == "":
		return blocked(fleet.ReasonClientIDMissing, "no agent can join as this Cluster: set spec.clientID to the client ID of its agent, or name a kubeconfig Secret in spec.kubeConfigSecret")
	case spec.ClientID == "":
		return ImportOutcome{Stage: ImportNeedsClientID}
	case older != nil:
		return blocked(fleet.ReasonClientIDAmbiguous, fmt.Sprintf("Cluster %s is older and has the same spec.clientID, so that agents with it join as that one: give this Cluster a client ID of its own, or delete one of the two", older.Name))
	}
	return ImportOutcome{}
}

// noteSettings is for a Cluster whose agent comes by itself: its settings reach it with its Bundle, and its status
// tells which they are as that of any other Cluster.
func noteSettings(cluster *fleet.Cluster, want ImportStatus) ImportOutcome {
	known := statusOf(cluster)
	if sameCarried(known, want) && known.AgentSchedulingCustomizationHash == want.AgentSchedulingCustomizationHash {
		return ImportOutcome{Stage: ImportNone}
	}
	return ImportOutcome{Stage: ImportNoted, Done: want}
}

// olderNamesake is the Cluster that agents with this one's client ID join as; nil if it is this one.
func olderNamesake(in ImportInput) *fleet.Cluster {
	of := []*fleet.Cluster{in.Cluster}
	for _, other := range in.Namesakes {
		if other.UID != in.Cluster.UID && other.Spec.ClientID == in.Cluster.Spec.ClientID {
			of = append(of, other)
		}
	}
	if first := firstOf(of); first != in.Cluster {
		return first
	}
	return nil
}

// approach is the way from a Cluster that can be imported to an agent in place.
func approach(in ImportInput, want ImportStatus) ImportOutcome {
	deploy := deployment(in, want)
	if !deploy.NewRegistration && in.Repair != RepairIdentity {
		return ImportOutcome{Stage: ImportNeedsAgent, Deploy: deploy, Done: want}
	}
	switch {
	case in.Token == nil:
		return ImportOutcome{Stage: ImportNeedsToken, CreateToken: importToken(in.Cluster), Kubeconfig: deploy.Kubeconfig}
	case in.Token.DeletionTimestamp != nil:
		return ImportOutcome{Stage: ImportAwaitingToken}
	case tokenUnfit(in):
		return ImportOutcome{Stage: ImportNeedsToken, RenewToken: true}
	}
	bootstrap, ok := bootstrapOf(in, want)
	if !ok {
		return awaitValues(in.Token)
	}
	deploy.Values.Bootstrap = &bootstrap
	if deploy.NewRegistration {
		want.ResetAgent, want.AgentNamespace = true, in.Cluster.Spec.AgentNamespace
	}
	return ImportOutcome{Stage: ImportNeedsAgent, Deploy: deploy, Done: want}
}

// awaitValues waits for the values of a token, aloud if the token has a trouble of its own.
func awaitValues(token *fleet.ClusterRegistrationToken) ImportOutcome {
	ready := fleet.GetCondition(token.Status.Conditions, fleet.ConditionReady)
	if ready == nil || !fleet.IsTrouble(*ready) {
		return ImportOutcome{Stage: ImportAwaitingToken}
	}
	return blocked(fleet.ReasonTokenBlocked, fmt.Sprintf("the import token %s gets no values (%s): see its condition %s for what to do", token.Name, ready.Reason, fleet.ConditionReady))
}

func blocked(reason, message string) ImportOutcome {
	return ImportOutcome{Stage: ImportBlocked, Reason: reason, Message: message}
}

// obstacle is what only a human can take out of the way; an empty reason is none.
func obstacle(in ImportInput, want ImportStatus) (reason, message string) {
	missing := missingPullSecret(in)
	switch cluster := in.Cluster; {
	case !KubeconfigNamespaceAllowed(cluster):
		return fleet.ReasonKubeconfigNamespaceRefused, fmt.Sprintf("spec.kubeConfigSecretNamespace %q is not an allowed Fleet namespace: move the Secret to the Cluster's own namespace", cluster.Spec.KubeConfigSecretNamespace)
	case in.Kubeconfig == nil:
		return fleet.ReasonKubeconfigMissing, fmt.Sprintf("there is no Secret %s: create it, or correct spec.kubeConfigSecret", KubeconfigSecret(cluster))
	case len(in.Kubeconfig.Data[KubeconfigValueKey]) == 0:
		return fleet.ReasonKubeconfigMissing, fmt.Sprintf("Secret %s has no key %q: put the kubeconfig there", KubeconfigSecret(cluster), KubeconfigValueKey)
	case want.APIServerURL == "":
		return fleet.ReasonHubURLMissing, "no URL of this hub is known that the agent could use: set apiServerURL in the fleet chart, or the key apiServerURL of the kubeconfig Secret"
	case in.Config.AgentTLSMode != config.TLSModeStrict && in.Config.AgentTLSMode != config.TLSModeSystemStore:
		return fleet.ReasonTLSModeUnknown, fmt.Sprintf("agentTLSMode is %q: set it to %q or %q in the fleet chart", in.Config.AgentTLSMode, config.TLSModeStrict, config.TLSModeSystemStore)
	case in.Config.AgentTLSMode == config.TLSModeStrict && len(hubCA(in)) == 0:
		return fleet.ReasonHubCAMissing, "agentTLSMode is \"strict\" and no CA of this hub is known: set apiServerCA in the fleet chart, or the key apiServerCA of the kubeconfig Secret"
	case missing != "":
		return fleet.ReasonPullSecretMissing, fmt.Sprintf("there is no Secret %s/%s, which the agents are to pull their image with: create it, or correct imagePullSecrets of the fleet chart", in.Namespaces.System, missing)
	}
	return "", ""
}

// KubeconfigSecret is where a Cluster's kubeconfig is, whether or not that is allowed; the zero value for a
// Cluster whose agent comes by itself.
func KubeconfigSecret(cluster *fleet.Cluster) types.NamespacedName {
	if cluster.Spec.KubeConfigSecret == "" {
		return types.NamespacedName{}
	}
	namespace := cluster.Spec.KubeConfigSecretNamespace
	if namespace == "" {
		namespace = cluster.Namespace
	}
	return types.NamespacedName{Namespace: namespace, Name: cluster.Spec.KubeConfigSecret}
}

// KubeconfigNamespaceAllowed says whether a Cluster may name a Secret of the namespace it names: its own,
// the well-known ones, or a cluster namespace.
func KubeconfigNamespaceAllowed(cluster *fleet.Cluster) bool {
	namespace := cluster.Spec.KubeConfigSecretNamespace
	switch namespace {
	case "", cluster.Namespace, "fleet-local", "fleet-default",
		names.SystemNamespace, names.RegistrationNamespace(names.SystemNamespace),
		names.LegacySystemNamespace, names.RegistrationNamespace(names.LegacySystemNamespace):
		return true
	}
	return strings.HasPrefix(namespace, "cluster-")
}

// statusOf is what the last import noted.
func statusOf(cluster *fleet.Cluster) ImportStatus {
	status := cluster.Status
	return ImportStatus{
		AgentDeployedGeneration: status.AgentDeployedGeneration, Migrated: status.AgentMigrated,
		APIServerURL: status.APIServerURL, APIServerCAHash: status.APIServerCAHash,
		AgentTLSMode: status.AgentTLSMode, GarbageCollectionInterval: status.GarbageCollectionInterval,
		AgentEnvVarsHash: status.AgentEnvVarsHash, AgentAffinityHash: status.AgentAffinityHash,
		AgentResourcesHash: status.AgentResourcesHash, AgentTolerationsHash: status.AgentTolerationsHash,
		AgentSchedulingCustomizationHash: status.AgentSchedulingCustomizationHash,
		AgentPrivateRepoURL:              status.AgentPrivateRepoURL, AgentHostNetwork: status.AgentHostNetwork,
		PullSecrets: cluster.Annotations[fleet.AnnotationPullSecrets],
	}
}

// importToken is the token an import makes for its Cluster, and which goes with it.
func importToken(cluster *fleet.Cluster) *fleet.ClusterRegistrationToken {
	return &fleet.ClusterRegistrationToken{
		TypeMeta: metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "ClusterRegistrationToken"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace, Name: names.ImportToken(cluster.Name),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
			}},
		},
		Spec: fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: ImportTokenTTL}},
	}
}

// bootstrapOf is the import identity for the agent, once the token's values are there. The hub's
// address is the effective one, which the values need not have.
func bootstrapOf(in ImportInput, want ImportStatus) (Bootstrap, bool) {
	if in.Values == nil || in.Token.Status.SecretName == "" || in.Values.Type != SecretTypeValues {
		return Bootstrap{}, false
	}
	values, err := ParseValues(in.Values.Data[ValuesKey])
	if err != nil {
		return Bootstrap{}, false
	}
	return Bootstrap{
		APIServerURL: want.APIServerURL, APIServerCA: hubCA(in),
		ClusterNamespace: in.Cluster.Namespace, Token: values.Token, TokenName: in.Token.Name,
		SystemRegistrationNamespace: in.Namespaces.Registration,
	}, true
}

// hubAddress is how the agent will reach the hub: as the kubeconfig Secret says, else as configured.
func hubAddress(in ImportInput) (url string, ca []byte) {
	url, ca = in.Config.APIServerURL, in.Config.APIServerCA
	if in.Kubeconfig == nil {
		return url, ca
	}
	if own := in.Kubeconfig.Data[APIServerURLKey]; len(own) > 0 {
		url = string(own)
	}
	if own := in.Kubeconfig.Data[APIServerCAKey]; len(own) > 0 {
		ca = own
	}
	return url, ca
}

func hubCA(in ImportInput) []byte {
	_, ca := hubAddress(in)
	return ca
}

func disable(in ImportInput) ImportOutcome {
	status := in.Cluster.Status
	if status.Agent.Namespace == "" && status.AgentDeployedGeneration == nil {
		return ImportOutcome{Stage: ImportDisabled}
	}
	remove := &AgentRemoval{TLSMode: in.Config.AgentTLSMode, Namespace: status.Agent.Namespace}
	if remove.Namespace == "" {
		remove.Namespace = in.Namespaces.System
	}
	if in.Kubeconfig != nil && KubeconfigNamespaceAllowed(in.Cluster) {
		remove.Kubeconfig = slices.Clone(in.Kubeconfig.Data[KubeconfigValueKey])
	}
	done := statusOf(in.Cluster)
	done.AgentDeployedGeneration, done.ResetAgent = nil, true
	return ImportOutcome{Stage: ImportMustRemove, Remove: remove, Done: done}
}
