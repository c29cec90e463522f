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
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// SetID identifies the set of objects behind a ClusterRegistrationToken. Changing it orphans them.
const SetID = "cluster-group-token"

// Stage is the state of a ClusterRegistrationToken.
type Stage string

const (
	// Ended means that the token has expired, or that it has no TTL although one is required.
	Ended Stage = "Ended"
	// AwaitingRights means that the account and its RBAC objects are written but not in the cache yet.
	AwaitingRights Stage = "AwaitingRights"
	// Blocked means that a foreign Secret has the token's name. It is not touched.
	Blocked Stage = "Blocked"
	// Unusable means that no agent could register with a token of this name. No objects are created for it.
	Unusable Stage = "Unusable"
	// Minting means that only the account's bearer token is missing. It is requested now.
	Minting Stage = "Minting"
	// Ready means that the values Secret holds a valid token.
	Ready Stage = "Ready"
)

// Input describes a ClusterRegistrationToken and its objects. A nil object was not found.
type Input struct {
	Now   time.Time
	Token *fleet.ClusterRegistrationToken
	// Account is the import account from the cache. RightsExist means that its Role and RoleBinding are in the cache.
	Account     *corev1.ServiceAccount
	RightsExist bool
	// Secret is the Secret with the token's name, of any type.
	Secret *corev1.Secret
	// Taken is set if Secret does not carry the mark of this token. It says how to resolve the conflict.
	Taken string
	// Rejected means that the API server no longer accepts the bearer token in Secret.
	Rejected bool
	// TTLRequired ends tokens without a time to live.
	TTLRequired bool
	// DefaultTTL is the time to live of new tokens without spec.ttl. 0 means that they never expire.
	DefaultTTL time.Duration
	// APIServerURL and APIServerCA are the hub's address as configured now.
	APIServerURL string
	APIServerCA  []byte
	Namespaces   clusters.Namespaces
}

// Outcome is what a ClusterRegistrationToken needs now.
type Outcome struct {
	Stage Stage
	// Reason and Message describe a problem of the token or its Secret, whether or not it can be repaired. They are
	// empty without a problem.
	Reason, Message string
	// Delete deletes the token and everything that belongs to it.
	Delete bool
	// Children is the whole set. The values Secret is missing while Mint is set.
	Children []runtime.Object
	// Mint, if set, requests the bearer token. ValuesSecret then builds the missing child from it and Values.
	Mint   *protocol.Mint
	Values protocol.Values
	Status fleet.ClusterRegistrationTokenStatus
	// Recheck is the time of the next check. Zero means that the next change triggers it.
	Recheck time.Time
}

