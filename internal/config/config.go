// Package config defines the configuration of the controllers and of the agent: the content of the ConfigMaps
// fleet-controller and fleet-agent, validated once and then passed on as a value.
//
//	bytes of the ConfigMap ─► Parse ─► Config ─► Store ─► every controller
package config

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/yamlbound"
)

// The ways in which an agent may verify the hub's certificate.
const (
	// TLSModeStrict trusts only the given CA.
	TLSModeStrict = "strict"
	// TLSModeSystemStore trusts the system's roots if they suffice, otherwise the given CA.
	TLSModeSystemStore = "system-store"
)

// DefaultGitClientTimeout is the default timeout of a git client.
const DefaultGitClientTimeout = 30 * time.Second

// Config is the controllers' configuration. Its keys are those of the chart's ConfigMap. The zero value of a
// field has the meaning of a missing key.
type Config struct {
	// AgentImage is the agent's image, including the registry.
	AgentImage string `json:"agentImage,omitempty"`
	// AgentImagePullPolicy is the agent container's imagePullPolicy. Empty means the default of Kubernetes.
	AgentImagePullPolicy string `json:"agentImagePullPolicy,omitempty"`
	// SystemDefaultRegistry is the prefix of AgentImage that a cluster's privateRepoURL replaces.
	SystemDefaultRegistry string `json:"systemDefaultRegistry,omitempty"`
	// AgentCheckinInterval is the time between two heartbeats of an agent. 0 means the agent's default.
	AgentCheckinInterval metav1.Duration `json:"agentCheckinInterval,omitempty"`
	// AgentCredentialLifetime is the lifetime of the credentials of agents that renew them. 0 means that they do not
	// expire.
	AgentCredentialLifetime metav1.Duration `json:"agentCredentialLifetime,omitempty"`
	// AgentCredentialReadmit set to false keeps the hub from creating Clusters, and keys of Clusters, again from the tickets
	// of agents.
	AgentCredentialReadmit *bool `json:"agentCredentialReadmit,omitempty"`
	// ManageAgent set to false turns off the Bundles that manage the agents.
	ManageAgent *bool `json:"manageAgent,omitempty"`
	// APIServerURL is the hub's address for agents. A kubeconfig Secret may override it.
	APIServerURL string `json:"apiServerURL,omitempty"`
	// APIServerCA is the PEM bundle that signs the hub's certificate.
	APIServerCA []byte `json:"apiServerCA,omitempty"`
	// Bootstrap configures how the hub registers itself.
	Bootstrap Bootstrap `json:"bootstrap,omitempty"`
	// IgnoreClusterRegistrationLabels ignores the labels that an agent proposes for its Cluster.
	IgnoreClusterRegistrationLabels bool `json:"ignoreClusterRegistrationLabels,omitempty"`
	// LegacyKubeconfigNamespaces lets every workspace use the kubeconfig Secrets of fleet-local, fleet-default, the
	// system namespaces and cluster-* without the Secrets' consent.
	LegacyKubeconfigNamespaces bool `json:"legacyKubeconfigNamespaces,omitempty"`
	// AllowLocalKubeconfigs accepts kubeconfigs with loopback, link-local or in-cluster addresses, with addresses in
	// RefusedKubeconfigCIDRs, or with their own proxy.
	AllowLocalKubeconfigs bool `json:"allowLocalKubeconfigs,omitempty"`
	// RefusedKubeconfigCIDRs are networks in which addresses of kubeconfigs are refused.
	RefusedKubeconfigCIDRs []string `json:"refusedKubeconfigCIDRs,omitempty"`
	// PlainValuesInSecrets puts Helm values into a Secret per cluster also if their Bundle has them as plain text.
	PlainValuesInSecrets bool `json:"plainValuesInSecrets,omitempty"`
	// AgentTLSMode is one of the TLSMode constants. With any other value, imports fail with a condition.
	AgentTLSMode string `json:"agentTLSMode,omitempty"`
	// GitClientTimeout is for components that clone repositories.
	GitClientTimeout metav1.Duration `json:"gitClientTimeout,omitempty"`
	// GarbageCollectionInterval is the interval at which an agent looks for orphaned releases.
	GarbageCollectionInterval metav1.Duration `json:"garbageCollectionInterval,omitempty"`
	// AgentWorkers limits the concurrency of an agent.
	AgentWorkers AgentWorkers `json:"agentWorkers,omitempty"`
	// ImagePullSecrets are Secrets of the system namespace that every agent's pods use.
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// CAPI configures the registration of clusters that Cluster API creates.
	CAPI CAPI `json:"capi,omitempty"`
}

// CAPI configures the registration of clusters that Cluster API creates. An empty selector selects all.
type CAPI struct {
	// Enabled creates a Cluster for each selected Cluster of Cluster API.
	Enabled bool `json:"enabled,omitempty"`
	// NamespaceSelector selects namespaces by their labels, and ClusterSelector selects the Clusters in them.
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	ClusterSelector   metav1.LabelSelector `json:"clusterSelector,omitempty"`
}

