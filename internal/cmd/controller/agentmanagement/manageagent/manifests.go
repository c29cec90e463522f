package manageagent

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/rules/importing"
)

// mostManifests bounds what is remembered. Agents mostly have the same settings, and after a change of the hub's
// the old ones are of no use.
const mostManifests = 128

// manifests renders the agent once for all Clusters that want it the same.
type manifests struct {
	render func(importing.AgentValues) ([]byte, error)

	mu       sync.Mutex
	rendered map[string][]byte
}

func newManifests() *manifests {
	return &manifests{render: agentchart.Manifest, rendered: map[string][]byte{}}
}

// of is the manifest for these values; the bytes are shared and must not be changed. An error says which value
// cannot be used, and is the same whenever it is asked.
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
