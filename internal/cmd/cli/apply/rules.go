package apply

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/pack"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// problems are the reasons why some Bundles are not written.
type problems []string

// with returns one error for all of them and another error, or nil if there is none.
func (p problems) with(err error) error {
	text := strings.Join(p, "; ")
	switch {
	case text == "":
		return err
	case err == nil:
		return errors.New(text)
	}
	return fmt.Errorf("%s; %w", text, err)
}

// joined returns one error for all, with the fixes of each. It returns nil if all errors are nil. An interrupt is named once, not for
// each Bundle that is not written because of it.
func joined(errs []error) error {
	all := &exit.Error{Code: exit.Failed}
	for _, err := range errs {
		if err == nil || errors.Is(err, context.Canceled) && errors.Is(all, context.Canceled) {
			continue
		}
		all.Add(err)
	}
	if len(all.Problems) == 0 {
		return nil
	}
	return all
}

// decide returns the Bundles whose size only some stores accept, those that any accepts, and the problems of the others.
func decide(targets []*target) (large, rest []*target, refused problems) {
	for _, one := range targets {
		one.size = pack.Size(one.Bundle.Bundle)
		problem := problemOf(one)
		switch {
		case problem != "":
			refused = append(refused, problem)
		case one.size > pack.StoreLimit:
			large = append(large, one)
		default:
			rest = append(rest, one)
		}
	}
	return large, rest, refused
}

// problemOf returns why a Bundle cannot be written, or empty.
func problemOf(t *target) string {
	switch {
	case t.old != nil && t.old.DeletionTimestamp != nil:
		return fmt.Sprintf("the bundle %q is being deleted, cannot create during a delete operation", t.Name)
	case t.old != nil && t.old.Spec.HelmOpOptions != nil:
		return fmt.Sprintf("a helmOps bundle with name %q already exists", t.Name)
	case len(t.values) > 0 && t.secret != nil && t.secret.Type != fleet.SecretTypeBundleValues:
		return fmt.Sprintf("Secret %s/%s of type %s has the name of the Bundle, so that its Helm values cannot be stored; "+
			"rename the Secret, or set `name` in %s/fleet.yaml", t.Namespace, t.Name, t.secret.Type, t.Folder)
	case t.size > pack.RequestLimit:
		return pack.Oversize(t.Bundle.Bundle, pack.StoreLimit)
	}
	bytes := 0
	for _, text := range t.values {
		bytes += len(text)
	}
	if bytes > corev1.MaxSecretSize {
		return fmt.Sprintf("the Helm values of Bundle %s have %d KiB, more than the %d KiB that fit into a Secret; "+
			"move files out of the values, or use helm.valuesFrom", t.Name, (bytes+1023)>>10, corev1.MaxSecretSize>>10)
	}
	return ""
}

// gone returns the Bundles that an earlier call has made and this one has not.
func gone(made []*fleet.Bundle, targets []*target) []*fleet.Bundle {
	return slices.DeleteFunc(slices.Clone(made), func(bundle *fleet.Bundle) bool {
		return bundle.DeletionTimestamp != nil || slices.ContainsFunc(targets, func(t *target) bool { return t.Name == bundle.Name })
	})
}

// sameName returns warnings about folders whose Bundles have the same name.
func sameName(bundles []*pack.Bundle) []string {
	var warnings []string
	folders := map[string]string{}
	for _, bundle := range bundles {
		folder := filepath.Clean(bundle.Folder)
		if other, again := folders[bundle.Name]; again && other != folder {
			warnings = append(warnings, fmt.Sprintf("the folders %s and %s make the same Bundle %s, and only one of them is deployed; "+
				"set `name` in the fleet.yaml of one", other, folder, bundle.Name))
		}
		folders[bundle.Name] = folder
	}
	return warnings
}

// explain returns the error of a request to the hub with the way to go on.
func explain(doing string, err error) error {
	var status apierrors.APIStatus
	if apierrors.IsNotFound(err) && errors.As(err, &status) {
		if details := status.Status().Details; details != nil && details.Kind == "namespaces" {
			return exit.Errorf(exit.Failed, "%s: namespace %s does not exist", doing, details.Name).
				With("kubectl create namespace "+details.Name, "or select another workspace with -n")
		}
	}
	return access.Explain(doing, err)
}

// isOwn reports whether a Secret contains the values of a Bundle. Only such a Secret may be deleted.
func isOwn(secret *corev1.Secret, bundle *fleet.Bundle) bool {
	return secret != nil && secret.Type == fleet.SecretTypeBundleValues && metav1.IsControlledBy(secret, bundle)
}
