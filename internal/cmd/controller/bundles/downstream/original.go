package downstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Kinds that can be copied, as they are written in keys.
const (
	kindSecret    = "secret"
	kindConfigMap = "configmap"
)

// Errors that remain until a user changes something.
var (
	errKind    = errors.New("kind must be Secret or ConfigMap, and name must be set")
	errMissing = errors.New("it does not exist in the Bundle's namespace")
	errTaken   = errors.New("that is the name of a Secret with the values of a Bundle on this cluster; rename the original")

	errKubeconfig     = errors.New("it is the kubeconfig of a Cluster, which is never copied; put what the bundle needs into a Secret of its own")
	errHeldKubeconfig = errors.New("a kubeconfig is never copied; put what the bundle needs into a Secret of its own, without a kubeconfig")
	errOwn            = errors.New("it is one of Fleet's own Secrets, which are never copied; put what the bundle needs into a Secret of its own")
	errToken          = errors.New("it is the token of a ServiceAccount (type " + string(corev1.SecretTypeServiceAccountToken) + "), which is never copied; " +
		"put what the bundle needs into a Secret of another type")
	errOccupied = errors.New("the cluster's namespace has an object of that name that is not a copy; rename the original, or remove that object")
	errAnothers = errors.New("the cluster's namespace has a copy of that name for a Bundle of another workspace; rename the original")
)

// isTrouble reports whether only a user can fix the error.
func isTrouble(err error) bool {
	for _, trouble := range []error{errKind, errMissing, errTaken, errOccupied, errAnothers} {
		if errors.Is(err, trouble) {
			return true
		}
	}
	return isRefusal(err) || apierrors.IsInvalid(err)
}

// isRefusal reports whether mayBeCopied has refused a Secret. A retry does not help.
func isRefusal(err error) bool {
	for _, refusal := range []error{errKubeconfig, errHeldKubeconfig, errOwn, errToken} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// kindOf converts a kind to lower case and reports whether it can be copied.
func kindOf(kind string) (string, bool) {
	kind = strings.ToLower(kind)
	return kind, kind == kindSecret || kind == kindConfigMap
}

// original identifies an object to copy.
type original struct {
	kind string
	key  types.NamespacedName
}

// mayBeCopied returns an error if the Secret must not leave the hub or its workspace.
func (h *handler) mayBeCopied(o original, read *payload) error {
	switch {
	case o.kind != kindSecret:
		return nil
	case read.secretType == corev1.SecretTypeServiceAccountToken:
		return errToken
	case isOwnType(read.secretType), o.key.Name == names.Agent, o.key.Name == names.AgentBootstrap, o.key.Name == names.Recovery:
		return errOwn
	case read.kubeconfig != "":
		return fmt.Errorf("its key %s: %w", read.kubeconfig, errHeldKubeconfig)
	}
	clusters, err := h.app.Clusters.Cache().GetByIndex(hub.ClustersByKubeconfig, o.key.String())
	if err != nil {
		return err
	}
	// A Cluster of another workspace can refer to any Secret. If it counted, its owner could have the copies of others
	// removed.
	if slices.ContainsFunc(clusters, func(c *fleet.Cluster) bool { return c.Namespace == o.key.Namespace }) {
		return errKubeconfig
	}
	return nil
}

// isOwnType reports whether Secrets of a type belong to Fleet itself.
func isOwnType(t corev1.SecretType) bool { return strings.HasPrefix(string(t), "fleet.cattle.io/") }

// String returns "<kind>/<namespace>/<name>".
func (o original) String() string { return o.kind + "/" + o.key.String() }

// payload is the part of an original that is copied.
type payload struct {
	version    string
	secretType corev1.SecretType
	text       map[string]string
	data       map[string][]byte
	// kubeconfig is the key that holds a kubeconfig, or empty. Such a Secret is refused even if no Cluster refers to
	// it now.
	kubeconfig string
}

// keyOfKubeconfig returns the first key whose value is a kubeconfig, or an empty string.
func keyOfKubeconfig(data map[string][]byte) string {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if kubeconfig.Is(data[key]) {
			return key
		}
	}
	return ""
}

// read returns an original, from memory or from the API server. It returns errMissing if the original does not exist.
func (h *handler) read(ctx context.Context, o original) (*payload, error) {
	known, changes := h.originals.get(o)
	if known != nil {
		return known, nil
	}
	read, err := h.readLive(ctx, o)
	if err == nil && read == nil {
		err = errMissing
	}
	if err != nil {
		return nil, err
	}
	h.originals.put(o, read, changes)
	return read, nil
}

func (h *handler) readLive(ctx context.Context, o original) (*payload, error) {
	core := h.app.Kube.CoreV1()
	if o.kind == kindSecret {
		found, err := reconcile.Optional(core.Secrets(o.key.Namespace).Get(ctx, o.key.Name, metav1.GetOptions{}))
		if err != nil || found == nil {
			return nil, err
		}
		return &payload{version: found.ResourceVersion, secretType: found.Type, data: found.Data, kubeconfig: keyOfKubeconfig(found.Data)}, nil
	}
	found, err := reconcile.Optional(core.ConfigMaps(o.key.Namespace).Get(ctx, o.key.Name, metav1.GetOptions{}))
	if err != nil || found == nil {
		return nil, err
	}
	return &payload{version: found.ResourceVersion, text: found.Data, data: found.BinaryData}, nil
}

// mostOriginals limits the number of originals in memory. A few are enough, because a changed original is copied to
// many clusters in a row.
const mostOriginals = 16

// originals caches the originals that were read last, until they change.
type originals struct {
	mu    sync.Mutex
	known map[original]*payload
	// changes counts the changes of all originals. An original that was read before a change may be outdated.
	changes int
}

func newOriginals() *originals { return &originals{known: map[original]*payload{}} }

// get returns nil if the original has to be read. The caller passes changes to put.
func (o *originals) get(key original) (known *payload, changes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[key], o.changes
}

func (o *originals) put(key original, read *payload, changes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if changes != o.changes {
		return
	}
	if len(o.known) >= mostOriginals {
		clear(o.known)
	}
	o.known[key] = read
}

func (o *originals) forget(key original) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changes++
	delete(o.known, key)
}
