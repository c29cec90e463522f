package targeting

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/rules/templating"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ErrNameTooLong means that a name does not fit into a label value. BundleDeployments are found by such labels. Names
// are immutable, so the object has to be created again under another name.
var ErrNameTooLong = errors.New("metadata.name is too long")

// CheckName returns an error if the name of a Bundle or Cluster does not fit into a label value. Errors wrap
// ErrNameTooLong. A Bundle name of more than 53 characters, Helm's limit, is allowed; its release name is shortened.
func CheckName(name string) error {
	if len(name) <= validation.LabelValueMaxLength {
		return nil
	}
	return fmt.Errorf("%w: it has %d characters, but at most %d are allowed because Fleet uses it as a label value; create the object again with a shorter name",
		ErrNameTooLong, len(name), validation.LabelValueMaxLength)
}

// BundleLabels returns the labels that all BundleDeployments of a Bundle share: the Bundle's labels that concern users
// or Fleet, and the labels that identify the Bundle.
func BundleLabels(bundle *fleet.Bundle) map[string]string {
	labels := templating.Visible(bundle.Labels)
	for key, value := range bundle.Labels {
		if strings.HasPrefix(key, "fleet.cattle.io/") {
			labels[key] = value
		}
	}
	labels[fleet.LabelBundleName] = bundle.Name
	labels[fleet.LabelBundleNamespace] = bundle.Namespace
	labels[fleet.LabelManaged] = "true"
	return labels
}
