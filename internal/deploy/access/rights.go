package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// The agent stores releases itself, so a service account needs no right to read or write Secrets. This must not
// give the account more rights than it has: a release in a namespace that it may not use, or the overwriting of a
// release that belongs to another owner.

// MayUse returns an error if an account cannot create any object in the namespace. The agent's own identity may
// use every namespace.
func (a *Accounts) MayUse(ctx context.Context, identity *Identity, namespace string) error {
	if identity == a.agent {
		return nil
	}
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	review, err := identity.Clientset.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("reviewing the rights of service account %s in namespace %s: %w", identity.Account, namespace, err)
	}
	if createsSomething(review.Status.ResourceRules, identity.isNamespaced) {
		return nil
	}
	if review.Status.Incomplete { // the authorizer cannot list its rules: send a single access review
		allowed, err := allows(ctx, identity, namespace, "create", "configmaps")
		if err != nil || allowed {
			return err
		}
	}
	return outcome.Because(conditions.ReasonForbidden, fmt.Errorf("service account %s may create nothing in namespace %s, where its release would be", identity.Account, namespace))
}

// allows sends an access review and reports whether an account may use a verb on a core resource.
func allows(ctx context.Context, identity *Identity, namespace, verb, resource string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Resource: resource},
	}}
	review, err := identity.Clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("checking whether service account %s may %s %s in namespace %s: %w", identity.Account, verb, resource, namespace, err)
	}
	return review.Status.Allowed, nil
}

// createsSomething reports whether rules of one namespace allow to create any namespaced object. Access reviews do
// not count, because every account may create them. Rules with resource names do not count either, because the API
// server does not apply them to create requests.
func createsSomething(rules []authorizationv1.ResourceRule, namespaced func(schema.GroupResource) bool) bool {
	for _, rule := range rules {
		creates := slices.Contains(rule.Verbs, "create") || slices.Contains(rule.Verbs, "*")
		if creates && len(rule.ResourceNames) == 0 && coversObjects(rule, namespaced) {
			return true
		}
	}
	return false
}

func coversObjects(rule authorizationv1.ResourceRule, namespaced func(schema.GroupResource) bool) bool {
	for _, group := range rule.APIGroups {
		if group == "authorization.k8s.io" || group == "authentication.k8s.io" {
			continue
		}
		if slices.ContainsFunc(rule.Resources, func(resource string) bool {
			return group == "*" || resource == "*" ||
				!strings.Contains(resource, "/") && namespaced(schema.GroupResource{Group: group, Resource: resource})
		}) {
			return true
		}
	}
	return false
}

// Claim describes a bundle that wants to use the name of an existing release.
type Claim struct {
	Bundle string
	// IsAgent is true for the bundle that deploys the agent itself.
	IsAgent bool
	Release placement.Release
	// Owner is the bundle that the release belongs to, OwnerAgent the namespace of the agent that made it. Both are
	// empty if no agent made it.
	Owner, OwnerAgent string
}

// MayTake returns an error if a release name belongs to another owner: to another bundle, or to another agent that
// still exists. Releases without such an owner may be taken by the agent itself, and by accounts that could write
// the release Secret without the agent.
func (a *Accounts) MayTake(ctx context.Context, identity *Identity, c Claim) error {
	own := c.Owner == c.Bundle
	if own && (c.OwnerAgent == a.namespace || c.IsAgent) {
		return nil
	}
	alive, err := a.anotherAgent(ctx, c.Owner, c.OwnerAgent)
	switch {
	case err != nil:
		return err
	case alive:
		return outcome.Because(conditions.ReasonReleaseTaken, fmt.Errorf("release %s belongs to bundle %s of the agent in namespace %s", c.Release, c.Owner, c.OwnerAgent))
	case own: // the other agent no longer exists: this agent replaces it
		return nil
	case c.Owner != "" && c.OwnerAgent == a.namespace:
		return outcome.Because(conditions.ReasonReleaseTaken, fmt.Errorf("release %s belongs to bundle %s", c.Release, c.Owner))
	case identity == a.agent:
		return nil
	}
	return mayTakeOver(ctx, identity, c.Release)
}

// mayTakeOver returns an error if the account could not write the release Secret without the agent. It is used for
// releases without an owner.
func mayTakeOver(ctx context.Context, identity *Identity, key placement.Release) error {
	allowed, err := allows(ctx, identity, key.Namespace, "update", "secrets")
	if err != nil || allowed {
		return err
	}
	return outcome.Because(conditions.ReasonReleaseTaken, fmt.Errorf("release %s exists and belongs to no bundle: to take it over, service account %s needs the right to update secrets in namespace %s",
		key, identity.Account, key.Namespace))
}

// anotherAgent reports whether the release was made by an agent in another namespace that still exists.
func (a *Accounts) anotherAgent(ctx context.Context, bundle, namespace string) (bool, error) {
	if bundle == "" || namespace == a.namespace {
		return false, nil
	}
	_, err := a.agent.Clientset.AppsV1().Deployments(namespace).Get(ctx, names.Agent, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the Deployment of another agent in namespace %s: %w", namespace, err)
	}
	return true, nil
}
