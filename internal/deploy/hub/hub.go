package hub

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/helmvalues"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/kube/answers"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Resources of the hub's API.
const (
	BundleDeployments = "bundledeployments"
	Contents          = "contents"
)

// Hub is the client of the upstream API server, within the rights of an agent. It watches the BundleDeployments of
// one namespace and writes their status. It gets Secrets, ConfigMaps and Contents by name, and never lists them.
type Hub struct {
	namespace string
	Fleet     rest.Interface
	core      corev1client.CoreV1Interface
	Informer  cache.SharedIndexInformer
	// onlyPatch is true once the hub has refused a status update and accepted a patch.
	onlyPatch atomic.Bool
}

// New creates the clients. The config must come from WithBounds.
func New(config *rest.Config, namespace string) (*Hub, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the hub: %w", err)
	}
	core, err := corev1client.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("making a client for the hub: %w", err)
	}
	fleetClient, err := kube.FleetClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("making a client for the hub: %w", err)
	}
	informer := cache.NewSharedIndexInformer(
		cache.NewListWatchFromClient(fleetClient, BundleDeployments, namespace, fields.Everything()),
		&fleet.BundleDeployment{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	return &Hub{namespace: namespace, Fleet: fleetClient, core: core, Informer: informer}, nil
}

// Cached returns a BundleDeployment from the cache, nil if it does not exist. The caller must not change it.
func (h *Hub) Cached(name string) *fleet.BundleDeployment {
	object, exists, err := h.Informer.GetStore().GetByKey(h.namespace + "/" + name)
	if err != nil || !exists {
		return nil // the in-memory store returns no errors
	}
	bd, _ := object.(*fleet.BundleDeployment)
	return bd
}

// All returns all cached BundleDeployments. The caller must not change them.
func (h *Hub) All() []*fleet.BundleDeployment {
	var found []*fleet.BundleDeployment
	for _, object := range h.Informer.GetStore().List() {
		if bd, ok := object.(*fleet.BundleDeployment); ok {
			found = append(found, bd)
		}
	}
	return found
}

// ConfirmGone checks with a get request whether a BundleDeployment was really deleted. An open watch continues
// after the agent has lost its rights, and then reports the cleanup of the cluster's namespace. Deletions by a hub
// that no longer knows the agent do not count: the workloads keep running.
// An answer of something else is an error, such as a 404 from a proxy or a hub without the CRD: the caller tries again.
func (h *Hub) ConfirmGone(ctx context.Context, name string) (bool, error) {
	err := h.Fleet.Get().Namespace(h.namespace).Resource(BundleDeployments).Name(name).Do(ctx).Error()
	switch {
	case answers.IsDeleted(err):
		return true, nil
	case err == nil, apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return false, nil
	}
	return false, fmt.Errorf("checking whether BundleDeployment %s was deleted: %w", name, err)
}

// Values reads the values of a BundleDeployment from its Secret. The hash shows whether the API server's cache has
// the right version.
func (h *Hub) Values(ctx context.Context, bd *fleet.BundleDeployment) (map[string]any, error) {
	secret, err := fromMemory(func(options metav1.GetOptions) (*corev1.Secret, error) {
		return h.core.Secrets(h.namespace).Get(ctx, bd.Name, options)
	}, func(found *corev1.Secret) bool { return haveHash(found.Data, bd.Spec.ValuesHash) })
	if err != nil {
		return nil, missingOnHub(err, conditions.ReasonHelmValuesInvalid, fmt.Errorf("reading the Secret with the Helm values: %w", err))
	}
	return optionsValues(secret.Data, bd.Spec.ValuesHash)
}

// ErrValuesHash means that the Secret with the values does not match the hash in the BundleDeployment. The
// controller writes the two objects one after the other, so a retry resolves it.
var ErrValuesHash = outcome.Because(conditions.ReasonHelmValuesInvalid,
	errors.New("the Secret with the Helm values does not match the hash in the BundleDeployment"))

// optionsValues returns the current values from a BundleDeployment's Secret, after it has checked the hash. The
// hash covers both keys.
func optionsValues(data map[string][]byte, wantHash string) (map[string]any, error) {
	if !haveHash(data, wantHash) {
		return nil, ErrValuesHash
	}
	current := data[helmvalues.KeyCurrent]
	if len(current) == 0 {
		return nil, nil
	}
	var values map[string]any
	if err := utiljson.Unmarshal(current, &values); err != nil {
		return nil, errors.New("the values in the BundleDeployment's Secret are not a JSON object")
	}
	return values, nil
}

// haveHash reports whether the values match a hash.
func haveHash(data map[string][]byte, hash string) bool {
	return helmvalues.Hash(data[helmvalues.KeyCurrent], data[helmvalues.KeyStaged]) == hash
}

// Manifest reads the resources of a BundleDeployment. The Content of a name never changes.
func (h *Hub) Manifest(ctx context.Context, id string) (content.Manifest, error) {
	found, err := fromMemory(func(options metav1.GetOptions) (*fleet.Content, error) {
		var found fleet.Content
		return &found, h.Fleet.Get().Resource(Contents).Name(id).VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Into(&found)
	}, func(*fleet.Content) bool { return true })
	if err != nil {
		return content.Manifest{}, missingOnHub(err, conditions.ReasonContentMissing, fmt.Errorf("reading the content of the bundle: %w", err))
	}
	return content.Read(found)
}

// inMemory is the resource version that requests an answer from the API server's cache, which takes half the time
// of a read from storage.
const inMemory = "0"

// fromMemory reads an object from the API server's cache, which may be older than the watch. If the object is
// missing or not the right version, it reads again from storage.
func fromMemory[T any](read func(metav1.GetOptions) (T, error), isRight func(T) bool) (T, error) {
	found, err := read(metav1.GetOptions{ResourceVersion: inMemory})
	if apierrors.IsNotFound(err) || err == nil && !isRight(found) {
		return read(metav1.GetOptions{})
	}
	return found, err
}

// Secret reads an object to copy downstream, as ConfigMap does. Both read from storage: nothing would detect an older
// version from the cache, and that version would stay downstream until the next generation.
func (h *Hub) Secret(ctx context.Context, name string) (*corev1.Secret, error) {
	found, err := h.core.Secrets(h.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, missingOnHub(err, conditions.ReasonContentMissing, fmt.Errorf("reading Secret %s to copy it: %w", name, err))
	}
	return found, nil
}

func (h *Hub) ConfigMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	found, err := h.core.ConfigMaps(h.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, missingOnHub(err, conditions.ReasonContentMissing, fmt.Errorf("reading ConfigMap %s to copy it: %w", name, err))
	}
	return found, nil
}

// missingOnHub adds a reason to cause if err is NotFound.
func missingOnHub(err error, reason string, cause error) error {
	if apierrors.IsNotFound(err) {
		return outcome.Because(reason, cause)
	}
	return cause
}

// Newer returns the object with the higher resource version. Resource versions of an object only increase, except
// on a hub that was restored (records.hubRestored).
func Newer(a, b *fleet.BundleDeployment) *fleet.BundleDeployment {
	if a == nil || b == nil || a.UID != b.UID {
		if a != nil {
			return a
		}
		return b
	}
	if Earlier(a, b) {
		return b
	}
	return a
}

// Earlier reports whether a has the lower resource version.
func Earlier(a, b *fleet.BundleDeployment) bool {
	versionA, errA := strconv.ParseUint(a.ResourceVersion, 10, 64)
	versionB, errB := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return errA == nil && errB == nil && versionA < versionB
}
