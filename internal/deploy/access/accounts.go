package access

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// defaultAccount is the service account that deploys if the options name none and this account exists. It does not deploy the
// agent itself, which needs all rights.
const defaultAccount = "fleet-default"

// Accounts caches the identities that deploy.
type Accounts struct {
	agent     *Identity
	namespace string
	ownBundle string

	mu    sync.Mutex
	known map[string]*Identity
}

// NewAccounts returns the accounts in a namespace. ownBundle is the BundleDeployment that deploys the agent itself.
func NewAccounts(agent *Identity, namespace, ownBundle string) *Accounts {
	return &Accounts{agent: agent, namespace: namespace, ownBundle: ownBundle, known: map[string]*Identity{}}
}

// Find returns the identity that deploys a BundleDeployment: its service account, which has to be in the agent's namespace, or
// else the default account if that exists, or else the agent itself.
func (a *Accounts) Find(ctx context.Context, bd *fleet.BundleDeployment) (*Identity, error) {
	return a.find(ctx, bd.Name, bd.Spec.Options.ServiceAccount)
}

func (a *Accounts) find(ctx context.Context, name, requested string) (*Identity, error) {
	account := requested
	switch {
	case requested == "" && name == a.ownBundle:
		return a.agent, nil
	case requested == "":
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

// ForRemoval is like Find, for the uninstallation of what name has deployed with the service account requested. If the account
// does not exist, it returns the agent itself, and the hooks must not run: they would get the agent's rights.
func (a *Accounts) ForRemoval(ctx context.Context, name, requested string) (identity *Identity, hooks bool, err error) {
	identity, err = a.find(ctx, name, requested)
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
