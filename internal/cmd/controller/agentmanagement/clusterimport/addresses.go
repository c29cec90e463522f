package clusterimport

import (
	"crypto/sha256"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// addresses remembers for each Cluster what its kubeconfig Secret contains about the hub's address, and in which
// version of the Secret. The kubeconfig itself is never kept, only whether it has changed.
type addresses struct {
	mu   sync.Mutex
	seen map[string]*remembered
}

type remembered struct {
	// Secret is nil if it did not exist when it was last read.
	*corev1.Secret

	kubeconfig [sha256.Size]byte
	// changed means that this kubeconfig was not used yet, but an earlier one was.
	changed bool
}

func newAddresses() *addresses { return &addresses{seen: map[string]*remembered{}} }

// get returns what is remembered of this version of the Secret, with a placeholder for the kubeconfig. It returns nil
// if nothing is remembered.
func (a *addresses) get(cluster string, name types.NamespacedName, version string) *corev1.Secret {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.seen[cluster]
	if known == nil || known.Secret == nil || version == "" || known.ResourceVersion != version {
		return nil
	}
	if known.Namespace != name.Namespace || known.Name != name.Name {
		return nil // the Cluster now names another Secret
	}
	return known.Secret
}

// changed reports whether the kubeconfig differs from the one that was used last.
func (a *addresses) changed(cluster string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[cluster] != nil && a.seen[cluster].changed
}

// used records that a kubeconfig was used, unless it has been replaced since.
func (a *addresses) used(cluster string, kubeconfig []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.seen[cluster]; known != nil && known.kubeconfig == sha256.Sum256(kubeconfig) {
		known.changed = false
	}
}

// put remembers a Secret that was read. For a Secret that does not exist, only the hash of the last kubeconfig is
// kept: the Secret may be created again with the kubeconfig of another cluster.
func (a *addresses) put(cluster string, secret *corev1.Secret) {
	if secret == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		if known := a.seen[cluster]; known != nil {
			known.Secret = nil
		}
		return
	}
	slim := &corev1.Secret{Data: map[string][]byte{protocol.KubeconfigValueKey: []byte("not kept")}}
	slim.Namespace, slim.Name, slim.ResourceVersion = secret.Namespace, secret.Name, secret.ResourceVersion
	if allowed, found := secret.Annotations[fleet.AnnotationAllowedWorkspaces]; found {
		slim.Annotations = map[string]string{fleet.AnnotationAllowedWorkspaces: allowed}
	}
	for _, key := range []string{protocol.APIServerURLKey, protocol.APIServerCAKey} {
		if value := secret.Data[key]; len(value) > 0 {
			slim.Data[key] = value
		}
	}
	kubeconfig := sha256.Sum256(secret.Data[protocol.KubeconfigValueKey])
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.seen[cluster]
	a.seen[cluster] = &remembered{
		Secret: slim, kubeconfig: kubeconfig, changed: before != nil && (before.changed || before.kubeconfig != kubeconfig),
	}
}

func (a *addresses) forget(cluster string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.seen, cluster)
}
