package deploy

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// podSecurityPrefix begins labels that belong to whoever runs the cluster: never taken from a bundle, never
// removed.
const podSecurityPrefix = "pod-security.kubernetes.io/"

// wantedNamespace returns the release's namespace as the options want it, and whether that is a change. The
// labels and annotations given are all the namespace is to have, except for the name label
// and those of pod security.
func wantedNamespace(current *corev1.Namespace, options *fleet.BundleDeploymentOptions) (*corev1.Namespace, bool) {
	wanted := current.DeepCopy()
	if options.NamespaceLabels != nil {
		wanted.Labels = namespaceLabels(current.Labels, options.NamespaceLabels)
	}
	if options.NamespaceAnnotations != nil {
		wanted.Annotations = map[string]string{}
		for key, value := range options.NamespaceAnnotations {
			wanted.Annotations[key] = value
		}
	}
	changed := !equality.Semantic.DeepEqual(current.Labels, wanted.Labels) ||
		!equality.Semantic.DeepEqual(current.Annotations, wanted.Annotations)
	return wanted, changed
}

func namespaceLabels(current, given map[string]string) map[string]string {
	wanted := map[string]string{}
	for key, value := range given {
		if !strings.HasPrefix(key, podSecurityPrefix) {
			wanted[key] = value
		}
	}
	for key, value := range current {
		if key == corev1.LabelMetadataName || strings.HasPrefix(key, podSecurityPrefix) {
			wanted[key] = value
		}
	}
	return wanted
}

// checkTargetNamespace enforces the selector that restricts where a bundle may go. A nil
// namespace was not found. It returns what goes into the status, "" if the namespace is allowed.
func checkTargetNamespace(name string, namespace *corev1.Namespace, selector *metav1.LabelSelector) (string, error) {
	if selector == nil {
		return "", nil
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "", fmt.Errorf("reading allowedTargetNamespaceSelector: %w", err)
	}
	switch {
	case namespace == nil:
		return fmt.Sprintf("target namespace %s does not exist on downstream cluster", name), nil
	case !compiled.Matches(labels.Set(namespace.Labels)):
		return fmt.Sprintf("target namespace %s does not match AllowedTargetNamespaceSelector (%s)", name, compiled), nil
	}
	return "", nil
}
