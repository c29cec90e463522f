package deploy

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// namespaces prepares the namespaces of releases.
type namespaces struct {
	agent    *identity
	accounts *accounts
}

func newNamespaces(agent *identity, known *accounts) *namespaces {
	return &namespaces{agent: agent, accounts: known}
}

// check enforces allowedTargetNamespaceSelector.
func (n *namespaces) check(ctx context.Context, bd *fleet.BundleDeployment) error {
	selector := bd.Spec.Options.AllowedTargetNamespaceSelector
	if selector == nil {
		return nil
	}
	name := namespaceFor(&bd.Spec.Options)
	namespace, err := n.agent.clientset.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		namespace, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return checkTargetNamespace(name, namespace, selector)
}

// ensure creates a namespace if it does not exist. The agent reads it; the identity that deploys creates it.
func (n *namespaces) ensure(ctx context.Context, who *identity, name string) error {
	_, err := n.agent.clientset.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err = who.clientset.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{FieldManager: fieldManager})
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("preparing namespace %s: %w", name, err)
	}
	return nil
}

// namespaceMarks holds the labels and annotations that a deployment sets on its namespace.
type namespaceMarks struct{ labels, annotations map[string]string }

// marksOf returns the labels and annotations that a deployment with the options sets.
func marksOf(options *fleet.BundleDeploymentOptions) namespaceMarks {
	return namespaceMarks{labels: options.NamespaceLabels, annotations: options.NamespaceAnnotations}
}

func (m namespaceMarks) same(other namespaceMarks) bool {
	return maps.Equal(m.labels, other.labels) && maps.Equal(m.annotations, other.annotations)
}

func (m namespaceMarks) none() bool { return m.same(namespaceMarks{}) }

// mark sets the labels and annotations of the options on the release's namespace, and removes those that
// it set before. The agent reads the namespace; the identity that deploys changes it.
func (n *namespaces) mark(ctx context.Context, bd *fleet.BundleDeployment, given namespaceMarks, name, release string) error {
	options := &bd.Spec.Options
	_, revision, _ := parseRelease(release)
	if options.NamespaceLabels == nil && options.NamespaceAnnotations == nil && revision <= 1 && given.none() {
		return nil // and earlier revisions set nothing either
	}
	current, err := n.agent.clientset.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("labelling namespace %s: %w", name, err)
	}
	wanted, changed := wantedNamespace(current, options, namespaceManager(bd.Name))
	if !changed {
		return nil
	}
	who, err := n.accounts.find(ctx, options.ServiceAccount)
	if err != nil {
		return err
	}
	_, err = who.clientset.CoreV1().Namespaces().Update(ctx, wanted, metav1.UpdateOptions{FieldManager: namespaceManager(bd.Name)})
	if err == nil {
		return nil
	}
	err = fmt.Errorf("labelling namespace %s: %w", name, err)
	if apierrors.IsForbidden(err) {
		return &namespaceForbiddenError{cause: err}
	}
	return err
}
