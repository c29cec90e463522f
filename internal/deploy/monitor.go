package deploy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/release"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/drift"
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
	client := newObjectClient(d.agent, key, d.stopped)
	list, err := client.Build(strings.NewReader(stored.Manifest), false)
	if err != nil {
		return false, fmt.Errorf("reading the manifest of release %s: %w", release, err)
	}
	made := &installed{Revision: number, Refs: refsOf(list)}
	if made.Former, err = d.formerRefs(ctx, key, number-1); err != nil {
		return false, err
	}
	return true, d.track(bd, r, release, made)
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
	secrets := d.metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	selector := labels.Set{labelOwner: ownerHelm, labelName: key.Name}.AsSelector().String()
	list, err := secrets.Namespace(key.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return false, fmt.Errorf("looking for revisions of release %s: %w", key, err)
	}
	newest := map[releaseKey]revisionSecret{}
	for i := range list.Items {
		note(newest, &list.Items[i])
	}
	if newest[key].number <= number {
		return true, nil
	}
	return d.isFailedRollback(ctx, key, newest[key].number)
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

// doubtful means that something is missing: the whole release may be gone.
func (t *tracking) doubtful() bool {
	for _, ref := range t.refs {
		if seen, known := t.seen[ref]; known && !seen.inPlace() {
			return true
		}
	}
	return false
}

// track begins to look after the objects of a revision.
func (d *deployer) track(bd *fleet.BundleDeployment, r *record, release string, made *installed) error {
	t := &tracking{
		release: release, set: setFor(bd.Name, d.Scope), refs: made.Refs,
		resources: map[schema.GroupVersionKind]schema.GroupVersionResource{},
		seen:      map[objectRef]observation{},
		rules:     drift.RulesOf(bd.Spec.Options.Diff),
	}
	if made.Live != nil {
		t.first = made
	}
	for _, ref := range made.Refs {
		mapping, err := d.agent.mapping(ref.GroupVersionKind)
		if err != nil {
			return err
		}
		t.resources[ref.GroupVersionKind] = mapping.Resource
	}
	for _, ref := range surplus(made.Former, made.Refs) {
		mapping, err := d.agent.mapping(ref.GroupVersionKind)
		if err != nil {
			continue // the kind is gone, and the object with it
		}
		t.resources[ref.GroupVersionKind] = mapping.Resource
		t.extras = append(t.extras, ref)
	}
	r.tracking = t
	return nil
}

func ignoredConditions(options *fleet.BundleDeploymentOptions) []map[string]string {
	if options.Ignore == nil {
		return nil
	}
	return options.Ignore.Conditions
}

// monitor looks at the objects of a release that is as it should be, and writes into the status what they
// say. While some are not known yet it writes nothing: it is called again once they are.
func (d *deployer) monitor(ctx context.Context, bd *fleet.BundleDeployment, r *record, status *fleet.BundleDeploymentStatus) error {
	t := r.tracking
	if t == nil || t.release != status.Release || status.AppliedDeploymentID != bd.Spec.DeploymentID || failedForGood(status) {
		return nil
	}
	t.known = false
	t.heed(&bd.Spec.Options)
	d.watches.follow(bd.Name, t.watched())
	known, err := true, error(nil)
	if first := t.first; first != nil {
		t.first = nil
		err = d.takeIn(ctx, bd, t, first.Live, first.Wanted)
	} else {
		known, err = d.look(ctx, bd, t)
	}
	if err == nil && known {
		err = d.lookForExtras(ctx, t)
	}
	switch {
	case err != nil:
		notMonitored(status, d.Clock(), message(err))
		return err
	case known:
		t.known = true
		monitored(status, d.Clock(), newReport(t.sightings(), t.extras...), bd.Spec.Options.ForceSyncGeneration)
	default:
		d.queue.AddAfter(bd.Name, watchPatience+time.Second) // should nothing say so earlier
	}
	return nil
}

// look brings what was seen of the objects up to date: their metadata tell which have changed, and only
// those are fetched. It reports false while the metadata are not known.
func (d *deployer) look(ctx context.Context, bd *fleet.BundleDeployment, t *tracking) (known bool, err error) {
	var changed []objectRef
	known = true
	for _, ref := range t.refs {
		found, ready := d.watches.look(t.resources[ref.GroupVersionKind], ref.Namespace, ref.Name)
		last, seen := t.seen[ref]
		switch {
		case !ready:
			known = known && seen
		case found != nil && seen && last.inPlace() && last.ResourceVersion == found.ResourceVersion:
		default:
			changed = append(changed, ref)
		}
	}
	live, fetchErr := d.fetch(ctx, t, changed)
	return known, errors.Join(fetchErr, d.takeIn(ctx, bd, t, live, nil))
}

// fetch reads objects in full, some at a time. Those that are not there are nil.
func (d *deployer) fetch(ctx context.Context, t *tracking, refs []objectRef) (manifest, error) {
	var mu sync.Mutex
	var group sync.WaitGroup
	var errs []error
	live := manifest{}
	slots := make(chan struct{}, parallelism)
	for _, ref := range refs {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			found, err := d.get(ctx, t.resources[ref.GroupVersionKind], ref)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case apierrors.IsNotFound(err):
				live[ref] = nil
			case err != nil:
				errs = append(errs, fmt.Errorf("reading %s: %w",
					describeObject(ref.apiVersion(), ref.Kind, ref.Namespace, ref.Name), err))
			default:
				live[ref] = found
			}
		})
	}
	group.Wait()
	return live, errors.Join(errs...)
}

func (d *deployer) get(ctx context.Context, resource schema.GroupVersionResource, ref objectRef) (*unstructured.Unstructured, error) {
	client := d.agent.dynamic.Resource(resource)
	if ref.Namespace == "" {
		return client.Get(ctx, ref.Name, metav1.GetOptions{})
	}
	return client.Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
}
