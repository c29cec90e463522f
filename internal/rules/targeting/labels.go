package targeting

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/rules/templating"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ErrNameTooLong means that a name cannot be the value of a label, by which BundleDeployments are found. Names cannot be
// changed: only another object of another name helps.
var ErrNameTooLong = errors.New("metadata.name is too long")

// CheckName says whether a Bundle or Cluster has a name that fits into a label; errors wrap ErrNameTooLong. The release
// of a Bundle with a name that is too long for Helm, of more than 53 characters, has a shortened one.
func CheckName(name string) error {
	if len(name) <= validation.LabelValueMaxLength {
		return nil
	}
	return fmt.Errorf("%w: BundleDeployments are found by it as the value of a label, which has %d characters at most, and not %d",
		ErrNameTooLong, validation.LabelValueMaxLength, len(name))
}

// BundleLabels are those labels of a Bundle's BundleDeployments that are the same on every cluster: those of the Bundle
// that concern users or Fleet, and those by which BundleDeployments are found.
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
