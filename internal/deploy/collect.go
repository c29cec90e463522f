package deploy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

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
// round.
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
	secret, resourceVersion string
	number                  int
}

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
	for _, name := range d.inventory.names() {
		if d.hub.cached(name) == nil || len(d.inventory.of(name)) > 1 {
			d.queue.Add(name)
		}
	}
	return errors.Join(errs...)
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
		newest[key] = revisionSecret{secret: secret.Name, resourceVersion: secret.ResourceVersion, number: number}
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
	stored, err := decodeRelease(secret)
	if err != nil || annotationsOf(stored)[fleet.AnnotationAgentNamespace] != d.AgentNamespace ||
		annotationsOf(stored)[fleet.AnnotationBundleID] == "" {
		d.inventory.setForeign(key, found.resourceVersion)
		return nil //nolint:nilerr // what cannot be read is nobody's
	}
	d.inventory.add(annotationsOf(stored)[fleet.AnnotationBundleID], key)
	return nil
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
