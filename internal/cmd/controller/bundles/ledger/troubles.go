package ledger

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cut"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Troubles are what is wrong beside single BundleDeployments, as told by others than the controller of Bundles: what is
// to be copied beside one is not there. It is safe for concurrent use; the zero value is not ready, see NewTroubles.
type Troubles struct {
	changed func(bundle types.NamespacedName)

	mu    sync.RWMutex
	texts map[types.NamespacedName]string
}

// NewTroubles has changed called after something has become of a Bundle's troubles; it must not block.
func NewTroubles(changed func(bundle types.NamespacedName)) *Troubles {
	return &Troubles{changed: changed, texts: map[types.NamespacedName]string{}}
}

// Set writes down what is wrong beside a BundleDeployment of a Bundle; nothing is, if the text is empty.
func (t *Troubles) Set(deployment, bundle types.NamespacedName, text string) {
	text = cut.Text(text, fleet.MaxMessage)
	t.mu.Lock()
	same := t.texts[deployment] == text
	if text == "" {
		delete(t.texts, deployment)
	} else {
		t.texts[deployment] = text
	}
	t.mu.Unlock()
	if !same {
		t.changed(bundle)
	}
}

// Of is what is wrong beside a BundleDeployment; empty if nothing is.
func (t *Troubles) Of(deployment types.NamespacedName) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.texts[deployment]
}
