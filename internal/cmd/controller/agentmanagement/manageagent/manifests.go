package manageagent

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/rules/importing"
)

// mostManifests limits the number of cached manifests. Agents mostly have the same settings, and after a change of
// the hub's settings the old manifests are useless.
const mostManifests = 128

// manifests renders the agent once for all Clusters with the same settings.
type manifests struct {
	render func(importing.AgentValues) ([]byte, error)

	mu       sync.Mutex
	rendered map[string][]byte
}

func newManifests() *manifests {
	return &manifests{render: agentchart.Manifest, rendered: map[string][]byte{}}
}

// of returns the manifest for these values. The bytes are shared and must not be changed. An error names the invalid
// value and is constant.
func (m *manifests) of(values importing.AgentValues) ([]byte, error) {
	encoded, err := json.Marshal(values)
	if err != nil {
		return nil, fmt.Errorf("encoding the agent's settings: %w", err)
	}
	key := string(encoded)
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.rendered[key]; ok {
		return known, nil
	}
	manifest, err := m.render(values)
	if err != nil {
		return nil, err
	}
	if len(m.rendered) >= mostManifests {
		clear(m.rendered)
	}
	m.rendered[key] = manifest
	return manifest, nil
}
