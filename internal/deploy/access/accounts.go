package access

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// defaultAccount is the service account that deploys if the options name none and this account exists.
const defaultAccount = "fleet-default"

// Accounts caches the identities that deploy.
type Accounts struct {
	agent     *Identity
	namespace string

	mu    sync.Mutex
	known map[string]*Identity
}

func NewAccounts(agent *Identity, namespace string) *Accounts {
	return &Accounts{agent: agent, namespace: namespace, known: map[string]*Identity{}}
}

// Find returns the identity for a service account, which has to be in the agent's namespace. For "" it returns the
// default account if that exists, and otherwise the agent itself.
func (a *Accounts) Find(ctx context.Context, requested string) (*Identity, error) {
	account := requested
	if account == "" {
		account = defaultAccount
	}
	_, err := a.agent.Clientset.CoreV1().ServiceAccounts(a.namespace).Get(ctx, account, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && requested == "":
		return a.agent, nil
	case apierrors.IsNotFound(err):
		err = outcome.Because(conditions.ReasonServiceAccountMissing, fmt.Errorf("service account %q does not exist in namespace %s: %w", requested, a.namespace, err))
		return nil, outcome.Until(outcome.CoreObject("serviceaccounts", a.namespace, requested), err)
	case err != nil:
		return nil, fmt.Errorf("reading service account %s/%s: %w", a.namespace, account, err)
	}
	return a.as(account)
}

// ForRemoval is like find, for an uninstallation. If the account does not exist, it returns the agent itself, and
// the hooks must not run: they would get the agent's rights.
func (a *Accounts) ForRemoval(ctx context.Context, requested string) (identity *Identity, hooks bool, err error) {
	identity, err = a.Find(ctx, requested)
	if apierrors.IsNotFound(err) {
		return a.agent, false, nil
	}
	return identity, true, err
}

func (a *Accounts) as(account string) (*Identity, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if identity, ok := a.known[account]; ok {
		return identity, nil
	}
	identity, err := a.agent.as(a.namespace, account)
	if err != nil {
		return nil, err
	}
	a.known[account] = identity
	return identity, nil
}
