package ledger

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cut"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Troubles are problems that controllers other than that of Bundles report for single BundleDeployments, such as a
// missing original of a copy. Troubles is safe for concurrent use. Create it with NewTroubles.
type Troubles struct {
	changed func(bundle types.NamespacedName)

	mu    sync.RWMutex
	texts map[types.NamespacedName]string
}

// NewTroubles returns empty Troubles. changed is called after a problem of a Bundle has changed; it must not block.
func NewTroubles(changed func(bundle types.NamespacedName)) *Troubles {
	return &Troubles{changed: changed, texts: map[types.NamespacedName]string{}}
}

// Set stores a problem with a BundleDeployment of a Bundle. An empty text removes it.
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

// Of returns the problem with a BundleDeployment, or an empty string.
func (t *Troubles) Of(deployment types.NamespacedName) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.texts[deployment]
}
