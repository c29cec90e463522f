package accounts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube/foreign"
)

// ErrTokenPending means that the API server limits the lifetime of tokens, and that the token Secret that was
// created instead is not filled yet. Retry shortly.
var ErrTokenPending = errors.New("the account's token secret is not filled yet")

// ErrTokenSecretTaken means that a Secret of another owner has the name of the account's token Secret. Only a
// human can fix it.
var ErrTokenSecretTaken = errors.New("the name of the account's token secret is taken by a secret of another type")

// ErrNotInForce means that the API server does not grant the rights of a new token yet.
var ErrNotInForce = errors.New("the API server does not apply the account's RBAC rights yet")

// Mint returns a bearer token of a ServiceAccount with at least this lifetime. It requests the token from the
// TokenRequest API. If the API server grants less or nothing, it uses a token Secret of the account, which does
// not expire. Both are revoked when the account is deleted. The token is never empty.
func Mint(ctx context.Context, client kubernetes.Interface, namespace, account string, lifetime time.Duration) (string, error) {
	answer, err := requestToken(ctx, client, namespace, account, lifetime)
	if err != nil {
		return "", err
	}
	seconds := int64(lifetime / time.Second)
	if given := answer.Spec.ExpirationSeconds; answer.Status.Token != "" && (given == nil || *given >= seconds) {
		return answer.Status.Token, nil
	}
	return lastingToken(ctx, client, namespace, account)
}

// MintRenewed returns a bearer token of a ServiceAccount with this lifetime, or a shorter one if the API server limits it.
// The account renews it.
func MintRenewed(ctx context.Context, client kubernetes.Interface, namespace, account string, lifetime time.Duration) (string, error) {
	answer, err := requestToken(ctx, client, namespace, account, lifetime)
	if err != nil {
		return "", err
	}
	if answer.Status.Token == "" {
		return "", fmt.Errorf("requesting a token of account %s/%s: the answer contains none", namespace, account)
	}
	return answer.Status.Token, nil
}

func requestToken(ctx context.Context, client kubernetes.Interface, namespace, account string, lifetime time.Duration) (*authenticationv1.TokenRequest, error) {
	seconds := int64(lifetime / time.Second)
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("requesting a token of account %s/%s: %w", namespace, account, err)
	}
	return answer, nil
}

// lastingToken returns the token in the account's token Secret, which the controller-manager fills.
func lastingToken(ctx context.Context, client kubernetes.Interface, namespace, account string) (string, error) {
	owner, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, account, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading account %s/%s: %w", namespace, account, err)
	}
	secrets := client.CoreV1().Secrets(namespace)
	secret, err := secrets.Get(ctx, account+"-token", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		secret, err = secrets.Create(ctx, TokenSecret(owner, account+"-token"), metav1.CreateOptions{})
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("token secret of account %s/%s: %w", namespace, account, err)
	case secret.Type != corev1.SecretTypeServiceAccountToken:
		return "", fmt.Errorf("secret %s/%s: %w", namespace, secret.Name, ErrTokenSecretTaken)
	case secret.Annotations[corev1.ServiceAccountUIDKey] != string(owner.UID), len(secret.Data[corev1.ServiceAccountTokenKey]) == 0:
		return "", ErrTokenPending
	}
	return string(secret.Data[corev1.ServiceAccountTokenKey]), nil
}

// DropTokenSecret deletes the token Secret that Mint created for an account, so that the next one has another
// token.
func DropTokenSecret(ctx context.Context, client kubernetes.Interface, namespace, account string) error {
	secrets := client.CoreV1().Secrets(namespace)
	secret, err := secrets.Get(ctx, account+"-token", metav1.GetOptions{})
	if err == nil && secret.Type == corev1.SecretTypeServiceAccountToken {
		err = secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("replacing the token secret of account %s/%s: %w", namespace, account, err)
	}
	return nil
}

// TokenSecret returns a Secret that the controller-manager fills with a lasting token of an account. It is deleted with the
// account.
func TokenSecret(account *corev1.ServiceAccount, name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: account.Namespace, Name: name,
			Annotations:     map[string]string{corev1.ServiceAccountNameKey: account.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: account.Name, UID: account.UID}},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
}

// Prover asks the API server, with a token, what that token may do. It uses one connection for all tokens.
type Prover struct {
	client *http.Client
	server string
}

// NewProver returns a Prover for the API server of cfg. It uses only the address and the trusted CA of cfg.
func NewProver(cfg *rest.Config) (*Prover, error) {
	anonymous := rest.AnonymousClientConfig(cfg)
	anonymous.Timeout = 15 * time.Second
	client, err := rest.HTTPClientFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	server, _, err := rest.DefaultServerUrlFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	return &Prover{client: client, server: strings.TrimSuffix(server.String(), "/")}, nil
}

// List returns nil when the token may list a resource in a namespace, and ErrNotInForce until then. path is the
// path of the resource, such as "apis/fleet.cattle.io/v1alpha1/namespaces/ns/bundledeployments".
func (p *Prover) List(ctx context.Context, token, path string) error {
	// Version 0 lets the API server answer from its watch cache. The content of the list does not matter.
	query := url.Values{"limit": {"1"}, "resourceVersion": {"0"}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.server+"/"+path+"?"+query, nil)
	if err != nil {
		return fmt.Errorf("requesting %s: %w", path, err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := p.client.Do(request)
	if err != nil {
		return fmt.Errorf("requesting %s: %w", path, foreign.Classify(err))
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return ErrNotInForce
	}
	return fmt.Errorf("requesting %s: the API server returned %s", path, answer.Status)
}
