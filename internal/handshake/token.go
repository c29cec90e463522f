package handshake

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// TokenSetID is the set of the objects behind a ClusterRegistrationToken. Changing it orphans them.
const TokenSetID = "cluster-group-token"

// TokenStage says how far a ClusterRegistrationToken is.
type TokenStage string

const (
	// TokenEnded means that the token's time is over, or that it has no end where one is required.
	TokenEnded TokenStage = "Ended"
	// TokenAwaitingRights means that the account and its rights are written but not yet seen.
	TokenAwaitingRights TokenStage = "AwaitingRights"
	// TokenBlocked means that a Secret of somebody else has the token's name; it is left alone.
	TokenBlocked TokenStage = "Blocked"
	// TokenMinting means that everything is there but the account's bearer token, asked for now.
	TokenMinting TokenStage = "Minting"
	// TokenReady means that the values Secret holds a token that works.
	TokenReady TokenStage = "Ready"
)

// TokenInput is what was found about a ClusterRegistrationToken. A nil object was not found.
type TokenInput struct {
	Now   time.Time
	Token *fleet.ClusterRegistrationToken
	// Account is the import account, seen in the cache together with RightsExist: its Role and RoleBinding.
	Account     *corev1.ServiceAccount
	RightsExist bool
	// Secret is the Secret of the token's own name, of whatever type.
	Secret *corev1.Secret
	// TTLRequired ends tokens without a time to live.
	TTLRequired bool
	// APIServerURL and APIServerCA are the hub's address as configured now.
	APIServerURL string
	APIServerCA  []byte
	Namespaces   Namespaces
}

// TokenOutcome is what a ClusterRegistrationToken is owed now.
type TokenOutcome struct {
	Stage TokenStage
	// Delete ends the token itself; everything of it goes with it.
	Delete bool
	// Children is the whole set, but for a values Secret that waits for Mint.
	Children []runtime.Object
	// Mint, if set, asks for the bearer token with which Values becomes the missing child, by ValuesSecret.
	Mint   *Mint
	Values Values
	Status fleet.ClusterRegistrationTokenStatus
	// Recheck is when to look again; zero means when something changes.
	Recheck time.Time
}

// Token decides what a ClusterRegistrationToken is owed now.
func Token(in TokenInput) TokenOutcome {
	token := in.Token
	expires := tokenExpiry(token)
	if ended(in, expires) {
		return TokenOutcome{Stage: TokenEnded, Delete: true, Status: token.Status}
	}
	out := TokenOutcome{Children: importRights(token), Values: desiredValues(in), Status: *token.Status.DeepCopy()}
	out.Status.SecretName, out.Status.Expires = "", expires
	if limited(token) {
		out.Recheck = expires.Time
	}
	switch held := heldToken(in); {
	case in.Secret != nil && in.Secret.Type != SecretTypeValues:
		out.Stage = TokenBlocked
	case held != "":
		// The Secret is kept even while the account's rights are being healed: agents hold its token.
		out.Stage, out.Values.Token, out.Status.SecretName = TokenReady, held, token.Name
	case in.Account == nil || !in.RightsExist:
		out.Stage = TokenAwaitingRights
	default:
		out.Stage = TokenMinting
		out.Mint = &Mint{Namespace: token.Namespace, Account: in.Account.Name, Lifetime: importLifetime(expires, in.Now)}
		out.Status.SecretName = token.Name
	}
	if out.Stage == TokenReady {
		secret, err := ValuesSecret(token, out.Values)
		if err != nil { // control characters in the hub's address: what is there is better than nothing
			secret = in.Secret
		}
		out.Children = append(out.Children, secret)
	}
	return out
}

// tokenExpiry is nil for a token that never ends. A TTL of zero has an expiry to show, but none to act on.
func tokenExpiry(token *fleet.ClusterRegistrationToken) *metav1.Time {
	if token.Spec.TTL == nil {
		return nil
	}
	return &metav1.Time{Time: token.CreationTimestamp.Add(token.Spec.TTL.Duration)}
}

func ended(in TokenInput, expires *metav1.Time) bool {
	if !limited(in.Token) {
		return in.TTLRequired
	}
	return in.Now.After(expires.Time)
}

func limited(token *fleet.ClusterRegistrationToken) bool {
	return token.Spec.TTL != nil && token.Spec.TTL.Duration > 0
}

// importLifetime lets the bearer token end with the ClusterRegistrationToken, within what the API
// takes: the account's deletion ends it in time anyway. The API counts whole seconds: a part of one is
// rounded up, or the bearer token would end a moment too early and be replaced in it.
func importLifetime(expires *metav1.Time, now time.Time) time.Duration {
	if expires == nil || !expires.After(now) {
		return TokenLifetime
	}
	left := (expires.Sub(now) + time.Second - 1).Truncate(time.Second)
	return min(max(left, MinTokenLifetime), TokenLifetime)
}

// heldToken is the bearer token in the token's own Secret, if it works for the account there is now.
func heldToken(in TokenInput) string {
	if in.Secret == nil || in.Secret.Type != SecretTypeValues || in.Account == nil {
		return ""
	}
	values, err := ParseValues(in.Secret.Data[ValuesKey])
	if err != nil || !works(values.Token, string(in.Account.UID), in.Now) {
		return ""
	}
	return values.Token
}

func desiredValues(in TokenInput) Values {
	return Values{
		ClusterNamespace:            in.Token.Namespace,
		APIServerURL:                in.APIServerURL,
		APIServerCA:                 string(in.APIServerCA),
		SystemRegistrationNamespace: in.Namespaces.Registration,
		TokenName:                   in.Token.Name,
		SystemNamespace:             in.Namespaces.System,
	}
}

// ValuesSecret is the Secret named like the token, with values that `helm install fleet-agent` takes.
func ValuesSecret(token *fleet.ClusterRegistrationToken, values Values) (*corev1.Secret, error) {
	document, err := values.Encode()
	if err != nil {
		return nil, fmt.Errorf("token %s/%s: %w", token.Namespace, token.Name, err)
	}
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: managed(token.Namespace, token.Name),
		Type:       SecretTypeValues,
		Data:       map[string][]byte{ValuesKey: document},
	}, nil
}

// importRights are the import account and its one right: to ask.
func importRights(token *fleet.ClusterRegistrationToken) []runtime.Object {
	account := names.ImportAccount(token.Name, string(token.UID))
	role := names.SafeConcat(account, "role")
	return []runtime.Object{
		&corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: managed(token.Namespace, account),
		},
		roleOf(managed(token.Namespace, role), rbacv1.PolicyRule{
			APIGroups: []string{fleet.SchemeGroupVersion.Group}, Resources: []string{"clusterregistrations"}, Verbs: []string{"create"},
		}),
		bindingOf(managed(token.Namespace, names.SafeConcat(account, "to", "role")), "Role", role, subject(token.Namespace, account)),
	}
}
