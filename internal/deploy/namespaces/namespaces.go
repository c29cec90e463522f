package namespaces

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// marksPause is the pause before a namespace is labelled again: another controller may remove the labels each time.
const marksPause = time.Minute

// Namespaces prepares the namespaces of releases.
type Namespaces struct {
	agent    *access.Identity
	accounts *access.Accounts
	clock    func() time.Time
	all      func() []*fleet.BundleDeployment
	again    func(name string, after time.Duration)
}

// New returns Namespaces. all returns the BundleDeployments of the agent, again enqueues one after a pause.
func New(agent *access.Identity, known *access.Accounts, clock func() time.Time, all func() []*fleet.BundleDeployment, again func(string, time.Duration)) *Namespaces {
	return &Namespaces{agent: agent, accounts: known, clock: clock, all: all, again: again}
}

// Check enforces allowedTargetNamespaceSelector.
func (n *Namespaces) Check(ctx context.Context, bd *fleet.BundleDeployment) error {
	selector := bd.Spec.Options.AllowedTargetNamespaceSelector
	if selector == nil {
		return nil
	}
	name := placement.NamespaceOf(&bd.Spec.Options)
	namespace, err := n.agent.Clientset.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		namespace, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return checkTargetNamespace(name, namespace, selector)
}

// Ensure creates a namespace if it does not exist. The agent reads it; the identity that deploys creates it.
func (n *Namespaces) Ensure(ctx context.Context, identity *access.Identity, name string) error {
	_, err := n.agent.Clientset.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err = identity.Clientset.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{FieldManager: access.FieldManager})
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("preparing namespace %s: %w", name, err)
	}
	return nil
}

// Marks holds the labels and annotations that a deployment sets on its namespace.
type Marks struct {
	labels, annotations map[string]string
	set                 time.Time
}

// MarksOf returns the labels and annotations that a deployment with the options sets now.
func MarksOf(options *fleet.BundleDeploymentOptions, now time.Time) Marks {
	return Marks{labels: options.NamespaceLabels, annotations: options.NamespaceAnnotations, set: now}
}

func (m Marks) Same(other Marks) bool {
	return maps.Equal(m.labels, other.labels) && maps.Equal(m.annotations, other.annotations)
}

func (m Marks) none() bool { return m.Same(Marks{}) }

// Keep sets labels and annotations again that another writer may have changed, at most once in marksPause. If several
// BundleDeployments give one of them different values, only the one with the first name does so.
func (n *Namespaces) Keep(ctx context.Context, bd *fleet.BundleDeployment, given *Marks, name, release string) error {
	if given.none() {
		return nil
	}
	now := n.clock()
	if wait := marksPause - now.Sub(given.set); wait > 0 {
		n.again(bd.Name, wait)
		return nil
	}
	err := n.mark(ctx, bd, *given, name, release, n.all())
	if apierrors.IsNotFound(err) {
		return nil // the objects of the release are missing, too
	}
	if err == nil {
		given.set = now
	}
	return err
}

// Mark sets the labels and annotations of the options on the release's namespace, and removes those that
// it set before. The agent reads the namespace; the identity that deploys changes it.
func (n *Namespaces) Mark(ctx context.Context, bd *fleet.BundleDeployment, given Marks, name, release string) error {
	return n.mark(ctx, bd, given, name, release, nil)
}

func (n *Namespaces) mark(ctx context.Context, bd *fleet.BundleDeployment, given Marks, name, release string, others []*fleet.BundleDeployment) error {
	options := &bd.Spec.Options
	_, revision, _ := placement.ParseRelease(release)
	if options.NamespaceLabels == nil && options.NamespaceAnnotations == nil && revision <= 1 && given.none() {
		return nil // and earlier revisions set nothing either
	}
	current, err := n.agent.Clientset.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("labelling namespace %s: %w", name, err)
	}
	options = undisputed(bd, others, current)
	wanted, changed := wantedNamespace(current, options, namespaceManager(bd.Name))
	if !changed {
		return n.takeOver(ctx, bd, current, options)
	}
	identity, err := n.accounts.Find(ctx, bd)
	if err != nil {
		return err
	}
	_, err = identity.Clientset.CoreV1().Namespaces().Update(ctx, wanted, metav1.UpdateOptions{FieldManager: namespaceManager(bd.Name)})
	if err == nil {
		n.wakeFirst(bd)
		return nil
	}
	err = fmt.Errorf("labelling namespace %s: %w", name, err)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return &outcome.LabelsRefusedError{Cause: err}
	}
	return err
}

// takeOver makes a BundleDeployment an owner of values that Rancher Fleet's agent has set for it, so that they are removed when they
// are no longer wanted. It changes no value. Values stay without this owner if the account may not patch the namespace, or if the
// namespace is an object of a bundle: that has set them, possibly.
func (n *Namespaces) takeOver(ctx context.Context, bd *fleet.BundleDeployment, current *corev1.Namespace, options *fleet.BundleDeploymentOptions) error {
	manager := namespaceManager(bd.Name)
	labels, some := inherited(current, "f:labels", options.NamespaceLabels, current.Labels, manager)
	annotations, more := inherited(current, "f:annotations", options.NamespaceAnnotations, current.Annotations, manager)
	if !some && !more || current.Labels[fleet.LabelSetHash] != "" {
		return nil
	}
	identity, err := n.accounts.Find(ctx, bd)
	if err != nil {
		return err
	}
	owned := applycorev1.Namespace(current.Name).WithUID(current.UID).WithLabels(labels).WithAnnotations(annotations)
	_, err = identity.Clientset.CoreV1().Namespaces().Apply(ctx, owned, metav1.ApplyOptions{FieldManager: manager})
	if err != nil && !isRefused(err) {
		return fmt.Errorf("labelling namespace %s: %w", current.Name, err)
	}
	return nil
}

// isRefused reports whether rights, a policy or a webhook refuse a request.
func isRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// wakeFirst enqueues the BundleDeployments whose values a BundleDeployment has replaced, although they decide.
func (n *Namespaces) wakeFirst(bd *fleet.BundleDeployment) {
	for _, other := range n.all() {
		if comesFirst(other, bd) && disputed(&other.Spec.Options, &bd.Spec.Options) {
			n.again(other.Name, marksPause)
		}
	}
}
