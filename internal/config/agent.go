package config

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/yamlbound"
)

// Agent is the configuration in the agent's ConfigMap fleet-agent. The order of its fields is the order of the
// keys that an import writes.
type Agent struct {
	// Labels are proposed for the Cluster if the registration creates it.
	Labels map[string]string `json:"labels,omitempty"`
	// ClientID identifies the agent to the hub. Empty means the UID of namespace kube-system.
	ClientID string `json:"clientID,omitempty"`
	// AgentTLSMode is one of the TLSMode constants. Empty means strict.
	AgentTLSMode string `json:"agentTLSMode,omitempty"`
	// GarbageCollectionInterval is the interval at which the agent looks for orphaned releases.
	GarbageCollectionInterval metav1.Duration `json:"garbageCollectionInterval,omitzero"`
}

// Encode returns the value of the ConfigMap's config key.
func (a Agent) Encode() (string, error) {
	encoded, err := json.Marshal(a)
	if err != nil {
		return "", fmt.Errorf("encoding the agent's configuration: %w", err)
	}
	return string(encoded), nil
}

// ParseAgent parses the value of the config key of ConfigMap fleet-agent, written by an import or by a chart.
// Empty input gives the zero Agent. It treats durations and unknown keys like Parse.
func ParseAgent(document string) (Agent, []string, error) {
	if err := yamlbound.Check([]byte(document)); err != nil {
		return Agent{}, nil, fmt.Errorf("reading the agent's configuration: %w", err)
	}
	raw := map[string]any{}
	if err := yaml.Unmarshal([]byte(document), &raw); err != nil {
		return Agent{}, nil, fmt.Errorf("reading the agent's configuration: %w", err)
	}
	warnings := dropBadDurations(raw, "garbageCollectionInterval")
	clean, err := yaml.Marshal(raw)
	if err != nil {
		return Agent{}, nil, fmt.Errorf("reading the agent's configuration: %w", err)
	}
	var parsed Agent
	// A chart copies labels as they are, and numbers and truth values become texts here.
	if err := yaml.Unmarshal(clean, &parsed); err != nil {
		return Agent{}, nil, fmt.Errorf("reading the agent's configuration: %w", err)
	}
	return parsed, warnings, nil
}
