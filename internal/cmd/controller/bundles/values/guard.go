package values

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/index"
	"github.com/fleet-hub/fleet/internal/cmd/controller/bundles/queue"
	"github.com/fleet-hub/fleet/internal/helmvalues"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// guardDelay is the delay between a change of a Secret and its check. By then the BundleDeployment that was written
// together with the Secret is cached, and several changes cause one check.
const guardDelay = 2 * time.Second

// abandonedDelay is the delay between finding a Secret without a BundleDeployment and its deletion. The BundleDeployment
// may be created in the meantime.
const abandonedDelay = 30 * time.Second

// hubManager is the field manager of hubs. It is the name of the binary, which is the same in Rancher Fleet.
const hubManager = "fleetcontroller"

// guard finds values Secrets that were edited or deleted by a client other than a hub, and has them compared again. It
// does not depend on agents to report them. It sees only names, owners and managed fields, and stores none of them.
//
//	watch of metadata ─► edited by others, or gone ─► queue ─► unverified, Bundle ─► compared and written
//	startup ─► Secrets that an earlier process left without an owner ─► compared, or deleted without a BundleDeployment
//	           Secrets of BundleDeployments that refer to none ─► deleted
type guard struct {
	*Store

	// enqueue enqueues the Bundle of a BundleDeployment whose Secret has to be compared.
	enqueue func(bundle types.NamespacedName)
	// own is the field manager of this process.
	own   string
	queue *queue.Queue
}

// guardPage is the page size for listing Secrets.
const guardPage = 500

// Guard watches the Secrets until ctx ends. First it waits until the BundleDeployments are cached. enqueue is called
// with the Bundles of the BundleDeployments whose Secrets are unverified; it must not block.
func (s *Store) Guard(ctx context.Context, enqueue func(bundle types.NamespacedName)) error {
	client, err := metadata.NewForConfig(kube.Watching(s.app.RESTConfig))
	if err != nil {
		return fmt.Errorf("building the client of values secrets: %w", err)
	}
	secrets := client.Resource(corev1.SchemeGroupVersion.WithResource("secrets"))
	g := &guard{Store: s, enqueue: enqueue, own: managerOf(s.app.RESTConfig)}
	g.queue = queue.New(queue.Options{Name: "values-guard", Workers: 2, Log: s.app.Log}, g.handle)
	synced := []cache.InformerSynced{s.app.MayReconcile, s.app.BundleDeployments.Informer().HasSynced}
	go g.queue.Run(ctx, synced...)
	go g.abandoned.Run(ctx, synced...)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), synced...) {
			g.reflector(secrets).RunWithContext(ctx)
		}
	}()
	return nil
}

// managerOf returns the field manager that an API server records for requests that name none.
func managerOf(cfg *rest.Config) string {
	agent := cfg.UserAgent
	if agent == "" {
		agent = rest.DefaultKubernetesUserAgent()
	}
	manager, _, _ := strings.Cut(agent, "/")
	return manager
}

// listed makes a reflector list page by page instead of streaming the list. Each page is stripped when it arrives.
type listed struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is always true.
func (listed) IsWatchListSemanticsUnSupported() bool { return true }

func (g *guard) reflector(secrets metadata.Getter) *cache.Reflector {
	const selector = "type=" + fleet.SecretTypeBundleDeployment
	source := listed{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			// Resource version 0 would return everything in one answer.
			o.FieldSelector, o.Limit, o.ResourceVersion, o.ResourceVersionMatch = selector, guardPage, "", ""
			page, err := secrets.List(ctx, o)
			if err != nil {
				return nil, err
			}
			for i := range page.Items {
				page.Items[i] = *g.strip(&page.Items[i])
			}
			return page, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return secrets.Watch(ctx, o)
		},
	}}
	return cache.NewReflectorWithOptions(source, &metav1.PartialObjectMetadata{}, g, cache.ReflectorOptions{Name: "values-guard"})
}

// Marks of stripped metadata: its managed fields show an edit by others, or it has no owner.
const (
	edited  = "edited"
	unowned = "unowned"
)

