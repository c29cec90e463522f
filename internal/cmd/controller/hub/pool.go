package hub

import (
	"sync"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// mostTexts limits the texts in a pool. Most agents have the same settings.
const mostTexts = 128

// pool lets the agents' Bundles in a cache share their manifests. A thousand Clusters have a thousand Bundles of
// several kilobytes each, and few of them differ.
type pool struct {
	words *words

	mu    sync.Mutex
	texts map[string]string
}

func newPool() *pool { return &pool{words: newWords(), texts: map[string]string{}} }

// slim calls the function slim, and shares texts of agents' Bundles and BundleDeployments. It cuts what agents report
// to the limits of a status, so that nothing longer gets into other objects.
func (p *pool) slim(obj any) (any, error) {
	obj, err := slim(obj)
	switch object := obj.(type) {
	case *fleet.BundleDeployment:
		object.Status.Resources = nil // drop it before Bound measures it
		state.Bound(object)
		p.words.slim(object)
	case *fleet.Cluster:
		state.Bound(object)
	}
	bundle, ok := obj.(*fleet.Bundle)
	if err != nil || !ok || bundle.Annotations[fleet.AnnotationSetID] != names.AgentBundleSet {
		return obj, err
	}
	for i := range bundle.Spec.Resources {
		bundle.Spec.Resources[i].Content = p.share(bundle.Spec.Resources[i].Content)
	}
	return obj, nil
}

// share returns an equal text, and the same one each time until the pool is full.
func (p *pool) share(text string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.texts[text]; ok {
		return known
	}
	if len(p.texts) >= mostTexts {
		clear(p.texts)
	}
	p.texts[text] = text
	return text
}
