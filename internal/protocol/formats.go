package protocol

import (
	"errors"
	"fmt"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/yamlbound"
)

// The types and keys of the handshake's Secrets. Changing one makes every agent or controller of
// another release blind to the other side.
const (
	// SecretTypeValues is the type of the Secret that carries a token's Values.
	SecretTypeValues corev1.SecretType = "fleet.cattle.io/cluster-registration-values"
	// SecretTypeCredential is the type of the Secret that answers a request.
	SecretTypeCredential corev1.SecretType = "fleet.cattle.io/agent-credential"
	// ValuesKey is the key of a values Secret, also understood in a bootstrap Secret.
	ValuesKey = "values"
	// KubeconfigKey is the key of the kubeconfig in the agent's identity Secret.
	KubeconfigKey = "kubeconfig"
	// KubeconfigValueKey is the key of the kubeconfig in a Secret that a Cluster names.
	KubeconfigValueKey = "value"
	// APIServerURLKey and APIServerCAKey override the hub's address in a Secret that a Cluster names.
	APIServerURLKey = "apiServerURL"
	APIServerCAKey  = "apiServerCA"
)

const (
	clusterNamespaceKey    = "clusterNamespace"
	tokenKey               = "token"
	tokenNameKey           = "tokenName"
	registrationKey        = "systemRegistrationNamespace"
	deploymentNamespaceKey = "deploymentNamespace"
	clusterNameKey         = "clusterName"
	systemNamespaceKey     = "systemNamespace"
)

// ErrIncomplete is wrapped by every error about a document that lacks a key, or has it empty.
var ErrIncomplete = errors.New("incomplete")

// Values is what a token hands out: everything an agent needs to ask for a cluster. The document is
// usable as it is for `helm install fleet-agent --values`.
type Values struct {
	// ClusterNamespace is the workspace in which the agent may ask.
	ClusterNamespace string
	// APIServerURL and APIServerCA (PEM, may be empty) are how the agent reaches the hub.
	APIServerURL, APIServerCA string
	// Token is the bearer token of the import account.
	Token string
	// SystemRegistrationNamespace is where the answer will be.
	SystemRegistrationNamespace string
	// TokenName is the ClusterRegistrationToken's name; the agent repeats it in its request.
	TokenName string
	// SystemNamespace is the hub's system namespace; it is written only if it is not the default.
	SystemNamespace string
}

// Encode is the YAML document of the values Secret, keys sorted.
func (v Values) Encode() ([]byte, error) {
	document := map[string]any{
		clusterNamespaceKey: v.ClusterNamespace,
		APIServerURLKey:     v.APIServerURL,
		APIServerCAKey:      v.APIServerCA,
		tokenKey:            v.Token,
		registrationKey:     v.SystemRegistrationNamespace,
		tokenNameKey:        v.TokenName,
	}
	if v.SystemNamespace != "" && v.SystemNamespace != names.SystemNamespace {
		document["internal"] = map[string]any{systemNamespaceKey: v.SystemNamespace}
	}
	encoded, err := yaml.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("encoding the values of token %s: %w", v.TokenName, err)
	}
	return encoded, nil
}

// ParseValues reads the document of a values Secret. Without a token it is ErrIncomplete; entries
// that are no text are ignored, as the chart's other values may stand beside ours.
func ParseValues(document []byte) (Values, error) {
	entries, internal, err := textEntries(document)
	if err != nil {
		return Values{}, fmt.Errorf("reading a token's values: %w", err)
	}
	v := Values{
		ClusterNamespace:            entries[clusterNamespaceKey],
		APIServerURL:                entries[APIServerURLKey],
		APIServerCA:                 entries[APIServerCAKey],
		Token:                       entries[tokenKey],
		SystemRegistrationNamespace: entries[registrationKey],
		TokenName:                   entries[tokenNameKey],
		SystemNamespace:             internal[systemNamespaceKey],
	}
	if v.Token == "" {
		return Values{}, fmt.Errorf("a token's values: key %q: %w", tokenKey, ErrIncomplete)
	}
	return v, nil
}

// textEntries is the document's top-level text, and that below "internal".
func textEntries(document []byte) (entries, internal map[string]string, err error) {
	if err := yamlbound.Check(document); err != nil {
		return nil, nil, err
	}
	raw := map[string]any{}
	if err := yaml.Unmarshal(document, &raw); err != nil {
		return nil, nil, err
	}
	nested, _ := raw["internal"].(map[string]any)
	return onlyText(raw), onlyText(nested), nil
}

func onlyText(raw map[string]any) map[string]string {
	text := map[string]string{}
	for key, value := range raw {
		if s, ok := value.(string); ok {
			text[key] = s
		}
	}
	return text
}

// Bootstrap is the data of Secret fleet-agent-bootstrap downstream: the import identity, used once.
type Bootstrap struct {
	// APIServerURL and APIServerCA (PEM, may be empty) are how the agent reaches the hub.
	APIServerURL string
	APIServerCA  []byte
	// ClusterNamespace is the workspace in which the agent may ask.
	ClusterNamespace string
	// Token is the bearer token of the import account.
	Token string
	// TokenName is the ClusterRegistrationToken's name; old hubs leave it empty.
	TokenName string
	// SystemRegistrationNamespace is where the answer will be.
	SystemRegistrationNamespace string
}

