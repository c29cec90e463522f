package clusterimport

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/handshake"
)

// addresses remembers, for each Cluster, what a kubeconfig Secret says about the hub's address, and of
// which version of the Secret that is true. The kubeconfig itself is never kept.
type addresses struct {
	mu   sync.Mutex
	seen map[string]*corev1.Secret
}

func newAddresses() *addresses { return &addresses{seen: map[string]*corev1.Secret{}} }

// get is what is remembered of the Secret in this version, with something in place of the kubeconfig;
// nil if nothing is.
func (a *addresses) get(cluster, version string) *corev1.Secret {
	a.mu.Lock()
	defer a.mu.Unlock()
	if secret := a.seen[cluster]; secret != nil && version != "" && secret.ResourceVersion == version {
		return secret
	}
	return nil
}

func (a *addresses) put(cluster string, secret *corev1.Secret) {
	if secret == nil {
		a.forget(cluster)
		return
	}
	slim := &corev1.Secret{Data: map[string][]byte{handshake.KubeconfigValueKey: []byte("not kept")}}
	slim.Namespace, slim.Name, slim.ResourceVersion = secret.Namespace, secret.Name, secret.ResourceVersion
	for _, key := range []string{handshake.APIServerURLKey, handshake.APIServerCAKey} {
		if value := secret.Data[key]; len(value) > 0 {
			slim.Data[key] = value
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[cluster] = slim
}

func (a *addresses) forget(cluster string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.seen, cluster)
}
