package token

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// SetID is the set of the objects behind a ClusterRegistrationToken. Changing it orphans them.
const SetID = "cluster-group-token"

// Stage says how far a ClusterRegistrationToken is.
type Stage string

const (
	// Ended means that the token's time is over, or that it has no end where one is required.
	Ended Stage = "Ended"
	// AwaitingRights means that the account and its rights are written but not yet seen.
	AwaitingRights Stage = "AwaitingRights"
	// Blocked means that a Secret of somebody else has the token's name; it is left alone.
	Blocked Stage = "Blocked"
	// Unusable means that no agent could register with a token of this name; nothing is made for it.
	Unusable Stage = "Unusable"
	// Minting means that everything is there but the account's bearer token, asked for now.
	Minting Stage = "Minting"
	// Ready means that the values Secret holds a token that works.
	Ready Stage = "Ready"
)

// Input is what was found about a ClusterRegistrationToken. A nil object was not found.
type Input struct {
	Now   time.Time
	Token *fleet.ClusterRegistrationToken
	// Account is the import account, seen in the cache together with RightsExist: its Role and RoleBinding.
	Account     *corev1.ServiceAccount
	RightsExist bool
	// Secret is the Secret of the token's own name, of whatever type.
	Secret *corev1.Secret
	// Taken is not empty if Secret does not carry the mark of this token. It says what to do then.
	Taken string
	// Rejected says that the API server no longer accepts the bearer token in Secret.
	Rejected bool
	// TTLRequired ends tokens without a time to live.
	TTLRequired bool
	// APIServerURL and APIServerCA are the hub's address as configured now.
	APIServerURL string
	APIServerCA  []byte
	Namespaces   clusters.Namespaces
}

// Outcome is what a ClusterRegistrationToken is owed now.
type Outcome struct {
	Stage Stage
	// Reason and Message say what is wrong with the token or its Secret, whatever is done about it; empty if nothing is.
	Reason, Message string
	// Delete ends the token itself; everything of it goes with it.
	Delete bool
	// Children is the whole set, but for a values Secret that waits for Mint.
	Children []runtime.Object
	// Mint, if set, asks for the bearer token with which Values becomes the missing child, by ValuesSecret.
	Mint   *protocol.Mint
	Values protocol.Values
	Status fleet.ClusterRegistrationTokenStatus
	// Recheck is when to look again; zero means when something changes.
	Recheck time.Time
}

// Decide decides what a ClusterRegistrationToken is owed now.
func Decide(in Input) Outcome {
	token := in.Token
	expires := tokenExpiry(token)
	if ended(in, expires) {
		reason, message := whyEnded(token)
		return Outcome{Stage: Ended, Reason: reason, Message: message, Delete: true, Status: token.Status}
	}
	out := Outcome{Status: *token.Status.DeepCopy()}
	out.Status.SecretName, out.Status.Expires = "", expires
	if limited(token) {
		out.Recheck = expires.Time
	}
	if !objects.IsLabelValue(token.Name) {
		out.Stage, out.Reason = Unusable, fleet.ReasonTokenNameTooLong
		out.Message = "agents repeat the token's name in a label, which takes 63 characters: delete this token and create one with a shorter name"
		return out
	}
	out.Children, out.Values = importRights(token), desiredValues(in)
	hold(in, &out)
	return out
}

// hold decides about the values Secret.
func hold(in Input, out *Outcome) {
	token := in.Token
	if in.Secret != nil && in.Secret.Type == protocol.SecretTypeValues && isMalformed(in.Secret) {
		out.Reason = fleet.ReasonValuesInvalid
		out.Message = "the Secret with the token's values cannot be read and is written anew; if this condition stays, delete the Secret: it is immutable, or something holds it"
	}
	if in.Rejected {
		out.Reason = fleet.ReasonTokenRejected
		out.Message = "the hub's API server no longer accepts the bearer token in the values Secret, as after a change of its signing key: another one is being written; install agents that are still to register with the new values"
	}
	switch held := HeldToken(in); {
	case in.Secret != nil && in.Secret.Type != protocol.SecretTypeValues:
		out.Stage, out.Reason = Blocked, fleet.ReasonSecretNameTaken
		out.Message = "a Secret of this name and another type exists and is left alone: delete the Secret, or use another name for the token"
	case in.Taken != "":
		out.Stage, out.Reason, out.Message = Blocked, fleet.ReasonNameTaken, in.Taken
	case held != "":
		// The Secret is kept even while the account's rights are being healed: agents hold its token.
		out.Stage, out.Values.Token, out.Status.SecretName = Ready, held, token.Name
		secret, err := ValuesSecret(token, out.Values)
		if err != nil { // control characters in the hub's address: what is there is better than nothing
			secret = in.Secret
		}
		out.Children = append(out.Children, secret)
	case in.Account == nil || !in.RightsExist:
		out.Stage = AwaitingRights
	default:
		out.Stage = Minting
		out.Mint = &protocol.Mint{Namespace: token.Namespace, Account: in.Account.Name, Lifetime: importLifetime(out.Status.Expires, in.Now)}
		out.Status.SecretName = token.Name
	}
}

