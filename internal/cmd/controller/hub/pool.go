package hub

import (
	"sync"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// mostTexts bounds how many texts a pool knows. Agents mostly have the same settings.
const mostTexts = 128

// pool lets the agents' Bundles in a cache share their manifests: a thousand Clusters have a thousand of them, each
// of some kilobytes, and few that differ.
type pool struct {
	words *words

	mu    sync.Mutex
	texts map[string]string
}

func newPool() *pool { return &pool{words: newWords(), texts: map[string]string{}} }

// slim is the function slim, and shares what is in agents' Bundles and in BundleDeployments. What agents report is cut to
// what a status may hold: whatever controllers take from it into other objects is not longer than that.
func (p *pool) slim(obj any) (any, error) {
	obj, err := slim(obj)
	switch object := obj.(type) {
	case *fleet.BundleDeployment:
		object.Status.Resources = nil // not to be measured first
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

// share returns an equal text, the same one each time as long as few others come.
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
