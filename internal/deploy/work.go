package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/release"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/helmvalues"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// deploy makes the release of a BundleDeployment and writes its revision into the status.
// Confidential values are in none of its errors.
func (d *deployer) deploy(ctx context.Context, bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus) error {
	start := d.Clock()
	key := releaseFor(bd.Name, &bd.Spec.Options)
	who, err := d.accounts.find(ctx, bd.Spec.Options.ServiceAccount)
	if err != nil {
		return err
	}
	if err := d.mayUse(ctx, who, key.Namespace); err != nil {
		return err
	}
	values, confidential, err := d.values(ctx, bd, who, key)
	if err != nil {
		return err
	}
	bundle, err := d.bundle(ctx, bd)
	if err != nil {
		return confidential.wrap(classify(err))
	}
	installed, err := d.installedAgent(ctx, bd, who, key)
	if err != nil {
		return err
	}
	// From here on what was there may not be what is there, whatever becomes of the attempt.
	d.beginning.spend(key)
	r.tracking = nil
	marks := d.setOf(bd.Name)
	made, err := d.releaser.install(ctx, installation{
		DeploymentID: bd.Spec.DeploymentID, Again: r.again, Release: key, Package: bundle, Options: &bd.Spec.Options, Force: replaces(bd), Values: values,
		Identity: who, Set: marks, Stale: d.inventory.except(bd.Name, key), Superseded: d.superseded(bd),
		Installed: installed, News: d.newsOf(bd.Name, marks.Hash),
		MayTake: func(last *release.Release) error { return d.take(ctx, last, bd.Name, who, key) },
	})
	if err != nil {
		return confidential.wrap(classify(err))
	}
	if err := d.track(ctx, bd, r, key.at(made.Revision), made); err != nil {
		return err
	}
	status.Release, r.finished, r.again = key.at(made.Revision), false, false
	d.log.Info("bundle deployed", "bundledeployment", d.Namespace+"/"+bd.Name, "release", status.Release,
		"duration", d.Clock().Sub(start))
	return nil
}

// take takes a release for a BundleDeployment, if it may, before there is anything of it: what becomes of it has to be
// taken down one day. One that was refused stays out of the inventory, or its objects would count as left over.
func (d *deployer) take(ctx context.Context, last *release.Release, name string, who *identity, key releaseKey) error {
	if err := d.mayTake(ctx, last, name, who, key); err != nil {
		return err
	}
	d.inventory.add(name, key)
	return nil
}

// finish does what comes after a release is in place, unless this process has done it and nothing came up since:
// the namespace gets its labels, and releases under former names go, and so do copies that are no longer wanted.
func (d *deployer) finish(ctx context.Context, bd *fleet.BundleDeployment, r *record, release string) error {
	key := releaseFor(bd.Name, &bd.Spec.Options)
	marks := namespaceMarks{labels: bd.Spec.Options.NamespaceLabels, annotations: bd.Spec.Options.NamespaceAnnotations}
	if r.finished && r.marks.same(marks) && len(d.inventory.except(bd.Name, key)) == 0 {
		return nil
	}
	err := errors.Join(d.markNamespace(ctx, bd, r.marks, key.Namespace, release), d.removeStale(ctx, bd.Name, key), d.pruneCopies(ctx, bd, r))
	if err != nil {
		return err
	}
	r.finished, r.marks = true, marks
	return nil
}

// replaces tells whether objects are replaced instead of changed.
func replaces(bd *fleet.BundleDeployment) bool {
	return helmOptions(&bd.Spec.Options).Force || (bd.Spec.CorrectDrift != nil && bd.Spec.CorrectDrift.Force)
}

// bundle fetches what is deployed and makes a chart of it.
func (d *deployer) bundle(ctx context.Context, bd *fleet.BundleDeployment) (*bundlePackage, error) {
	id, _ := content.SplitDeploymentID(bd.Spec.DeploymentID)
	manifest, err := d.hub.manifest(ctx, id)
	if err != nil {
		return nil, err
	}
	return newPackage(packageInput{
		Name: bd.Name, ManifestID: id, Commit: bd.Labels[fleet.LabelCommit], Resources: manifest.Resources,
		Options: &bd.Spec.Options, Annotations: chartAnnotations(bd, d.AgentNamespace),
	})
}

