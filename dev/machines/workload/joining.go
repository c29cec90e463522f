package workload

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// Bootstrappers is the group of the machines' bootstrap tokens.
const Bootstrappers = "system:bootstrappers:lab"

// TokenLifetime is how long a token is accepted. It is extended until the machine has joined.
const TokenLifetime = 30 * time.Minute

// Bindings returns the rights that new machines need. The names are constant.
func Bindings() []*rbacv1.ClusterRoleBinding {
	return []*rbacv1.ClusterRoleBinding{
		// to request a certificate
		binding("lab:node-bootstrapper", "system:node-bootstrapper", Bootstrappers),
		// the request is approved without an administrator
		binding("lab:node-approval", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", Bootstrappers),
		// a node renews its own certificate
		binding("lab:node-renewal", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", "system:nodes"),
	}
}

func binding(name, role, group string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}
}

// Token is a bootstrap token of one machine.
type Token struct {
	// ID is public, Secret is not.
	ID, Secret string
}

// NewToken returns the token of the bootstrap configuration with this UID.
func NewToken(ca pki.Authority, uid types.UID) Token {
	sum := hmac.New(sha256.New, ca.Key)
	sum.Write([]byte("bootstrap token of " + uid)) // a hash accepts any write
	digits := hex.EncodeToString(sum.Sum(nil))
	return Token{ID: digits[:6], Secret: digits[6:22]}
}

// Bearer returns the token as clients send it.
func (t Token) Bearer() string { return t.ID + "." + t.Secret }

// Name returns the name of the token's Secret in namespace kube-system.
func (t Token) Name() string { return "bootstrap-token-" + t.ID }

// NewSecret returns the Secret by which the API server accepts the token.
func (t Token) NewSecret(now time.Time) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: t.Name()},
		Type:       corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id":                       []byte(t.ID),
			"token-secret":                   []byte(t.Secret),
			"usage-bootstrap-authentication": []byte("true"),
			"auth-extra-groups":              []byte(Bootstrappers),
			"expiration":                     []byte(now.Add(TokenLifetime).UTC().Format(time.RFC3339)),
		},
	}
}

// IsCurrent reports whether an existing Secret lets the machine join for half of the lifetime or longer.
func (t Token) IsCurrent(secret *corev1.Secret, now time.Time) bool {
	expires, err := time.Parse(time.RFC3339, string(secret.Data["expiration"]))
	if err != nil || expires.Sub(now) < TokenLifetime/2 {
		return false
	}
	wanted := t.NewSecret(now)
	for key, value := range wanted.Data {
		if key != "expiration" && string(secret.Data[key]) != string(value) {
			return false
		}
	}
	return secret.Type == wanted.Type
}
