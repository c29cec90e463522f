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

// locate finds the revision named in a status in Helm's history, and reports whether it is there and nothing came
// after it. The history is read once; after that it is believed while all its objects are there.
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
		return false, err // an operation that failed or was cut off: what it left has to be put right
	}
	return d.recall(ctx, bd, r, release, secret)
}

// recall begins to look after the objects of a revision that this process did not make.
func (d *deployer) recall(ctx context.Context, bd *fleet.BundleDeployment, r *record, release string, secret *corev1.Secret) (bool, error) {
	key, number, _ := parseRelease(release)
	stored, err := decodeRelease(secret)
	if err != nil {
		return false, nil //nolint:nilerr // one that cannot be read is as good as none: it is made again
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

// formerRefs are the objects of the revision before, none if that is not in the history any more.
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

// isLast reports whether no revision of a release is later than the given one, but for a failed rollback to it.
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

// newestRevision finds the newest revision of a release by metadata alone.
func (d *deployer) newestRevision(ctx context.Context, key releaseKey) (revisionSecret, error) {
	secrets := d.metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	selector := labels.Set{labelOwner: ownerHelm, labelName: key.Name}.AsSelector().String()
	list, err := secrets.Namespace(key.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return revisionSecret{}, fmt.Errorf("looking for revisions of release %s: %w", key, err)
	}
	newest := map[releaseKey]revisionSecret{}
	for i := range list.Items {
		note(newest, &list.Items[i])
	}
	return newest[key], nil
}

// isFailedRollback tells whether a revision is nothing but the record of drift that could not be corrected.
func (d *deployer) isFailedRollback(ctx context.Context, key releaseKey, number int) (bool, error) {
	secret, err := d.agent.clientset.CoreV1().Secrets(key.Namespace).Get(ctx, secretName(key.Name, number), metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("reading release %s: %w", key.at(number), err)
	}
	stored, err := decodeRelease(secret)
	if err != nil {
		return false, nil //nolint:nilerr // one that cannot be read has to be put right
	}
	return stored.Info.Status == release.StatusFailed && strings.HasPrefix(stored.Info.Description, "Rollback"), nil
}
