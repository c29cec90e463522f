package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/release"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The agent stores releases itself, so that an account needs no right to read or write Secrets. What the account
// could not do by itself it must not get done that way: have a release in a namespace that is not its own, or
// write over one that is somebody else's.

// mayUse refuses a namespace in which an account may create nothing. The agent itself may use them all.
func (d *deployer) mayUse(ctx context.Context, who *identity, namespace string) error {
	if who == d.agent {
		return nil
	}
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	review, err := who.clientset.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("asking what service account %s may do in namespace %s: %w", who.account, namespace, err)
	}
	if createsSomething(review.Status.ResourceRules, who.isNamespaced) {
		return nil
	}
	if review.Status.Incomplete { // an authorizer that cannot list its rules can still be asked
		allowed, err := d.allows(ctx, who, namespace, "create", "configmaps")
		if err != nil || allowed {
			return err
		}
	}
	return because(fleet.ReasonForbidden, fmt.Errorf("service account %s may create nothing in namespace %s, where its release would be", who.account, namespace))
}

// allows asks whether an account may do something with a core resource.
func (d *deployer) allows(ctx context.Context, who *identity, namespace, verb, resource string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Resource: resource},
	}}
	review, err := who.clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking whether service account %s may %s %s in namespace %s: %w", who.account, verb, resource, namespace, err)
	}
	return review.Status.Allowed, nil
}

// createsSomething tells whether rules, as they hold in one namespace, allow to create any object that is in a
// namespace. Every account may ask what it may do, which counts for nothing; neither does a rule for single names,
// which the API server does not apply to what is yet to be created.
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

// mayTake refuses the name of a release that is somebody else's: another bundle's, or another agent's that is still
// there. One that no agent made, or none that is left, may be taken by the agent itself, and by accounts that could
// write it without the agent.
func (d *deployer) mayTake(ctx context.Context, last *release.Release, name string, who *identity, key releaseKey) error {
	if last == nil {
		return nil
	}
	marks := annotationsOf(last)
	owner, agent := marks[fleet.AnnotationBundleID], marks[fleet.AnnotationAgentNamespace]
	if owner == name && (agent == d.AgentNamespace || d.isAgent(name)) {
		return nil
	}
	alive, err := d.anotherAgent(ctx, owner, agent)
	switch {
	case err != nil:
		return err
	case alive:
		return because(fleet.ReasonReleaseTaken, fmt.Errorf("release %s belongs to bundle %s of the agent in namespace %s", key, owner, agent))
	case owner == name: // of an agent that is gone: this one came in its place
		return nil
	case owner != "" && agent == d.AgentNamespace:
		return because(fleet.ReasonReleaseTaken, fmt.Errorf("release %s belongs to bundle %s", key, owner))
	case who == d.agent:
		return nil
	}
	return d.mayTakeOver(ctx, who, key)
}

// mayTakeOver refuses a release that is nobody's to an account that could not write it without the agent.
func (d *deployer) mayTakeOver(ctx context.Context, who *identity, key releaseKey) error {
	allowed, err := d.allows(ctx, who, key.Namespace, "update", "secrets")
	if err != nil || allowed {
		return err
	}
	return because(fleet.ReasonReleaseTaken, fmt.Errorf("release %s exists and is no bundle's: service account %s would have to be allowed to update secrets in namespace %s to take it over",
		key, who.account, key.Namespace))
}

// anotherAgent tells whether the agent in a namespace that made a bundle's release is another one, and there.
func (d *deployer) anotherAgent(ctx context.Context, bundle, namespace string) (bool, error) {
	if bundle == "" || namespace == d.AgentNamespace {
		return false, nil
	}
	_, err := d.agent.clientset.AppsV1().Deployments(namespace).Get(ctx, names.Agent, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for another agent in namespace %s: %w", namespace, err)
	}
	return true, nil
}