// Encode is the data of the Secret.
func (b Bootstrap) Encode() map[string][]byte {
	return map[string][]byte{
		APIServerURLKey:     []byte(b.APIServerURL),
		APIServerCAKey:      b.APIServerCA,
		clusterNamespaceKey: []byte(b.ClusterNamespace),
		tokenKey:            []byte(b.Token),
		tokenNameKey:        []byte(b.TokenName),
		registrationKey:     []byte(b.SystemRegistrationNamespace),
	}
}

// ParseBootstrap reads the data of Secret fleet-agent-bootstrap: a non-empty key "values" holds all
// of it as YAML, else each key stands for itself. What a request cannot be made without must be
// there, or the error is ErrIncomplete and names what is missing.
func ParseBootstrap(data map[string][]byte) (Bootstrap, error) {
	entries := map[string]string{}
	for key, value := range data {
		entries[key] = string(value)
	}
	if document := data[ValuesKey]; len(document) > 0 {
		parsed, _, err := textEntries(document)
		if err != nil {
			return Bootstrap{}, fmt.Errorf("reading key %q of the bootstrap secret: %w", ValuesKey, err)
		}
		entries = parsed
	}
	if err := need(entries, APIServerURLKey, clusterNamespaceKey, tokenKey, registrationKey); err != nil {
		return Bootstrap{}, fmt.Errorf("bootstrap secret: %w", err)
	}
	return Bootstrap{
		APIServerURL:                entries[APIServerURLKey],
		APIServerCA:                 []byte(entries[APIServerCAKey]),
		ClusterNamespace:            entries[clusterNamespaceKey],
		Token:                       entries[tokenKey],
		TokenName:                   entries[tokenNameKey],
		SystemRegistrationNamespace: entries[registrationKey],
	}, nil
}

// Credential is the data of the Secret that answers a request: the request identity.
type Credential struct {
	// Token is the bearer token of the request account.
	Token string
	// DeploymentNamespace is the cluster namespace on the hub.
	DeploymentNamespace string
	// ClusterNamespace and ClusterName are the Cluster the agent speaks for from now on.
	ClusterNamespace, ClusterName string
	// SystemNamespace is the hub's system namespace; agents do not need it.
	SystemNamespace string
}

// Encode is the data of the Secret.
func (c Credential) Encode() map[string][]byte {
	return map[string][]byte{
		tokenKey:               []byte(c.Token),
		deploymentNamespaceKey: []byte(c.DeploymentNamespace),
		clusterNamespaceKey:    []byte(c.ClusterNamespace),
		clusterNameKey:         []byte(c.ClusterName),
		systemNamespaceKey:     []byte(c.SystemNamespace),
	}
}

// ParseCredential reads the data of a credential Secret. All but the system namespace must be there,
// or the error is ErrIncomplete and names what is missing.
func ParseCredential(data map[string][]byte) (Credential, error) {
	entries := asText(data)
	if err := need(entries, tokenKey, deploymentNamespaceKey, clusterNamespaceKey, clusterNameKey); err != nil {
		return Credential{}, fmt.Errorf("credential secret: %w", err)
	}
	return Credential{
		Token:               entries[tokenKey],
		DeploymentNamespace: entries[deploymentNamespaceKey],
		ClusterNamespace:    entries[clusterNamespaceKey],
		ClusterName:         entries[clusterNameKey],
		SystemNamespace:     entries[systemNamespaceKey],
	}, nil
}

// Identity is the data of Secret fleet-agent downstream: what the agent keeps of a granted request.
type Identity struct {
	// Kubeconfig reaches the hub as the request account, in the cluster namespace.
	Kubeconfig []byte
	// DeploymentNamespace, ClusterNamespace and ClusterName are those of the Credential.
	DeploymentNamespace, ClusterNamespace, ClusterName string
}

// Encode is the data of the Secret.
func (i Identity) Encode() map[string][]byte {
	return map[string][]byte{
		KubeconfigKey:          i.Kubeconfig,
		deploymentNamespaceKey: []byte(i.DeploymentNamespace),
		clusterNamespaceKey:    []byte(i.ClusterNamespace),
		clusterNameKey:         []byte(i.ClusterName),
	}
}

// ParseIdentity reads the data of Secret fleet-agent. All four keys must be there, or the error is
// ErrIncomplete and names what is missing.
func ParseIdentity(data map[string][]byte) (Identity, error) {
	entries := asText(data)
	if err := need(entries, KubeconfigKey, deploymentNamespaceKey, clusterNamespaceKey, clusterNameKey); err != nil {
		return Identity{}, fmt.Errorf("agent secret: %w", err)
	}
	return Identity{
		Kubeconfig:          data[KubeconfigKey],
		DeploymentNamespace: entries[deploymentNamespaceKey],
		ClusterNamespace:    entries[clusterNamespaceKey],
		ClusterName:         entries[clusterNameKey],
	}, nil
}

func asText(data map[string][]byte) map[string]string {
	entries := make(map[string]string, len(data))
	for key, value := range data {
		entries[key] = string(value)
	}
	return entries
}

// need is nil if all keys have a value.
func need(entries map[string]string, keys ...string) error {
	var missing []string
	for _, key := range keys {
		if entries[key] == "" {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	sort.Strings(missing)
	return fmt.Errorf("without a value for %q: %w", missing, ErrIncomplete)
}