// strip returns only the metadata that the guard needs.
func (g *guard) strip(secret *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	stripped := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: secret.Namespace, Name: secret.Name, ResourceVersion: secret.ResourceVersion,
	}}
	switch {
	case len(secret.OwnerReferences) == 0:
		stripped.Annotations = map[string]string{unowned: ""}
	case editedByOthers(secret.ManagedFields, g.own):
		stripped.Annotations = map[string]string{edited: ""}
	}
	return stripped
}

// editedByOthers reports whether the values in a Secret were last written by a client other than a hub, or are
// missing. The last writer of a field is its only manager.
func editedByOthers(entries []metav1.ManagedFieldsEntry, own string) bool {
	hasValues := false
	for _, entry := range entries {
		var fields struct {
			Data map[string]any `json:"f:data"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil || len(fields.Data) == 0 {
			continue
		}
		if entry.Manager != own && entry.Manager != hubManager {
			return true
		}
		_, has := fields.Data["f:"+helmvalues.KeyCurrent]
		hasValues = hasValues || has
	}
	return !hasValues
}

// Add is called by the reflector for a new Secret.
func (g *guard) Add(obj any) error { return g.Update(obj) }

// Update is called by the reflector for a changed Secret.
func (g *guard) Update(obj any) error {
	if secret, ok := obj.(*metav1.PartialObjectMetadata); ok && editedByOthers(secret.ManagedFields, g.own) {
		g.queue.AddAfter(reconcile.KeyOf(secret), guardDelay)
	}
	return nil
}

// Delete is called by the reflector for a deleted Secret.
func (g *guard) Delete(obj any) error {
	if secret, ok := obj.(*metav1.PartialObjectMetadata); ok {
		g.queue.AddAfter(reconcile.KeyOf(secret), guardDelay)
	}
	return nil
}

// Replace is called by the reflector with the list of all Secrets.
func (g *guard) Replace(all []any, _ string) error {
	deployments, err := g.app.BundleDeployments.Cache().List(metav1.NamespaceAll, labels.Everything())
	if err != nil {
		return err
	}
	broken, abandoned := damaged(all, deployments)
	for _, key := range broken {
		g.queue.AddAfter(key, guardDelay)
	}
	for _, key := range abandoned {
		g.abandoned.AddAfter(key, abandonedDelay)
	}
	return nil
}

// damaged returns the Secrets to compare: those that others have edited, those of BundleDeployments that have no owner,
// and the missing Secrets of BundleDeployments. abandoned are the Secrets that have neither an owner nor a
// BundleDeployment, or whose BundleDeployment refers to none. The given Secrets are stripped.
func damaged(secrets []any, deployments []*fleet.BundleDeployment) (broken, abandoned []types.NamespacedName) {
	needed := make(map[types.NamespacedName]bool, len(deployments))
	for _, bd := range deployments {
		needed[reconcile.KeyOf(bd)] = bd.Spec.ValuesHash != ""
	}
	for _, obj := range secrets {
		secret, ok := obj.(*metav1.PartialObjectMetadata)
		if !ok {
			continue
		}
		_, isEdited := secret.Annotations[edited]
		_, isUnowned := secret.Annotations[unowned]
		switch used, deployed := needed[reconcile.KeyOf(secret)]; {
		case isUnowned && !deployed, deployed && !used:
			abandoned = append(abandoned, reconcile.KeyOf(secret))
		case isUnowned || isEdited:
			broken = append(broken, reconcile.KeyOf(secret))
		}
		delete(needed, reconcile.KeyOf(secret))
	}
	for key, missing := range needed {
		if missing {
			broken = append(broken, key)
		}
	}
	return broken, abandoned
}

// Resync is called by the reflector for periodic resyncs, which are not used.
func (g *guard) Resync() error { return nil }

// handle has the Secret of a BundleDeployment compared again, if it should have one.
func (g *guard) handle(_ context.Context, key types.NamespacedName) error {
	bd, err := reconcile.Optional(g.app.BundleDeployments.Cache().Get(key.Namespace, key.Name))
	if err != nil || bd == nil || bd.Spec.ValuesHash == "" || bd.DeletionTimestamp != nil {
		return err
	}
	g.MarkUnverified(bd.UID)
	g.enqueue(index.BundleOf(bd))
	return nil
}
