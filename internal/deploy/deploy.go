package deploy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/namespaces"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/release"
	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
	"github.com/fleet-hub/fleet/internal/deploy/source"
	"github.com/fleet-hub/fleet/internal/deploy/wakeups"
	"github.com/fleet-hub/fleet/internal/deploy/watch"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// deploy deploys a BundleDeployment and writes the revision of its release into the status. Its errors contain no
// confidential values.
func (d *deployer) deploy(ctx context.Context, bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus) error {
	start := d.Clock()
	key := placement.ReleaseOf(bd.Name, &bd.Spec.Options)
	identity, err := d.accounts.Find(ctx, bd)
	if err != nil {
		return err
	}
	if err := d.accounts.MayUse(ctx, identity, key.Namespace); err != nil {
		return err
	}
	values, confidential, err := d.values(ctx, bd, identity, key)
	if err != nil {
		return err
	}
	bundle, err := d.bundle(ctx, bd)
	if err != nil {
		return confidential.Wrap(outcome.Classify(err))
	}
	installed, err := d.installedAgent(ctx, bd, identity, key)
	if err != nil {
		return err
	}
	// From here on the state of the release is unknown until the deployment has succeeded.
	d.reader.Expire(key)
	r.untrack()
	marks := d.setOf(bd.Name)
	made, err := d.releaser.Install(ctx, release.Installation{
		DeploymentID: bd.Spec.DeploymentID, Again: r.again, Release: key, Options: &bd.Spec.Options, Force: replaces(bd), Values: values,
		Chart: bundle.Chart, Finish: &source.PostRenderer{
			Package: bundle, Set: marks, TargetNamespace: bd.Spec.Options.TargetNamespace, DeleteCRDs: bd.Spec.Options.DeleteCRDResources,
			Namespaced: identity.Namespaced, Installed: installed, Limit: func(build func() error) error {
				return d.releaser.Renderings.Run(marks, bd.Spec.Options.ServiceAccount, key, bd.Spec.DeploymentID, build)
			},
		},
		Identity: identity, Set: marks, Stale: d.inventory.Except(bd.Name, key), Superseded: d.superseded(bd),
		Changes:  d.changesOf(bd.Name, marks.Hash),
		Reported: func(revision string, made time.Time) bool { return outcome.Reported(status, revision, made) },
		MayTake:  func(exists bool, m map[string]string) error { return d.take(ctx, bd.Name, identity, key, exists, m) },
	})
	if err != nil {
		return confidential.Wrap(outcome.Classify(err))
	}
	if err := d.track(ctx, bd, r, key.At(made.Number), made); err != nil {
		return err
	}
	status.Release = key.At(made.Number)
	r.deployed()
	took := d.Clock().Sub(start)
	d.OnDeploy(outcome.Succeeded, took)
	d.log.Info("bundle deployed", "bundledeployment", d.Namespace+"/"+bd.Name, "release", status.Release, "duration", took)
	return nil
}

// take adds a release to the inventory of a BundleDeployment, if the account may take it, before anything is
// written, so that it is uninstalled later. A refused release is not added: otherwise its objects would count as
// left over. marks are the annotations of an existing release.
func (d *deployer) take(ctx context.Context, name string, identity *access.Identity, key placement.Release, exists bool, marks map[string]string) error {
	if exists {
		err := d.accounts.MayTake(ctx, identity, access.Claim{
			Bundle: name, IsAgent: d.isAgent(name), Release: key,
			Owner: marks[fleet.AnnotationBundleID], OwnerAgent: marks[fleet.AnnotationAgentNamespace],
		})
		if err != nil {
			return err
		}
	}
	d.inventory.Add(name, key)
	return nil
}

// finish does what remains after a deployment: it labels the namespace, removes the stale releases under former names,
// and deletes copies that are no longer wanted. If this process has already done it, it only keeps the labels.
func (d *deployer) finish(ctx context.Context, bd *fleet.BundleDeployment, r *record, release string, stale []placement.Release) error {
	key := placement.ReleaseOf(bd.Name, &bd.Spec.Options)
	marks := namespaces.MarksOf(&bd.Spec.Options, d.Clock())
	left := d.records.get(bd.Name).leftCopies
	if r.finished && r.marks.Same(marks) && len(stale) == 0 && !left {
		return d.namespaces.Keep(ctx, bd, &r.marks, key.Namespace, release)
	}
	err := errors.Join(d.namespaces.Mark(ctx, bd, r.marks, key.Namespace, release), d.removeStale(ctx, bd.Name, key.Namespace, release, stale), d.copier.Prune(ctx, bd, &r.copies, left, r.tracking.Refs()))
	if errors.Is(err, watch.ErrReleaseLost) {
		r.untrack() // the next attempt makes it again
	}
	if err != nil {
		return err
	}
	r.finish(marks)
	d.records.setLeftCopies(bd.Name, false)
	return nil
}

