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
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Kinds that can be copied, as they are written in keys.
const (
	kindSecret    = "secret"
	kindConfigMap = "configmap"
)

// What is wrong with a copy, until somebody changes something.
var (
	errKind    = errors.New("only a Secret or ConfigMap that has a name can be copied")
	errMissing = errors.New("there is none in the Bundle's namespace")
	errTaken   = errors.New("that is the name of a Secret with the values of a Bundle on this cluster; name the original otherwise")

	errKubeconfig     = errors.New("it is the kubeconfig of a Cluster, which is never copied; put what the bundle needs into a Secret of its own")
	errHeldKubeconfig = errors.New("a kubeconfig is never copied; put what the bundle needs into a Secret of its own, without a kubeconfig")
	errOwn            = errors.New("it is one of Fleet's own Secrets, which are never copied; put what the bundle needs into a Secret of its own")
	errToken          = errors.New("it is the token of a ServiceAccount (type " + string(corev1.SecretTypeServiceAccountToken) + "), which is never copied; " +
		"put what the bundle needs into a Secret of another type")
	errOccupied = errors.New("the cluster's namespace has one of that name that is not a copy; name the original otherwise, or remove the other one")
)

// isTrouble says whether only a user can help.
func isTrouble(err error) bool {
	for _, trouble := range []error{errKind, errMissing, errTaken, errOccupied} {
		if errors.Is(err, trouble) {
			return true
		}
	}
	return isRefusal(err) || apierrors.IsInvalid(err)
}

// isRefusal says whether an error is of mayBeCopied, and for good.
func isRefusal(err error) bool {
	for _, refusal := range []error{errKubeconfig, errHeldKubeconfig, errOwn, errToken} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// kindOf reads a kind however it is written.
func kindOf(kind string) (string, bool) {
	kind = strings.ToLower(kind)
	return kind, kind == kindSecret || kind == kindConfigMap
}

// original names what is copied.
type original struct {
	kind string
	key  types.NamespacedName
}

// mayBeCopied returns why a Secret must not leave the hub, or its workspace; nil if it may.
func (h *handler) mayBeCopied(o original, read *payload) error {
	switch {
	case o.kind != kindSecret:
		return nil
	case read.secretType == corev1.SecretTypeServiceAccountToken:
		return errToken
	case isOwnType(read.secretType), o.key.Name == names.Agent, o.key.Name == names.AgentBootstrap:
		return errOwn
	case read.kubeconfig != "":
		return fmt.Errorf("its key %s: %w", read.kubeconfig, errHeldKubeconfig)
	}
	clusters, err := h.app.Clusters.Cache().GetByIndex(hub.ClustersByKubeconfig, o.key.String())
	if err != nil {
		return err
	}
	// A Cluster of another workspace counts only for what looks like a kubeconfig: it could name any Secret.
	if slices.ContainsFunc(clusters, func(c *fleet.Cluster) bool {
		return c.Namespace == o.key.Namespace || len(read.data[protocol.KubeconfigValueKey]) > 0
	}) {
		return errKubeconfig
	}
	return nil
}

// isOwnType says whether Secrets of a type are written by Fleet for itself.
func isOwnType(t corev1.SecretType) bool { return strings.HasPrefix(string(t), "fleet.cattle.io/") }

// String is "<kind>/<namespace>/<name>".
func (o original) String() string { return o.kind + "/" + o.key.String() }

// payload is what is copied of an original.
type payload struct {
	version    string
	secretType corev1.SecretType
	text       map[string]string
	data       map[string][]byte
	// kubeconfig is a key with a kubeconfig, "" for none: a Cluster may have named the Secret before, or name it yet.
	kubeconfig string
}

// keyOfKubeconfig is the first key of a Secret's data that holds a kubeconfig.
func keyOfKubeconfig(data map[string][]byte) string {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if kubeconfig.Is(data[key]) {
			return key
		}
	}
	return ""
}

// read asks the API server for an original; errMissing if it is not there.
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

// mostOriginals is how many are kept: a change of one is copied to many clusters in a row.
const mostOriginals = 16

// originals are those read last, until they change.
type originals struct {
	mu    sync.Mutex
	known map[original]*payload
	// changes counts those of all originals: what was read before one may be of the past.
	changes int
}

func newOriginals() *originals { return &originals{known: map[original]*payload{}} }

// get is nil for one that has to be read. put wants to know how many changes there were then.
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
