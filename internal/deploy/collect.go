package deploy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"helm.sh/helm/v3/pkg/release"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// collectPage is how many Secrets are listed at a time.
	collectPage = 500
	// collectRetry is the pause after a round that did not see everything; never longer than the one between rounds.
	collectRetry = 30 * time.Second
)

// collect looks for releases of this agent in the cluster, at once and then from time to time, and has the
// BundleDeployments looked at that they were made for. Those that are gone lose all their releases, in one
// round, but for orphans, which may be only early.
func (d *deployer) collect(ctx context.Context) {
	for {
		interval := d.GarbageCollectionInterval
		if err := d.sweep(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("looking for releases without a bundle deployment", "error", err)
			interval = min(interval, collectRetry)
		}
		timer := time.NewTimer(interval + time.Duration(d.Random()*float64(interval)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// revisionSecret is the newest revision of a release, by its Secret's metadata.
type revisionSecret struct {
	secret, resourceVersion, status string
	number                          int
}

// orphans are the BundleDeployments that releases in the cluster were made for and that the hub has not named since this
// process began, and when a look first missed them; the zero time if none has. Only looks use them.
//
// They may have been deleted while no agent was there. Or the cluster has come to another hub, or anew to this one, where
// Bundles are still to come that are to go on with these releases, and not with empty volumes.
type orphans map[string]time.Time

// sweep is one round. A release that cannot be read keeps no other from being found.
func (d *deployer) sweep(ctx context.Context) error {
	newest, err := d.listReleases(ctx)
	d.beginning.know(newest, d.Clock())
	if err != nil {
		return err
	}
	var errs []error
	for key, found := range newest {
		if d.inventory.owns(key) || d.inventory.isForeign(key, found.resourceVersion) {
			continue
		}
		errs = append(errs, d.adoptRelease(ctx, key, found))
	}
	d.lookAtWhatIsLeft(ctx, newest)
	return errors.Join(errs...)
}

// lookAtWhatIsLeft has those BundleDeployments looked at that are gone, and those with more releases than one.
func (d *deployer) lookAtWhatIsLeft(ctx context.Context, newest map[releaseKey]revisionSecret) {
	maps.DeleteFunc(d.orphans, func(name string, _ time.Time) bool {
		return d.hub.cached(name) != nil || len(d.inventory.of(name)) == 0
	})
	for _, name := range d.inventory.names() {
		if d.hub.cached(name) != nil {
			if len(d.inventory.of(name)) > 1 {
				d.queue.Add(name)
			}
		} else if d.mayGo(ctx, name, newest) {
			d.queue.Add(name)
		}
	}
}

// mayGo tells whether the releases of a BundleDeployment that is not there may be taken down. Those of one that this
// process has known may. An orphan's are left alone while the hub lists nothing at all for this agent, and then until two
// looks have missed it that are a whole interval apart; if they were being taken down already, that is gone on with.
func (d *deployer) mayGo(ctx context.Context, name string, newest map[releaseKey]revisionSecret) bool {
	since, isOrphan := d.orphans[name]
	now := d.Clock()
	switch {
	case !isOrphan:
		return true
	case len(d.hub.all()) == 0:
		d.orphans[name] = time.Time{} // what was seen before counts no more: the hub is only beginning
		return false
	case d.beingTakenDown(ctx, name, newest):
		return true
	case since.IsZero():
		d.orphans[name] = now
		d.log.Info("release without a bundle deployment is kept, in case one is still to come", "bundledeployment", d.Namespace+"/"+name,
			"garbageCollectionInterval", d.GarbageCollectionInterval.String())
		return false
	}
	return now.Sub(since) >= d.GarbageCollectionInterval
}

// beingTakenDown tells whether all releases of a BundleDeployment were left in the middle of an uninstallation. Of one
// with another release only a former name may have been on its way out.
func (d *deployer) beingTakenDown(ctx context.Context, name string, newest map[releaseKey]revisionSecret) bool {
	return !slices.ContainsFunc(d.inventory.of(name), func(key releaseKey) bool {
		return newest[key].status != release.StatusUninstalling.String() || d.isForged(ctx, key, newest[key])
	})
}

// isForged tells whether another than the agent has stored a revision; also while that cannot be found out.
func (d *deployer) isForged(ctx context.Context, key releaseKey, found revisionSecret) bool {
	if d.seal == nil {
		return false
	}
	secret, err := d.agent.clientset.CoreV1().Secrets(key.Namespace).Get(ctx, found.secret, metav1.GetOptions{})
	if err != nil {
		return true
	}
	from, err := d.seal.origin(ctx, key, found.number, secret)
	return err != nil || from == originOther
}

// listReleases finds all of Helm's releases by metadata alone.
func (d *deployer) listReleases(ctx context.Context) (map[releaseKey]revisionSecret, error) {
	client := d.metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	options := metav1.ListOptions{FieldSelector: "type=" + releaseSecretType, Limit: collectPage}
	newest := map[releaseKey]revisionSecret{}
	for {
		page, err := client.List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing Helm's releases: %w", err)
		}
		for i := range page.Items {
			note(newest, &page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return newest, nil
		}
	}
}

func note(newest map[releaseKey]revisionSecret, secret *metav1.PartialObjectMetadata) {
	number, err := strconv.Atoi(secret.Labels[labelVersion])
	name := secret.Labels[labelName]
	if err != nil || name == "" || secret.Labels[labelOwner] != ownerHelm {
		return // not written by Helm
	}
	key := releaseKey{Namespace: secret.Namespace, Name: name}
	if number > newest[key].number {
		newest[key] = revisionSecret{
			secret: secret.Name, resourceVersion: secret.ResourceVersion, status: secret.Labels[labelStatus], number: number,
		}
	}
}

// adoptRelease reads a release and takes it into the inventory if this agent made it.
func (d *deployer) adoptRelease(ctx context.Context, key releaseKey, found revisionSecret) error {
	secret, err := d.agent.clientset.CoreV1().Secrets(key.Namespace).Get(ctx, found.secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // gone meanwhile
	}
	if err != nil {
		return fmt.Errorf("reading release %s: %w", key, err)
	}
	stored, err := d.lastOf(ctx, key, secret)
	if err != nil {
		return err
	}
	if stored == nil || annotationsOf(stored)[fleet.AnnotationAgentNamespace] != d.AgentNamespace ||
		annotationsOf(stored)[fleet.AnnotationBundleID] == "" {
		d.inventory.setForeign(key, found.resourceVersion)
		return nil
	}
	name := annotationsOf(stored)[fleet.AnnotationBundleID]
	if d.hub.cached(name) == nil && len(d.inventory.of(name)) == 0 {
		d.orphans[name] = time.Time{}
	}
	d.inventory.add(name, key)
	return nil
}

// lastOf is the newest revision of a release, which is in the Secret unless that is forged; nil for one that cannot be
// read.
func (d *deployer) lastOf(ctx context.Context, key releaseKey, secret *corev1.Secret) (*release.Release, error) {
	stored, err := decodeRelease(secret)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // it is no release
	}
	if annotationsOf(stored)[fleet.AnnotationAgentNamespace] != d.AgentNamespace {
		return stored, nil
	}
	from, err := d.seal.origin(ctx, key, stored.Version, secret)
	if err != nil || from != originOther {
		return stored, err
	}
	h, err := d.releaser.history(ctx, key)
	if err != nil {
		return nil, err
	}
	return h.last(), nil
}

// watchKinds forgets what is known of the API server's kinds whenever a CRD changes, and has everything looked
// at that needs a kind which was not known.
func (d *deployer) watchKinds(ctx context.Context) {
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	informer := newMetadataInformer(d.metadata, d.metadata.Resource(crds), func(*metav1.ListOptions) {})
	var handler cache.ResourceEventHandlerRegistration
	changed := func() {
		d.bells.ring(crdBell)
		if handler != nil && handler.HasSynced() {
			d.agent.forget()
			d.enqueueAll(d.lacking.list())
		}
	}
	// Cannot fail: the informer is new.
	handler, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	})
	informer.RunWithContext(ctx)
}
