package deploy

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// defaultAccount is the service account that deploys if the options name none and this account exists.
const defaultAccount = "fleet-default"

// accounts caches the identities that deploy.
type accounts struct {
	agent     *identity
	namespace string

	mu    sync.Mutex
	known map[string]*identity
}

func newAccounts(agent *identity, namespace string) *accounts {
	return &accounts{agent: agent, namespace: namespace, known: map[string]*identity{}}
}

// find returns the identity for a service account, which has to be in the agent's namespace. For "" it returns the
// default account if that exists, and otherwise the agent itself.
func (a *accounts) find(ctx context.Context, requested string) (*identity, error) {
	account := requested
	if account == "" {
		account = defaultAccount
	}
	_, err := a.agent.clientset.CoreV1().ServiceAccounts(a.namespace).Get(ctx, account, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && requested == "":
		return a.agent, nil
	case apierrors.IsNotFound(err):
		err = because(fleet.ReasonServiceAccountMissing, fmt.Errorf("service account %q does not exist in namespace %s: %w", requested, a.namespace, err))
		return nil, until(core("serviceaccounts", a.namespace, requested), err)
	case err != nil:
		return nil, fmt.Errorf("reading service account %s/%s: %w", a.namespace, account, err)
	}
	return a.as(account)
}

// forRemoval is like find, for an uninstallation. If the account does not exist, it returns the agent itself, and
// the hooks must not run: they would get the agent's rights.
func (a *accounts) forRemoval(ctx context.Context, requested string) (who *identity, hooks bool, err error) {
	who, err = a.find(ctx, requested)
	if apierrors.IsNotFound(err) {
		return a.agent, false, nil
	}
	return who, true, err
}

func (a *accounts) as(account string) (*identity, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if who, ok := a.known[account]; ok {
		return who, nil
	}
	who, err := a.agent.as(a.namespace, account)
	if err != nil {
		return nil, err
	}
	a.known[account] = who
	return who, nil
}
