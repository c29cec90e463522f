// Package config is the configuration of the controllers and of the agent: what the ConfigMaps
// fleet-controller and fleet-agent say, checked once and then passed on as a value.
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

// The ways an agent may trust the hub's certificate.
const (
	// TLSModeStrict trusts the given CA and nothing else.
	TLSModeStrict = "strict"
	// TLSModeSystemStore trusts the system's roots where they suffice, the given CA otherwise.
	TLSModeSystemStore = "system-store"
)

// VersionAnnotation on the ConfigMap names the version of the chart that wrote it. A running
// controller ignores a configuration that was written for another version.
const VersionAnnotation = "fleet.cattle.io/version"

// DefaultGitClientTimeout is how long a git client may take, unless configured.
const DefaultGitClientTimeout = 30 * time.Second

// Config is the controllers' configuration. Its keys are those of the chart's ConfigMap; the zero
// value of a field is what a missing key means.
type Config struct {
	// AgentImage is the agent's image, registry included.
	AgentImage string `json:"agentImage,omitempty"`
	// AgentImagePullPolicy is the agent container's imagePullPolicy; empty leaves it to Kubernetes.
	AgentImagePullPolicy string `json:"agentImagePullPolicy,omitempty"`
	// SystemDefaultRegistry is the prefix of AgentImage that a cluster's privateRepoURL replaces.
	SystemDefaultRegistry string `json:"systemDefaultRegistry,omitempty"`
	// AgentCheckinInterval is the time between two heartbeats of an agent; 0 is the agent's default.
	AgentCheckinInterval metav1.Duration `json:"agentCheckinInterval,omitempty"`
	// ManageAgent set to false means that no Bundle manages the agents.
	ManageAgent *bool `json:"manageAgent,omitempty"`
	// APIServerURL is where agents reach the hub; a kubeconfig Secret may override it.
	APIServerURL string `json:"apiServerURL,omitempty"`
	// APIServerCA is the PEM bundle that signs the hub's certificate.
	APIServerCA []byte `json:"apiServerCA,omitempty"`
	// Bootstrap says how the hub registers itself.
	Bootstrap Bootstrap `json:"bootstrap,omitempty"`
	// IgnoreClusterRegistrationLabels drops the labels an agent proposes for its Cluster.
	IgnoreClusterRegistrationLabels bool `json:"ignoreClusterRegistrationLabels,omitempty"`
	// LegacyKubeconfigNamespaces lets every workspace use the kubeconfig Secrets of fleet-local, fleet-default,
	// the system namespaces and cluster-* without the Secrets' consent.
	LegacyKubeconfigNamespaces bool `json:"legacyKubeconfigNamespaces,omitempty"`
	// AllowLocalKubeconfigs accepts kubeconfigs that lead to loopback, link-local or in-cluster addresses, to networks in
	// RefusedKubeconfigCIDRs, or through a proxy of their own.
	AllowLocalKubeconfigs bool `json:"allowLocalKubeconfigs,omitempty"`
	// RefusedKubeconfigCIDRs are networks that kubeconfigs must not lead to.
	RefusedKubeconfigCIDRs []string `json:"refusedKubeconfigCIDRs,omitempty"`
	// AgentTLSMode is one of the TLSMode constants; anything else makes imports fail with a condition.
	AgentTLSMode string `json:"agentTLSMode,omitempty"`
	// GitClientTimeout belongs to parts that clone repositories.
	GitClientTimeout metav1.Duration `json:"gitClientTimeout,omitempty"`
	// GarbageCollectionInterval is how often an agent looks for releases nobody asks for any more.
	GarbageCollectionInterval metav1.Duration `json:"garbageCollectionInterval,omitempty"`
	// AgentWorkers bounds what an agent does at once.
	AgentWorkers AgentWorkers `json:"agentWorkers,omitempty"`
	// ImagePullSecrets are Secrets of the system namespace that every agent's pods get.
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// Bootstrap says how the hub registers itself as a Cluster.
type Bootstrap struct {
	// Namespace is the workspace of the local Cluster; empty or "-" registers nothing.
	Namespace string `json:"namespace,omitempty"`
	// AgentNamespace is where the local agent runs; empty is the system namespace.
	AgentNamespace string `json:"agentNamespace,omitempty"`
	// LocalAgentDisabled keeps the Cluster but removes its agent.
	LocalAgentDisabled bool `json:"localAgentDisabled,omitempty"`
	// ClusterLabels are added to the local Cluster's labels.
	ClusterLabels map[string]string `json:"clusterLabels,omitempty"`
	// Repo, Secret, Branch and Paths describe a repository for the local cluster, for parts that clone.
	Repo   string `json:"repo,omitempty"`
	Secret string `json:"secret,omitempty"`
	Branch string `json:"branch,omitempty"`
	Paths  string `json:"paths,omitempty"`
}

// AgentWorkers are numbers in text, as they become the agent's environment.
type AgentWorkers struct {
	BundleDeployment string `json:"bundledeployment,omitempty"`
	Drift            string `json:"drift,omitempty"`
}

// Enabled says whether the hub registers itself.
func (b Bootstrap) Enabled() bool { return b.Namespace != "" && b.Namespace != "-" }

// Default is the configuration of a hub whose ConfigMap is missing or empty. The image is that of
// the controller's own version.
func Default(version string) Config {
	return Config{
		AgentImage:       "fleethub/fleet-agent:" + version,
		GitClientTimeout: metav1.Duration{Duration: DefaultGitClientTimeout},
	}
}

// Parse reads the value of a ConfigMap's config key, YAML or JSON, over base. Empty input is base.
// Unknown keys are ignored. A duration that is none is left at base's value and named in the
// returned warnings, so that one typing error does not take the other keys with it. A document that
// is no mapping, or whose other values have the wrong type, is an error.
func Parse(document []byte, base Config) (Config, []string, error) {
	if err := yamlbound.Check(document); err != nil {
		return Config{}, nil, fmt.Errorf("reading the configuration: %w", err)
	}
	raw := map[string]any{}
	if err := yaml.Unmarshal(document, &raw); err != nil {
		return Config{}, nil, fmt.Errorf("reading the configuration: %w", err)
	}
	warnings := dropBadDurations(raw, "agentCheckinInterval", "gitClientTimeout", "garbageCollectionInterval")
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
	return parsed, warnings, nil
}

// dropBadDurations removes the keys whose values Go cannot read as a duration. A bare 0 means
// "default" and is dropped without a word.
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
		warnings = append(warnings, fmt.Sprintf("%s: %v is no duration like 15m or 30s; using the default", key, value))
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
