package swarm

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/protocol"
)

// Values converts values of the agent's chart to a token's values.
func Values(chart map[string]any) (protocol.Values, error) {
	document, err := yaml.Marshal(chart)
	if err != nil {
		return protocol.Values{}, fmt.Errorf("encoding a token's values: %w", err)
	}
	return protocol.ParseValues(document)
}
