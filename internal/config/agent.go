package config

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/yamlbound"
)

// Agent is what the ConfigMap fleet-agent tells a downstream agent. The order of its fields is the
// order of the keys an import writes.
type Agent struct {
	// Labels are proposed for the Cluster, should the registration create it.
	Labels map[string]string `json:"labels,omitempty"`
	// ClientID is the agent's identity towards the hub; empty means the UID of kube-system.
	ClientID string `json:"clientID,omitempty"`
	// AgentTLSMode is one of the TLSMode constants; empty means strict.
	AgentTLSMode string `json:"agentTLSMode,omitempty"`
	// GarbageCollectionInterval is how often the agent looks for releases nobody asks for any more.
	GarbageCollectionInterval metav1.Duration `json:"garbageCollectionInterval,omitzero"`
}

// Encode is the value of the ConfigMap's config key.
func (a Agent) Encode() (string, error) {
	encoded, err := json.Marshal(a)
	if err != nil {
		return "", fmt.Errorf("encoding the agent's configuration: %w", err)
	}
	return string(encoded), nil
}

// ParseAgent reads the value of the config key of ConfigMap fleet-agent, as an import or a chart wrote
// it. Empty input is the zero Agent. What is said of durations and unknown keys at Parse holds here.
func ParseAgent(document string) (Agent, []string, error) {
	if err := yamlbound.Check([]byte(document)); err != nil {
		return Agent{}, nil, fmt.Errorf("reading the agent's configuration: %w", err)
	}
	raw := map[string]any{}
	if err := yaml.Unmarshal([]byte(document), &raw); err != nil {
		return Agent{}, nil, fmt.Errorf("reading the agent's configuration: %w", err)
	}
	warnings := dropBadDurations(raw, "garbageCollectionInterval")
	clean, err := json.Marshal(raw)
	if err != nil {
		return Agent{}, nil, fmt.Errorf("reading the agent's configuration: %w", err)
	}
	var parsed Agent
	if err := json.Unmarshal(clean, &parsed); err != nil {
		return Agent{}, nil, fmt.Errorf("reading the agent's configuration: %w", err)
	}
	return parsed, warnings, nil
}
