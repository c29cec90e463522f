package diff

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Bundle is a Bundle with the BundleDeployments that differ from it.
type Bundle struct {
	Name        string       `json:"bundleName"`
	Namespace   string       `json:"namespace"`
	Deployments []Deployment `json:"bundleDeploymentDiffs"`
}

// Deployment is a BundleDeployment with resources that are modified or not ready.
type Deployment struct {
	Name       string                 `json:"bundleDeploymentName"`
	BundleName string                 `json:"bundleName"`
	Namespace  string                 `json:"namespace"`
	Modified   []fleet.ModifiedStatus `json:"modifiedResources,omitempty"`
	NonReady   []fleet.NonReadyStatus `json:"nonReadyResources,omitempty"`
}

// ref names an object. An empty field matches everything.
type ref struct{ namespace, name string }

// parseRef parses NAME or NAMESPACE/NAME.
func parseRef(text, namespace string) ref {
	if before, after, found := strings.Cut(text, "/"); found {
		return ref{before, after}
	}
	return ref{namespace, text}
}

// String returns what parseRef parses.
func (r ref) String() string {
	if r.namespace == "" {
		return r.name
	}
	return r.namespace + "/" + r.name
}

func (r ref) matches(namespace, name string) bool {
	return (r.namespace == "" || r.namespace == namespace) && (r.name == "" || r.name == name)
}

// filter selects BundleDeployments by their own name and by that of their Bundle.
type filter struct{ deployment, bundle ref }

func (f filter) matches(bd *fleet.BundleDeployment) bool {
	bundle := bundleOf(bd)
	return f.deployment.matches(bd.Namespace, bd.Name) && f.bundle.matches(bundle.namespace, bundle.name)
}

// bundleOf returns the Bundle that the labels of a BundleDeployment name.
func bundleOf(bd *fleet.BundleDeployment) ref {
	return ref{bd.Labels[fleet.LabelBundleNamespace], cmp.Or(bd.Labels[fleet.LabelBundleName], bd.Name)}
}

// findings are the Bundles with differences, ordered by workspace and name.
type findings struct {
	bundles  []Bundle
	warnings []string
	// selected is the number of BundleDeployments that the filter selects, with or without differences.
	selected int

	// at are the indexes of bundles.
	at map[ref]int
}

// gather reads the BundleDeployments that the filter selects. It keeps only their differences.
func gather(ctx context.Context, hub *access.Cluster, wanted filter) (findings, error) {
	found := findings{bundles: []Bundle{}, at: map[ref]int{}}
	client := hub.BundleDeployments(wanted.deployment.namespace)
	if wanted.deployment.namespace != "" && wanted.deployment.name != "" {
		name := wanted.deployment.name
		bd, err := access.Find(ctx, client, "BundleDeployment "+wanted.deployment.namespace+"/"+name, name)
		if bd != nil {
			found.add(bd, wanted)
		}
		return found, err
	}
	options := metav1.ListOptions{}
	if name := wanted.bundle.name; name != "" && len(validation.IsValidLabelValue(name)) == 0 {
		options.LabelSelector = labels.Set{fleet.LabelBundleName: name}.String()
	}
	_, err := access.Each(ctx, client, options, func(bd *fleet.BundleDeployment) error {
		found.add(bd, wanted)
		return nil
	})
	found.sort()
	where := "in all namespaces"
	if wanted.deployment.namespace != "" {
		where = "in namespace " + wanted.deployment.namespace
	}
	return found, access.Explain("listing BundleDeployments "+where, err)
}

// add adds a BundleDeployment that is selected and has differences.
func (f *findings) add(bd *fleet.BundleDeployment, wanted filter) {
	if !wanted.matches(bd) {
		return
	}
	f.selected++
	if len(bd.Status.ModifiedStatus) == 0 && len(bd.Status.NonReadyStatus) == 0 {
		if wanted.deployment.name != "" {
			f.warnings = append(f.warnings, fmt.Sprintf("BundleDeployment %s/%s has no resources that are modified or not ready", bd.Namespace, bd.Name))
		}
		return
	}
	if bd.Status.IncompleteState {
		f.warnings = append(f.warnings, fmt.Sprintf("BundleDeployment %s/%s has more resources that are modified or not ready than its agent reports", bd.Namespace, bd.Name))
	}
	bundle := bundleOf(bd)
	at, exists := f.at[bundle]
	if !exists {
		at = len(f.bundles)
		f.bundles, f.at[bundle] = append(f.bundles, Bundle{Name: bundle.name, Namespace: bundle.namespace}), at
	}
	f.bundles[at].Deployments = append(f.bundles[at].Deployments, Deployment{
		Name: bd.Name, BundleName: bundle.name, Namespace: bd.Namespace, Modified: bd.Status.ModifiedStatus, NonReady: bd.Status.NonReadyStatus,
	})
}

func (f *findings) sort() {
	slices.SortFunc(f.bundles, func(a, b Bundle) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, bundle := range f.bundles {
		slices.SortFunc(bundle.Deployments, func(a, b Deployment) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
}

func deploymentsOf(bundles []Bundle) (all []Deployment) {
	for _, bundle := range bundles {
		all = append(all, bundle.Deployments...)
	}
	return all
}

// patchesOf returns the comparePatches of a Bundle.
func patchesOf(ctx context.Context, hub *access.Cluster, bundle Bundle) (patches []fleet.ComparePatch, warning string, err error) {
	name := bundle.Namespace + "/" + bundle.Name
	found, err := access.Find(ctx, hub.Bundles(bundle.Namespace), "Bundle "+name, bundle.Name)
	switch {
	case err != nil:
		return nil, "", err
	case found == nil:
		return nil, "Bundle " + name + " does not exist, so that its comparePatches are not part of the output", nil
	case found.Spec.Diff == nil:
		return nil, "", nil
	}
	return found.Spec.Diff.ComparePatches, "", nil
}
