package deploy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/release"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// locate finds the revision named in a status in Helm's history, and reports whether it exists and is the last
// one. It reads the history once. After that it trusts the result as long as all objects exist.
func (d *deployer) locate(ctx context.Context, bd *fleet.BundleDeployment, r *record, release string) (bool, error) {
	key, number, ok := parseRelease(release)
	if !ok {
		r.tracking = nil
		return false, nil
	}
	if r.tracking != nil && r.tracking.release == release && !r.tracking.doubtful() {
		return true, nil
	}
	secret, err := d.agent.clientset.CoreV1().Secrets(key.Namespace).Get(ctx, secretName(key.Name, number), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		r.tracking = nil
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading release %s: %w", release, err)
	}
	if r.tracking != nil && r.tracking.release == release {
		return true, nil
	}
	if last, err := d.isLast(ctx, key, number); !last || err != nil {
		return false, err // an operation failed or was interrupted: its result has to be repaired
	}
	return d.recall(ctx, bd, r, release, secret)
}

// recall starts to track the objects of a revision that another process made.
func (d *deployer) recall(ctx context.Context, bd *fleet.BundleDeployment, r *record, release string, secret *corev1.Secret) (bool, error) {
	key, number, _ := parseRelease(release)
	stored, err := decodeRelease(secret)
	if err != nil {
		return false, nil //nolint:nilerr // an unreadable revision counts as missing: it is made again
	}
	if from, err := d.seal.origin(ctx, key, number, secret); err != nil || from != originAgent {
		return false, err
	}
	client := newObjectClient(d.agent, key, d.stopped)
	list, err := client.Build(strings.NewReader(stored.Manifest), false)
	if err != nil {
		return false, fmt.Errorf("reading the manifest of release %s: %w", release, err)
	}
	made := &installed{Revision: number, Refs: client.refs(list)}
	if made.Former, err = d.formerRefs(ctx, key, number-1); err != nil {
		return false, err
	}
	return true, d.track(ctx, bd, r, release, made)
}

// formerRefs returns the objects of the previous revision, or none if the history no longer has that revision.
func (d *deployer) formerRefs(ctx context.Context, key releaseKey, number int) ([]objectRef, error) {
	if number < 1 {
		return nil, nil
	}
	found, err := d.wanted(ctx, key.at(number))
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return slices.Collect(maps.Keys(found)), err
}

// isLast reports whether a revision is the last one of a release. A failed rollback to it does not count.
func (d *deployer) isLast(ctx context.Context, key releaseKey, number int) (bool, error) {
	newest, counts := d.beginning.newestOf(ctx, key, d.Clock())
	if !counts {
		var err error
		if newest, err = d.newestRevision(ctx, key); err != nil {
			return false, err
		}
	}
	if newest.number <= number {
		return true, nil
	}
	return d.isFailedRollback(ctx, key, newest.number)
}

// newestRevision finds the newest revision of a release. It reads only metadata.
func (d *deployer) newestRevision(ctx context.Context, key releaseKey) (revisionSecret, error) {
	secrets := d.metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	selector := labels.Set{labelOwner: ownerHelm, labelName: key.Name}.AsSelector().String()
	list, err := secrets.Namespace(key.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return revisionSecret{}, fmt.Errorf("listing the revisions of release %s: %w", key, err)
	}
	newest := map[releaseKey]revisionSecret{}
	for i := range list.Items {
		note(newest, &list.Items[i])
	}
	return newest[key], nil
}

// isFailedRollback reports whether a revision only records drift that could not be corrected.
func (d *deployer) isFailedRollback(ctx context.Context, key releaseKey, number int) (bool, error) {
	secret, err := d.agent.clientset.CoreV1().Secrets(key.Namespace).Get(ctx, secretName(key.Name, number), metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("reading release %s: %w", key.at(number), err)
	}
	stored, err := decodeRelease(secret)
	if err != nil {
		return false, nil //nolint:nilerr // an unreadable revision has to be repaired
	}
	return stored.Info.Status == release.StatusFailed && strings.HasPrefix(stored.Info.Description, "Rollback"), nil
}
