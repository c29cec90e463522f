package deploy

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Resources of the hub's API.
const (
	bundleDeployments = "bundledeployments"
	contents          = "contents"
)

// hub is the upstream API server, within the rights of an agent: it watches the
// BundleDeployments of one namespace and writes their status; it gets Secrets, ConfigMaps and Contents by
// name, and never lists them.
type hub struct {
	namespace string
	fleet     rest.Interface
	core      kubernetes.Interface
	informer  cache.SharedIndexInformer
	// onlyPatch is set once the hub has refused to have a status updated, and had it patched.
	onlyPatch atomic.Bool
}

// newHub makes the clients. The config has to be bounded.
func newHub(config *rest.Config, namespace string) (*hub, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the hub: %w", err)
	}
	core, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("making a client for the hub: %w", err)
	}
	fleetClient, err := kube.FleetClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("making a client for the hub: %w", err)
	}
	informer := cache.NewSharedIndexInformer(
		kube.Relisting(cache.NewListWatchFromClient(fleetClient, bundleDeployments, namespace, fields.Everything())),
		&fleet.BundleDeployment{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	return &hub{namespace: namespace, fleet: fleetClient, core: core, informer: informer}, nil
}

// cached returns a BundleDeployment as last heard of, nil if it is gone. It must not be changed.
func (h *hub) cached(name string) *fleet.BundleDeployment {
	object, exists, err := h.informer.GetStore().GetByKey(h.namespace + "/" + name)
	if err != nil || !exists {
		return nil // a store in memory knows no errors
	}
	bd, _ := object.(*fleet.BundleDeployment)
	return bd
}

// all returns every BundleDeployment. They must not be changed.
func (h *hub) all() []*fleet.BundleDeployment {
	var found []*fleet.BundleDeployment
	for _, object := range h.informer.GetStore().List() {
		if bd, ok := object.(*fleet.BundleDeployment); ok {
			found = append(found, bd)
		}
	}
	return found
}

// confirmGone asks whether a BundleDeployment the watch says is gone was taken from this agent, or all of its
// rights were: a watch that is open goes on after they ended, and tells of the cluster's namespace being emptied.
// What a hub that no longer knows the agent deletes is not its business any more, and what runs stays.
func (h *hub) confirmGone(ctx context.Context, name string) (bool, error) {
	err := h.fleet.Get().Namespace(h.namespace).Resource(bundleDeployments).Name(name).Do(ctx).Error()
	switch {
	case apierrors.IsNotFound(err):
		// A hub without the kind has lost everything, and says nothing about any one BundleDeployment.
		return !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse), nil
	case err == nil, apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return false, nil
	}
	return false, fmt.Errorf("asking whether BundleDeployment %s is gone: %w", name, err)
}

// values reads the values of a BundleDeployment from its Secret. The hash tells whether the API server's memory has the
// right ones already.
func (h *hub) values(ctx context.Context, bd *fleet.BundleDeployment) (map[string]any, error) {
	secret, err := fromMemory(func(options metav1.GetOptions) (*corev1.Secret, error) {
		return h.core.CoreV1().Secrets(h.namespace).Get(ctx, bd.Name, options)
	}, func(found *corev1.Secret) bool { return haveHash(found.Data, bd.Spec.ValuesHash) })
	if err != nil {
		return nil, because(fleet.ReasonHelmValuesInvalid, fmt.Errorf("reading the Secret with the Helm values: %w", err))
	}
	return optionsValues(secret.Data, bd.Spec.ValuesHash)
}

// manifest reads the resources of a BundleDeployment. A Content never changes under its name.
func (h *hub) manifest(ctx context.Context, id string) (content.Manifest, error) {
	found, err := fromMemory(func(options metav1.GetOptions) (*fleet.Content, error) {
		var found fleet.Content
		return &found, h.fleet.Get().Resource(contents).Name(id).VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Into(&found)
	}, func(*fleet.Content) bool { return true })
	if err != nil {
		return content.Manifest{}, missingOnHub(err, fmt.Errorf("reading the content of the bundle: %w", err))
	}
	return content.Read(found)
}

// inMemory asks the API server for what it has in memory, which takes it half the time of asking its storage.
const inMemory = "0"

// fromMemory reads an object from the API server's memory, which may lag behind what the watch has told: what is not
// there, or not right, is read once more from storage.
func fromMemory[T any](read func(metav1.GetOptions) (T, error), isRight func(T) bool) (T, error) {
	found, err := read(metav1.GetOptions{ResourceVersion: inMemory})
	if apierrors.IsNotFound(err) || err == nil && !isRight(found) {
		return read(metav1.GetOptions{})
	}
	return found, err
}

// secret and configMap read objects that are to be copied downstream. They come from storage: nothing tells an older
// state from the one that the deployment's generation is about, and it would stay until the next one.
func (h *hub) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	return h.core.CoreV1().Secrets(h.namespace).Get(ctx, name, metav1.GetOptions{})
}

func (h *hub) configMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	return h.core.CoreV1().ConfigMaps(h.namespace).Get(ctx, name, metav1.GetOptions{})
}

// newer returns the object that was written later. Resource versions of one object grow, but on a hub that was
// restored (deployer.rewound).
func newer(a, b *fleet.BundleDeployment) *fleet.BundleDeployment {
	if a == nil || b == nil || a.UID != b.UID {
		if a != nil {
			return a
		}
		return b
	}
	if earlier(a, b) {
		return b
	}
	return a
}

// earlier tells whether a has the lower resource version.
func earlier(a, b *fleet.BundleDeployment) bool {
	versionA, errA := strconv.ParseUint(a.ResourceVersion, 10, 64)
	versionB, errB := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return errA == nil && errB == nil && versionA < versionB
}
