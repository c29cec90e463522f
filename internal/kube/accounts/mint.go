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

// ErrTokenPending means that the API server caps the lifetime of the tokens it gives, and that the token
// Secret asked for instead is not filled yet. It will be soon: ask again.
var ErrTokenPending = errors.New("the account's token secret is not filled yet")

// ErrTokenSecretTaken means that a Secret of somebody else has the name of the account's token Secret. Only a
// human can mend it.
var ErrTokenSecretTaken = errors.New("the name of the account's token secret is taken by a secret of another type")

// ErrNotInForce means that the API server does not let a new token do its work yet.
var ErrNotInForce = errors.New("the account's rights are not in force yet")

// Mint gives a bearer token of a ServiceAccount that lives at least as long as asked: from the TokenRequest
// API, or, where the API server gives less or nothing, from a token Secret of the account, which has no end. Either
// dies with the account. It is never empty.
func Mint(ctx context.Context, client kubernetes.Interface, namespace, account string, lifetime time.Duration) (string, error) {
	seconds := int64(lifetime / time.Second)
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token of account %s/%s: %w", namespace, account, err)
	}
	if given := answer.Spec.ExpirationSeconds; answer.Status.Token != "" && (given == nil || *given >= seconds) {
		return answer.Status.Token, nil
	}
	return lastingToken(ctx, client, namespace, account)
}

// lastingToken is the token in the account's token Secret, which the controller-manager fills.
func lastingToken(ctx context.Context, client kubernetes.Interface, namespace, account string) (string, error) {
	owner, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, account, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading account %s/%s: %w", namespace, account, err)
	}
	secrets := client.CoreV1().Secrets(namespace)
	secret, err := secrets.Get(ctx, account+"-token", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		secret, err = secrets.Create(ctx, tokenSecret(owner), metav1.CreateOptions{})
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

// DropTokenSecret deletes the token Secret that Mint has created for an account, so that the next one has another token.
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

func tokenSecret(account *corev1.ServiceAccount) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: account.Namespace, Name: account.Name + "-token",
			Annotations:     map[string]string{corev1.ServiceAccountNameKey: account.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: account.Name, UID: account.UID}},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
}

// Prover asks the API server what a token may do, as the token itself. It keeps one connection for all.
type Prover struct {
	client *http.Client
	server string
}

// NewProver makes a Prover for the API server of cfg; of cfg only the address and the trust are used.
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

// List is nil once the token may list a resource in a namespace; path is the resource's,
// such as "apis/fleet.cattle.io/v1alpha1/namespaces/ns/bundledeployments". Until then it is ErrNotInForce.
func (p *Prover) List(ctx context.Context, token, path string) error {
	// Version 0 is what the API server has at hand: what is in the list is of no interest, so nothing is waited for.
	answer, err := p.get(ctx, token, path, "?"+url.Values{"limit": {"1"}, "resourceVersion": {"0"}}.Encode())
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return ErrNotInForce
	}
	return fmt.Errorf("asking for %s: the API server says %s", path, answer.Status)
}

// Accepts reports whether the API server knows whose the token is, whatever that account may do. An error means that it
// did not say.
func (p *Prover) Accepts(ctx context.Context, token string) (bool, error) {
	const path = "apis"
	answer, err := p.get(ctx, token, path, "")
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK, http.StatusForbidden:
		return true, nil
	case http.StatusUnauthorized:
		return false, nil
	}
	return false, fmt.Errorf("asking for %s: the API server says %s", path, answer.Status)
}

func (p *Prover) get(ctx context.Context, token, path, query string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.server+"/"+path+query, nil)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", path, err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := p.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", path, foreign.Classify(err))
	}
	return answer, nil
}