// tokenExpiry is nil for a token that never ends. A TTL of zero has an expiry to show, but none to act on.
func tokenExpiry(token *fleet.ClusterRegistrationToken) *metav1.Time {
	if token.Spec.TTL == nil {
		return nil
	}
	return &metav1.Time{Time: token.CreationTimestamp.Add(token.Spec.TTL.Duration)}
}

func ended(in Input, expires *metav1.Time) bool {
	if !limited(in.Token) {
		return in.TTLRequired
	}
	return in.Now.After(expires.Time)
}

func whyEnded(token *fleet.ClusterRegistrationToken) (reason, message string) {
	if limited(token) {
		return fleet.ReasonTokenExpired, "the token's time to live is over and it is deleted: create another for clusters that are still to register"
	}
	return fleet.ReasonTTLMissing, "the operator of this hub wants tokens to end, and this one is deleted: create one with spec.ttl"
}

// isMalformed says whether a values Secret has lost what it is for.
func isMalformed(secret *corev1.Secret) bool {
	_, err := protocol.ParseValues(secret.Data[protocol.ValuesKey])
	return err != nil
}

func limited(token *fleet.ClusterRegistrationToken) bool {
	return token.Spec.TTL != nil && token.Spec.TTL.Duration > 0
}

// importLifetime lets the bearer token end with the ClusterRegistrationToken, within what the API
// takes: the account's deletion ends it in time anyway. The API counts whole seconds: a part of one is
// rounded up, or the bearer token would end a moment too early and be replaced in it.
func importLifetime(expires *metav1.Time, now time.Time) time.Duration {
	if expires == nil || !expires.After(now) {
		return protocol.TokenLifetime
	}
	left := (expires.Sub(now) + time.Second - 1).Truncate(time.Second)
	return min(max(left, protocol.MinTokenLifetime), protocol.TokenLifetime)
}

// HeldToken is the bearer token in the token's own Secret, if it works for the account there is now.
func HeldToken(in Input) string {
	if in.Rejected || in.Secret == nil || in.Secret.Type != protocol.SecretTypeValues || in.Account == nil {
		return ""
	}
	values, err := protocol.ParseValues(in.Secret.Data[protocol.ValuesKey])
	if err != nil || !protocol.Works(values.Token, string(in.Account.UID), in.Now) {
		return ""
	}
	return values.Token
}

func desiredValues(in Input) protocol.Values {
	return protocol.Values{
		ClusterNamespace:            in.Token.Namespace,
		APIServerURL:                in.APIServerURL,
		APIServerCA:                 string(in.APIServerCA),
		SystemRegistrationNamespace: in.Namespaces.Registration,
		TokenName:                   in.Token.Name,
		SystemNamespace:             in.Namespaces.System,
	}
}

// ValuesSecret is the Secret named like the token, with values that `helm install fleet-agent` takes.
func ValuesSecret(token *fleet.ClusterRegistrationToken, values protocol.Values) (*corev1.Secret, error) {
	document, err := values.Encode()
	if err != nil {
		return nil, fmt.Errorf("token %s/%s: %w", token.Namespace, token.Name, err)
	}
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: objects.Managed(token.Namespace, token.Name),
		Type:       protocol.SecretTypeValues,
		Data:       map[string][]byte{protocol.ValuesKey: document},
	}, nil
}

// importRights are the import account and its one right: to ask.
func importRights(token *fleet.ClusterRegistrationToken) []runtime.Object {
	account := names.ImportAccount(token.Name, string(token.UID))
	role := names.SafeConcat(account, "role")
	return []runtime.Object{
		&corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: objects.Managed(token.Namespace, account),
		},
		objects.RoleOf(objects.Managed(token.Namespace, role), rbacv1.PolicyRule{
			APIGroups: []string{fleet.SchemeGroupVersion.Group}, Resources: []string{"clusterregistrations"}, Verbs: []string{"create"},
		}),
		objects.BindingOf(objects.Managed(token.Namespace, names.SafeConcat(account, "to", "role")), "Role", role, objects.Subject(token.Namespace, account)),
	}
}