// Decide returns what a ClusterRegistrationToken needs now.
func Decide(in Input) Outcome {
	token, ttl := in.Token, TimeToLive(in.Token, in.DefaultTTL)
	expires := tokenExpiry(token, ttl)
	if ended(in, ttl, expires) {
		reason, message := whyEnded(in)
		return Outcome{Stage: Ended, Reason: reason, Message: message, Delete: true, Status: token.Status}
	}
	out := Outcome{Status: *token.Status.DeepCopy()}
	out.Status.SecretName, out.Status.Expires, out.Status.DefaultTTL = "", expires, nil
	if token.Spec.TTL == nil {
		out.Status.DefaultTTL = ttl
	}
	if isLimited(ttl) {
		out.Recheck = expires.Time
	}
	if !objects.IsLabelValue(token.Name) {
		out.Stage, out.Reason = Unusable, conditions.ReasonTokenNameTooLong
		out.Message = "the token's name is used as a label value, which may have 63 characters: delete this token and create one with a shorter name"
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
		out.Reason = conditions.ReasonValuesInvalid
		out.Message = "the Secret with the token's values cannot be decoded and is written again; if this condition stays, delete the Secret: it is immutable, or another client overwrites it"
	}
	if in.Rejected {
		out.Reason = conditions.ReasonTokenRejected
		out.Message = "the hub's API server no longer accepts the bearer token in the values Secret, as after a change of its signing key: another one is being written; install agents that are still to register with the new values"
	}
	switch held := keptToken(in, out.Status.Expires); {
	case in.Secret != nil && in.Secret.Type != protocol.SecretTypeValues:
		out.Stage, out.Reason = Blocked, conditions.ReasonSecretNameTaken
		out.Message = "a Secret of this name and another type exists and is not changed: delete the Secret, or use another name for the token"
	case in.Taken != "":
		out.Stage, out.Reason, out.Message = Blocked, conditions.ReasonNameTaken, in.Taken
	case held != "":
		// The Secret is kept even while the account's RBAC objects are repaired: agents use its token.
		out.Stage, out.Values.Token, out.Status.SecretName = Ready, held, token.Name
		secret, err := ValuesSecret(token, out.Values)
		if err != nil { // the hub's address has control characters: keep the existing Secret
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

// TimeToLive returns the time to live of a token: its spec.ttl, or else the default that was recorded in its status when
// a controller first processed it. A token that no controller has processed yet gets the current default. nil and zero
// mean that the token never expires. Tokens that an earlier release has processed have a status without a default, so
// they never expire, whatever the default becomes.
func TimeToLive(token *fleet.ClusterRegistrationToken, byDefault time.Duration) *metav1.Duration {
	switch {
	case token.Spec.TTL != nil:
		return token.Spec.TTL
	case token.Status.DefaultTTL != nil:
		return token.Status.DefaultTTL
	case byDefault > 0 && isUnprocessed(token):
		return &metav1.Duration{Duration: byDefault}
	}
	return nil
}

// Expiry returns when a token expires, or nil if it never does. The default of the hub counts if the status records it.
func Expiry(token *fleet.ClusterRegistrationToken) *time.Time {
	ttl := TimeToLive(token, 0)
	if !isLimited(ttl) {
		return nil
	}
	at := token.CreationTimestamp.Add(ttl.Duration)
	return &at
}

// isUnprocessed reports whether no controller has written the token's status, neither ours nor Rancher Fleet's.
func isUnprocessed(token *fleet.ClusterRegistrationToken) bool {
	return token.Status.SecretName == "" && token.Status.Expires == nil && len(token.Status.Conditions) == 0
}

// tokenExpiry returns nil for a token without a TTL. A TTL of zero has an expiry in the status but never expires.
func tokenExpiry(token *fleet.ClusterRegistrationToken, ttl *metav1.Duration) *metav1.Time {
	if ttl == nil {
		return nil
	}
	return &metav1.Time{Time: token.CreationTimestamp.Add(ttl.Duration)}
}

func ended(in Input, ttl *metav1.Duration, expires *metav1.Time) bool {
	if in.TTLRequired && !isLimited(in.Token.Spec.TTL) {
		return true
	}
	return isLimited(ttl) && in.Now.After(expires.Time)
}

func whyEnded(in Input) (reason, message string) {
	if !in.TTLRequired || isLimited(in.Token.Spec.TTL) {
		return conditions.ReasonTokenExpired, "the token has expired and is deleted: create another one for clusters that still have to register"
	}
	return conditions.ReasonTTLMissing, "this hub requires tokens to have a time to live, and this token is deleted: create one with spec.ttl"
}

// isMalformed reports whether the values in a values Secret cannot be decoded.
func isMalformed(secret *corev1.Secret) bool {
	_, err := protocol.ParseValues(secret.Data[protocol.ValuesKey])
	return err != nil
}

func isLimited(ttl *metav1.Duration) bool { return ttl != nil && ttl.Duration > 0 }

// importLifetime returns the lifetime of the bearer token. It ends with the ClusterRegistrationToken, within the
// limits of the TokenRequest API; the deletion of the account ends it in time anyway. The API counts whole seconds, so
// fractions are rounded up: otherwise the bearer token would expire a moment too early and be replaced.
func importLifetime(expires *metav1.Time, now time.Time) time.Duration {
	if expires == nil || !expires.After(now) {
		return protocol.TokenLifetime
	}
	left := (expires.Sub(now) + time.Second - 1).Truncate(time.Second)
	return min(max(left, protocol.MinTokenLifetime), protocol.TokenLifetime)
}

// HeldToken returns the bearer token in the token's own Secret, if it is valid for the current account.
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

// keptToken returns the bearer token that stays in the values, or "".
func keptToken(in Input, expires *metav1.Time) string {
	held := HeldToken(in)
	if in.RightsExist && endsEarly(in, held, expires) {
		return "" // before, no other could be requested
	}
	return held
}

// earlyBy is how long before its ClusterRegistrationToken a bearer token expires that is replaced. It is longer than any
// difference between the clocks of this process and of the API server, so that the new one is not replaced as well.
const earlyBy = 12 * time.Hour

// endsEarly reports whether the bearer token in the values expires long before its ClusterRegistrationToken, because
// spec.ttl was raised.
func endsEarly(in Input, bearer string, expires *metav1.Time) bool {
	if !isLimited(TimeToLive(in.Token, in.DefaultTTL)) {
		return false
	}
	held, err := protocol.ParseAccountToken(bearer)
	lasting := in.Now.Add(protocol.TokenLifetime) // no token that is requested now lasts longer
	return err == nil && !held.Expires.IsZero() && held.Expires.Add(earlyBy).Before(expires.Time) && held.Expires.Add(earlyBy).Before(lasting)
}

func desiredValues(in Input) protocol.Values {
	return protocol.Values{
		ClusterNamespace:            in.Token.Namespace,
		APIServerURL:                in.APIServerURL,
		APIServerCA:                 usableCA(in),
		SystemRegistrationNamespace: in.Namespaces.Registration,
		TokenName:                   in.Token.Name,
		SystemNamespace:             in.Namespaces.System,
	}
}

// usableCA returns the hub's CA. If the configured one contains no certificate in PEM, the values keep theirs.
func usableCA(in Input) string {
	configured := string(in.APIServerCA)
	if configured == "" || protocol.IsCA(configured) || in.Secret == nil {
		return configured
	}
	if values, err := protocol.ParseValues(in.Secret.Data[protocol.ValuesKey]); err == nil && protocol.IsCA(values.APIServerCA) {
		return values.APIServerCA
	}
	return configured
}

// ValuesSecret returns the Secret with the token's name and the values for `helm install fleet-agent`.
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

// importRights returns the import account and its only permission: to create ClusterRegistrations.
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
