package joining

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Lifetime of the token.
const (
	// Lifetime is its remaining lifetime after it was created or prolonged.
	Lifetime = 72 * time.Hour
	// Reserve is the remaining lifetime at which it is prolonged. A machine may boot long after its bootstrap data was
	// written, which contains the bearer token of that time.
	Reserve = 48 * time.Hour
)

// Stage is what the hub does next for a cluster that joins with a manifest.
type Stage string

const (
	// Over means that no manifest is needed: an agent has reported, or the cluster joins in another way.
	Over Stage = "Over"
	// Blocked means that a person has to change something first.
	Blocked Stage = "Blocked"
	// NeedsToken means that the token is created.
	NeedsToken Stage = "NeedsToken"
	// AwaitingToken means that the token has no values yet, or is being deleted.
	AwaitingToken Stage = "AwaitingToken"
	// Ready means that the Secret contains the manifest.
	Ready Stage = "Ready"
)

// Content is what the Secret has to contain.
type Content string

const (
	// Unchanged means that the Secret stays as it is.
	Unchanged Content = ""
	// Agent means that it installs the agent.
	Agent Content = "Agent"
	// Nothing means that it installs nothing.
	Nothing Content = "Nothing"
	// NothingIfExists is Nothing, but a missing Secret is not created.
	NothingIfExists Content = "NothingIfExists"
)

// Input describes a Cluster of Fleet that follows Cluster API. A nil object was not found.
type Input struct {
	Now     time.Time
	Cluster *fleet.Cluster
	// Wanted means that the cluster joins with a manifest.
	Wanted bool
	// Token is the one with the name that TokenName returns. Values is the Secret with its values.
	Token  *fleet.ClusterRegistrationToken
	Values *corev1.Secret
	// PullSecrets maps the names of the Secrets that are copied from the hub's system namespace to their versions.
	PullSecrets map[string]string
	Config      config.Config
	Defaults    importing.AgentDefaults
	Namespaces  clusters.Namespaces
}

// Outcome is the decision.
type Outcome struct {
	Stage Stage
	// Reason and Message say what the cluster waits for. They are empty if it is Over.
	Reason, Message string
	// CreateToken is the token to create. TTL is the new spec.ttl of the existing one. DeleteToken deletes that.
	CreateToken *fleet.ClusterRegistrationToken
	TTL         *metav1.Duration
	DeleteToken bool
	// Content is that of the Secret. Deploy is the agent, without a bootstrap document unless Content is Agent.
	Content Content
	Deploy  *importing.AgentDeployment
	// Again is when to decide again although nothing has changed, or zero.
	Again time.Time
}

// Decide returns what the hub does next.
func Decide(in Input) Outcome {
	if !in.Wanted || clusters.LastSeen(in.Cluster) != "" {
		return over(in)
	}
	reason, message := obstacle(in)
	switch {
	case in.Token == nil && reason != "":
		return blocked(reason, message)
	case in.Token == nil:
		return preparing(in, Outcome{Stage: NeedsToken, CreateToken: newToken(in.Cluster)})
	case !isOurs(in.Token, in.Cluster):
		return blocked(conditions.ReasonNameTaken, fmt.Sprintf("ClusterRegistrationToken %s/%s was not created for this cluster, and the hub needs its name: delete it", in.Token.Namespace, in.Token.Name))
	case in.Token.DeletionTimestamp != nil:
		return preparing(in, Outcome{Stage: AwaitingToken})
	case isUnfit(in.Token, in.Cluster):
		return preparing(in, Outcome{Stage: AwaitingToken, DeleteToken: true})
	}
	out := handOut(in, reason, message)
	out.TTL, out.Again = prolong(in.Token, in.Now)
	return out
}

// over returns the outcome if no manifest is needed. Of a token and a Secret that do not exist, nothing has to be removed.
func over(in Input) Outcome {
	out := Outcome{Stage: Over, Content: NothingIfExists, Deploy: agent(in, protocol.Bootstrap{})}
	if in.Wanted {
		out.Content = Nothing
	}
	out.DeleteToken = isDeletable(in)
	return out
}

// HasEnded reports whether the token has to be deleted because an agent has reported.
func HasEnded(in Input) bool { return clusters.LastSeen(in.Cluster) != "" && isDeletable(in) }

func isDeletable(in Input) bool {
	return in.Token != nil && isOurs(in.Token, in.Cluster) && in.Token.DeletionTimestamp == nil
}