// values assembles the values of a deployment: those of the options, which are in a Secret on the hub if
// there is a hash of them, and over them those of the cluster's own Secrets and ConfigMaps. The redaction takes out those
// that were in a Secret at their source; the hub marks options whose values were in plain sight.
func (d *deployer) values(ctx context.Context, bd *fleet.BundleDeployment, who *identity, key releaseKey) (map[string]any, redaction, error) {
	var values map[string]any
	var secret []map[string]any
	if bd.Spec.ValuesHash != "" {
		found, err := d.hub.values(ctx, bd)
		if err != nil {
			return nil, redaction{}, err
		}
		values, secret = found, unlessPlain(bd, found)
	} else if helm := bd.Spec.Options.Helm; helm != nil && helm.Values != nil {
		values = helm.Values.DeepCopy().Data
	}
	for _, source := range valuesSources(&bd.Spec.Options, key.Namespace) {
		text, err := readValues(ctx, who, source)
		if err != nil {
			err = because(valuesReason(err), fmt.Errorf("reading Helm values from %s: %w", source, err))
			if apierrors.IsNotFound(err) || errors.Is(err, errNoSuchKey) {
				err = until(source.object(), err)
			}
			return nil, redaction{}, err
		}
		found, err := parseValues(text)
		if err != nil {
			return nil, redaction{}, because(fleet.ReasonHelmValuesInvalid, fmt.Errorf("reading Helm values from %s: %w", source, err))
		}
		if source.Secret {
			secret = append(secret, found)
		}
		values = helmvalues.Merge(values, found)
	}
	if values == nil {
		values = map[string]any{}
	}
	return values, redactionOf(secret...), nil
}

// unlessPlain are the values of a BundleDeployment's Secret, unless the hub says that they were in no Secret before.
func unlessPlain(bd *fleet.BundleDeployment, values map[string]any) []map[string]any {
	if bd.Annotations[fleet.AnnotationPlainValues] == bd.Spec.ValuesHash {
		return nil
	}
	return []map[string]any{values}
}

// valuesReason is the reason for values that could not be read.
func valuesReason(err error) string {
	if reason := reasonOf(err); reason != fleet.ReasonError {
		return reason
	}
	return fleet.ReasonHelmValuesInvalid
}

// errNoSuchKey means that a source of values does not have the key they are in.
var errNoSuchKey = errors.New("there is no such key")

// readValues reads one source of values, under the identity that deploys.
func readValues(ctx context.Context, who *identity, source valuesSource) ([]byte, error) {
	core := who.clientset.CoreV1()
	var text []byte
	var found bool
	if source.Secret {
		secret, err := core.Secrets(source.Namespace).Get(ctx, source.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		text, found = secret.Data[source.Key]
	} else {
		configMap, err := core.ConfigMaps(source.Namespace).Get(ctx, source.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		var data string
		data, found = configMap.Data[source.Key]
		text = []byte(data)
		if !found {
			text, found = configMap.BinaryData[source.Key]
		}
	}
	if !found {
		return nil, errNoSuchKey
	}
	return text, nil
}

// checkNamespace enforces the selector of allowed namespaces.
func (d *deployer) checkNamespace(ctx context.Context, bd *fleet.BundleDeployment) error {
	selector := bd.Spec.Options.AllowedTargetNamespaceSelector
	if selector == nil {
		return nil
	}
	name := namespaceFor(&bd.Spec.Options)
	namespace, err := d.agent.clientset.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		namespace, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return checkTargetNamespace(name, namespace, selector)
}

// markNamespace gives the release's namespace the labels and annotations of the options, and takes away those it gave
// it before. It is read by the agent, and changed under the identity that deploys.
func (d *deployer) markNamespace(ctx context.Context, bd *fleet.BundleDeployment, given namespaceMarks, name, release string) error {
	options := &bd.Spec.Options
	_, revision, _ := parseRelease(release)
	if options.NamespaceLabels == nil && options.NamespaceAnnotations == nil && revision <= 1 && given.none() {
		return nil // and nothing was given by a revision before
	}
	current, err := d.agent.clientset.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("labelling namespace %s: %w", name, err)
	}
	wanted, changed := wantedNamespace(current, options, namespaceManager(bd.Name))
	if !changed {
		return nil
	}
	who, err := d.accounts.find(ctx, options.ServiceAccount)
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

// removeStale takes down releases of a BundleDeployment under former names, now that the new one is there.
func (d *deployer) removeStale(ctx context.Context, name string, key releaseKey) error {
	var errs []error
	for _, stale := range slices.Backward(d.inventory.except(name, key)) {
		_, err := d.takeDown(ctx, name, stale)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