// installedAgent returns the agent's Deployment as another release of charts/fleet-agent has it. It returns nil
// for a BundleDeployment that is not the agent's own, and for an agent that was installed in another way. A bundle
// that deploys under a service account gets nothing.
func (d *deployer) installedAgent(ctx context.Context, bd *fleet.BundleDeployment, identity *access.Identity, own placement.Release) (*unstructured.Unstructured, error) {
	installed := placement.Release{Namespace: own.Namespace, Name: names.Agent}
	if !d.isAgent(bd.Name) || own == installed || identity != d.agent {
		return nil, nil //nolint:nilnil // nothing to keep
	}
	manifests, err := d.releaser.DeployedManifests(ctx, installed)
	if err != nil {
		return nil, err
	}
	for _, manifest := range manifests {
		if found := source.AgentDeployments(manifest); len(found) > 0 {
			return found[0], nil
		}
	}
	return nil, nil //nolint:nilnil // nothing to keep
}

// replaces reports whether objects are replaced instead of patched.
func replaces(bd *fleet.BundleDeployment) bool {
	return release.HelmOptions(&bd.Spec.Options).Force || (bd.Spec.CorrectDrift != nil && bd.Spec.CorrectDrift.Force)
}

// bundle reads the content of a BundleDeployment and makes its chart.
func (d *deployer) bundle(ctx context.Context, bd *fleet.BundleDeployment) (*source.Package, error) {
	id, _ := content.SplitDeploymentID(bd.Spec.DeploymentID)
	manifest, err := d.hub.Manifest(ctx, id)
	if err != nil {
		return nil, err
	}
	return source.New(source.Input{
		Name: bd.Name, ManifestID: id, Commit: bd.Labels[fleet.LabelCommit], Resources: manifest.Resources,
		Options: &bd.Spec.Options, Annotations: source.ChartAnnotations(bd, d.AgentNamespace),
	})
}

// values returns the values of a deployment. The values of the options come first; if there is a hash of them,
// they are in a Secret on the hub. Values from Secrets and ConfigMaps of the downstream cluster override them. The
// redaction covers values that came from a Secret. The hub marks options whose values did not.
func (d *deployer) values(ctx context.Context, bd *fleet.BundleDeployment, identity *access.Identity, key placement.Release) (map[string]any, outcome.Redaction, error) {
	var values map[string]any
	var secret []map[string]any
	if bd.Spec.ValuesHash != "" {
		found, err := d.hub.Values(ctx, bd)
		if err != nil {
			return nil, outcome.Redaction{}, err
		}
		values, secret = found, unlessPlain(bd, found)
	} else if helm := bd.Spec.Options.Helm; helm != nil && helm.Values != nil {
		values = helm.Values.DeepCopy().Data
	}
	merged, found, err := source.MergeValues(ctx, identity, &bd.Spec.Options, key.Namespace, values)
	if err != nil {
		return nil, outcome.Redaction{}, err
	}
	return merged, outcome.NewRedaction(append(secret, found...)...), nil
}

// unlessPlain returns the values of a BundleDeployment's Secret, or none if the hub marks them as not
// confidential.
func unlessPlain(bd *fleet.BundleDeployment, values map[string]any) []map[string]any {
	if bd.Annotations[annotation.PlainValues] == bd.Spec.ValuesHash {
		return nil
	}
	return []map[string]any{values}
}

// removeStale uninstalls releases of a BundleDeployment under other names, now that the wanted revision is in place.
// It never deletes the objects of that revision, nor its namespace.
func (d *deployer) removeStale(ctx context.Context, name, namespace, wanted string, stale []placement.Release) error {
	if len(stale) == 0 {
		return nil
	}
	found, err := d.reader.Objects(ctx, wanted)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %w", watch.ErrReleaseLost, err)
	}
	if err != nil {
		return err
	}
	keep := append(slices.Collect(maps.Keys(found)), manifest.Ref{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), Name: namespace})
	var errs []error
	for _, key := range slices.Backward(stale) {
		_, err := d.takeDown(ctx, name, key, keep, func(bool) error { return nil })
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// changesOf returns what wakes a deployment that waits: changes of its objects, changes of CRDs, and changes of the
// BundleDeployment. The watches are the ones that the release needs afterwards as well.
func (d *deployer) changesOf(name, hash string) *objects.Changes {
	return &objects.Changes{
		Follow: func(resources map[schema.GroupVersionResource]bool) { d.watches.Follow(name, resources) },
		Listen: func() (<-chan struct{}, func()) {
			return d.wakeups.Listen(wakeups.Bundle(name), wakeups.Set(hash), wakeups.CRDs())
		},
	}
}