// handOut decides about a token that can be used.
func handOut(in Input, reason, message string) Outcome {
	if reason != "" {
		return blocked(reason, message)
	}
	bootstrap, ok := importing.Bootstrap(in.Token, in.Values, importing.HubAddress{URL: in.Config.APIServerURL, CA: in.Config.APIServerCA}, in.Namespaces)
	if !ok {
		if reason, message := importing.TokenObstacle(in.Token); reason != "" {
			return blocked(reason, message)
		}
		return preparing(in, Outcome{Stage: AwaitingToken})
	}
	return Outcome{
		Stage: Ready, Content: Agent, Deploy: agent(in, bootstrap), Reason: conditions.ReasonAwaitingAgent,
		Message: fmt.Sprintf("no agent has reported: let the bootstrap provider of the control plane apply key %q of Secret %s/%s, or run `kubectl get secret -n %[2]s %[3]s -o jsonpath='{.data.%[4]s}' | base64 -d | kubectl --kubeconfig KUBECONFIG apply --server-side -f -`",
			Key, in.Cluster.Namespace, SecretName(in.Cluster.Name), Key),
	}
}

func agent(in Input, bootstrap protocol.Bootstrap) *importing.AgentDeployment {
	return importing.NewAgent(in.Cluster, in.Config, in.Defaults, in.Namespaces, bootstrap)
}

func blocked(reason, message string) Outcome {
	return Outcome{Stage: Blocked, Reason: reason, Message: message}
}

func preparing(in Input, out Outcome) Outcome {
	out.Reason, out.Message = conditions.ReasonAwaitingAgent, fmt.Sprintf("no agent has reported: Secret %s/%s with its manifest is being prepared", in.Cluster.Namespace, SecretName(in.Cluster.Name))
	return out
}

// obstacle returns why no manifest can be made.
func obstacle(in Input) (reason, message string) {
	if name := SecretName(in.Cluster.Name); len(name) > validation.DNS1123SubdomainMaxLength {
		return conditions.ReasonSettingsInvalid, fmt.Sprintf("the name of the cluster is too long for a Secret %s: use a name of at most %d characters", suffix, validation.DNS1123SubdomainMaxLength-len(suffix))
	}
	return importing.AgentObstacle(in.Cluster, in.Config, in.PullSecrets, in.Namespaces)
}

// TokenName returns the name of the token for a Cluster.
func TokenName(cluster string) string { return names.SafeConcat("capi-join-" + cluster) }

// ClusterOfToken returns the name of the Cluster that a token was created for, or "".
func ClusterOfToken(token *fleet.ClusterRegistrationToken) string {
	cluster := token.Annotations[annotation.TokenForCluster]
	if cluster == "" || token.Name != TokenName(cluster) {
		return ""
	}
	return cluster
}

// newToken returns the token. It is deleted with the Cluster, and the hub grants nothing for it after that.
func newToken(cluster *fleet.Cluster) *fleet.ClusterRegistrationToken {
	return &fleet.ClusterRegistrationToken{
		TypeMeta: metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "ClusterRegistrationToken"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace, Name: TokenName(cluster.Name),
			Annotations:     map[string]string{annotation.TokenForCluster: cluster.Name, annotation.TokenForClientID: cluster.Spec.ClientID},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID}},
		},
		Spec: fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: Lifetime}},
	}
}

// isOurs reports whether the hub created a token for this Cluster, or for an earlier one with its name.
func isOurs(token *fleet.ClusterRegistrationToken, cluster *fleet.Cluster) bool {
	return ClusterOfToken(token) == cluster.Name &&
		slices.ContainsFunc(token.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Cluster" && o.Name == cluster.Name })
}

// isUnfit reports whether a token must not be handed out: it is for another client ID, or for an earlier Cluster.
func isUnfit(token *fleet.ClusterRegistrationToken, cluster *fleet.Cluster) bool {
	only, limited := token.Annotations[annotation.TokenForClientID]
	return !limited || only != cluster.Spec.ClientID || clusters.IsAnother(cluster, token.OwnerReferences)
}

// prolong returns the new spec.ttl of a token that is in its reserve, and when to look at the token again.
func prolong(token *fleet.ClusterRegistrationToken, now time.Time) (ttl *metav1.Duration, again time.Time) {
	made := token.CreationTimestamp.Time
	if token.Spec.TTL != nil {
		if due := made.Add(token.Spec.TTL.Duration - Reserve); now.Before(due) {
			return nil, due
		}
	}
	return &metav1.Duration{Duration: now.Sub(made).Truncate(time.Second) + Lifetime}, now.Add(Lifetime - Reserve)
}