// Bootstrap configures how the hub registers itself as a Cluster.
type Bootstrap struct {
	// Namespace is the workspace of the local Cluster. Empty or "-" turns the registration off.
	Namespace string `json:"namespace,omitempty"`
	// AgentNamespace is the namespace of the local agent. Empty means the system namespace.
	AgentNamespace string `json:"agentNamespace,omitempty"`
	// LocalAgentDisabled keeps the Cluster but removes its agent.
	LocalAgentDisabled bool `json:"localAgentDisabled,omitempty"`
	// ClusterLabels are added to the local Cluster's labels.
	ClusterLabels map[string]string `json:"clusterLabels,omitempty"`
	// Repo, Secret, Branch and Paths describe a repository for the local cluster, for components that clone
	// repositories.
	Repo   string `json:"repo,omitempty"`
	Secret string `json:"secret,omitempty"`
	Branch string `json:"branch,omitempty"`
	Paths  string `json:"paths,omitempty"`
}

// AgentWorkers contains numbers as text, because they become environment variables of the agent.
type AgentWorkers struct {
	BundleDeployment string `json:"bundledeployment,omitempty"`
	Drift            string `json:"drift,omitempty"`
}

// Enabled reports whether the hub registers itself.
func (b Bootstrap) Enabled() bool { return b.Namespace != "" && b.Namespace != "-" }

// Default returns the configuration of a hub whose ConfigMap is missing or empty. The image has the controller's
// own version.
func Default(version string) Config {
	return Config{
		AgentImage:       "fleethub/fleet-agent:" + version,
		GitClientTimeout: metav1.Duration{Duration: DefaultGitClientTimeout},
	}
}

// Parse parses the value of a ConfigMap's config key, YAML or JSON, on top of base. Empty input gives base.
// Unknown keys are ignored. An invalid duration keeps base's value and causes a warning, so that one typing
// error does not discard the other keys. A document that is not a mapping, or another value of the wrong type,
// is an error.
func Parse(document []byte, base Config) (Config, []string, error) {
	if err := yamlbound.Check(document); err != nil {
		return Config{}, nil, fmt.Errorf("reading the configuration: %w", err)
	}
	raw := map[string]any{}
	if err := yaml.Unmarshal(document, &raw); err != nil {
		return Config{}, nil, fmt.Errorf("reading the configuration: %w", err)
	}
	warnings := dropBadDurations(raw, "agentCheckinInterval", "agentCredentialLifetime", "gitClientTimeout", "garbageCollectionInterval")
	clean, err := yaml.Marshal(raw)
	if err != nil {
		return Config{}, nil, fmt.Errorf("reading the configuration: %w", err)
	}
	parsed := base
	if err := yaml.Unmarshal(clean, &parsed); err != nil {
		return Config{}, nil, fmt.Errorf("reading the configuration: %w", err)
	}
	for i, network := range parsed.RefusedKubeconfigCIDRs {
		if _, err := netip.ParsePrefix(network); err != nil {
			return Config{}, nil, fmt.Errorf("reading the configuration: refusedKubeconfigCIDRs[%d]: %w", i, err)
		}
	}
	if err := parsed.CAPI.check(); err != nil {
		return Config{}, nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return parsed, warnings, nil
}

// RefusedNetworks returns RefusedKubeconfigCIDRs parsed. Parse accepts no others.
func (c Config) RefusedNetworks() (networks []netip.Prefix) {
	for _, text := range c.RefusedKubeconfigCIDRs {
		if network, err := netip.ParsePrefix(text); err == nil {
			networks = append(networks, network)
		}
	}
	return networks
}

// check returns an error if a selector is invalid.
func (c CAPI) check() error {
	if _, err := metav1.LabelSelectorAsSelector(&c.NamespaceSelector); err != nil {
		return fmt.Errorf("capi.namespaceSelector: %w", err)
	}
	if _, err := metav1.LabelSelectorAsSelector(&c.ClusterSelector); err != nil {
		return fmt.Errorf("capi.clusterSelector: %w", err)
	}
	return nil
}

// dropBadDurations removes the keys whose values are not valid Go durations and returns a warning for each. It
// removes a bare 0, which means "default", without a warning.
func dropBadDurations(raw map[string]any, keys ...string) (warnings []string) {
	for _, key := range keys {
		value, found := raw[key]
		if !found {
			continue
		}
		if text, ok := value.(string); ok {
			if _, err := time.ParseDuration(text); err == nil {
				continue
			}
		}
		delete(raw, key)
		if isZero(value) {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s: %v is not a duration like 15m or 30s; using the default", key, value))
	}
	return warnings
}

func isZero(value any) bool {
	switch n := value.(type) {
	case nil:
		return true
	case float64:
		return n == 0
	case int64:
		return n == 0
	}
	return false
}

// Readmits reports whether Clusters, and keys of Clusters, are created again from the tickets of agents.
func (c Config) Readmits() bool { return c.AgentCredentialReadmit == nil || *c.AgentCredentialReadmit }
