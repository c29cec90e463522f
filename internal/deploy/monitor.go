package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	return d.recall(bd, r, release, secret)
}

// recall begins to look after the objects of a revision that this process did not make.
func (d *deployer) recall(bd *fleet.BundleDeployment, r *record, release string, secret *corev1.Secret) (bool, error) {
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
	made := &installed{Revision: number}
	for _, info := range list {
		made.Refs = append(made.Refs, refOf(info))
	}
	return true, d.track(bd, r, release, made)
}

// isLast reports whether no revision of a release is later than the given one.
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
	return newest[key].number <= number, nil
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
		fresh:     made.Live != nil,
	}
	for _, ref := range made.Refs {
		mapping, err := d.agent.mapping(ref.GroupVersionKind)
		if err != nil {
			return err
		}
		t.resources[ref.GroupVersionKind] = mapping.Resource
	}
	t.take(made.Live, ignoredConditions(&bd.Spec.Options))
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
	used := map[schema.GroupVersionResource]bool{}
	for _, resource := range t.resources {
		used[resource] = true
	}
	d.watches.follow(bd.Name, used)
	known, err := true, error(nil)
	if !t.fresh {
		known, err = d.look(ctx, t, ignoredConditions(&bd.Spec.Options))
	}
	t.fresh = false
	switch {
	case err != nil:
		notMonitored(status, d.Clock(), message(err))
		return err
	case known:
		monitored(status, d.Clock(), newReport(t.sightings()), bd.Spec.Options.ForceSyncGeneration)
	default:
		d.queue.AddAfter(bd.Name, watchPatience+time.Second) // should nothing say so earlier
	}
	return nil
}

// look brings what was seen of the objects up to date: their metadata tell which have changed, and only
// those are fetched. It reports false while the metadata are not known.
func (d *deployer) look(ctx context.Context, t *tracking, ignored []map[string]string) (known bool, err error) {
	var changed []objectRef
	known = true
	for _, ref := range t.refs {
		found, ready := d.watches.look(t.resources[ref.GroupVersionKind], ref.Namespace, ref.Name)
		last, seen := t.seen[ref]
		switch {
		case !ready:
			known = known && seen
		case found != nil && seen && last.inPlace() && last.ResourceVersion == found.ResourceVersion:
		case found != nil && found.Labels[fleet.LabelSetHash] == t.set.Hash && looksAlike(ref.GroupKind()):
			t.seen[ref] = observeMetadata(ref, found, t.set.Hash)
		default:
			changed = append(changed, ref)
		}
	}
	return known, d.fetch(ctx, t, changed, ignored)
}

// fetch reads objects in full, some at a time.
func (d *deployer) fetch(ctx context.Context, t *tracking, refs []objectRef, ignored []map[string]string) error {
	var mu sync.Mutex
	var group sync.WaitGroup
	var errs []error
	slots := make(chan struct{}, parallelism)
	for _, ref := range refs {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			live, err := d.get(ctx, t.resources[ref.GroupVersionKind], ref)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case apierrors.IsNotFound(err):
				t.seen[ref] = observation{}
			case err != nil:
				errs = append(errs, fmt.Errorf("reading %s: %w",
					describeObject(ref.apiVersion(), ref.Kind, ref.Namespace, ref.Name), err))
			default:
				t.seen[ref] = observe(live, t.set.Hash, ignored)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (d *deployer) get(ctx context.Context, resource schema.GroupVersionResource, ref objectRef) (*unstructured.Unstructured, error) {
	client := d.agent.dynamic.Resource(resource)
	if ref.Namespace == "" {
		return client.Get(ctx, ref.Name, metav1.GetOptions{})
	}
	return client.Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
}
