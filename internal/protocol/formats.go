package protocol

import (
	"errors"
	"fmt"
	"net/url"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/yamlbound"
)

// The types and keys of the Secrets of a registration. After a change, agents and controllers of other releases
// can no longer read them.
const (
	// SecretTypeValues is the type of the Secret that contains a token's Values.
	SecretTypeValues corev1.SecretType = "fleet.cattle.io/cluster-registration-values"
	// SecretTypeCredential is the type of the Secret with the credential for a request.
	SecretTypeCredential corev1.SecretType = "fleet.cattle.io/agent-credential"
	// SecretTypeRecovery is the type of the Secret with an agent's key.
	SecretTypeRecovery corev1.SecretType = "fleet.cattle.io/agent-recovery"
	// RecoveryKeyKey is the key of the private key in that Secret.
	RecoveryKeyKey = "key"
	// SecretTypeHubKey is the type of the Secret with the hub's own key. The key of the private key is RecoveryKeyKey.
	SecretTypeHubKey corev1.SecretType = "fleet.cattle.io/hub-key"
	// EncryptedKey is the only key of the answer to a recovery request. Its value is a JWE for the agent's key.
	EncryptedKey = "encrypted"
	// SerialKey is the key of the serial of the last hub document in the recovery Secret.
	SerialKey = "serial"
	// RecoverySpreadKey is the key of the recovery spread of that document, in seconds.
	RecoverySpreadKey = "recoverySpread"
	// ClientIDKey is the key of the client ID in the recovery Secret.
	ClientIDKey = "clientID"
	// ValuesKey is the key of a values Secret. It is also allowed in a bootstrap Secret.
	ValuesKey = "values"
	// KubeconfigKey is the key of the kubeconfig in the agent's identity Secret.
	KubeconfigKey = "kubeconfig"
	// KubeconfigValueKey is the key of the kubeconfig in a Secret that a Cluster references.
	KubeconfigValueKey = "value"
	// APIServerURLKey and APIServerCAKey override the hub's address in a Secret that a Cluster references.
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
	recoveryTokenKey       = "recoveryToken"
	recoveryTicketKey      = "recoveryTicket"
	hubKeyKey              = "hubKey"
	workspaceKeyKey        = "workspaceKey"
)

// ErrIncomplete is wrapped by every error about a document in which a key is missing or empty.
var ErrIncomplete = errors.New("incomplete")

// Values contains everything an agent needs to request a registration. The document can be passed to `helm
// install fleet-agent --values` unchanged.
type Values struct {
	// ClusterNamespace is the workspace in which the agent creates its request.
	ClusterNamespace string
	// APIServerURL and APIServerCA (PEM, may be empty) describe how the agent reaches the hub.
	APIServerURL, APIServerCA string
	// Token is the bearer token of the import account.
	Token string
	// SystemRegistrationNamespace is the namespace in which the hub creates the credential.
	SystemRegistrationNamespace string
	// TokenName is the name of the ClusterRegistrationToken. The agent repeats it in its request.
	TokenName string
	// SystemNamespace is the hub's system namespace. It is written only if it is not the default.
	SystemNamespace string
}

// Encode returns the YAML document of the values Secret, with sorted keys.
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

// ParseValues parses the document of a values Secret. Without a token it returns ErrIncomplete. It ignores
// entries that are not text, because the document may contain other values of the chart.
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

// textEntries returns the text entries at the top level of the document, and those below "internal".
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

// Bootstrap is the data of Secret fleet-agent-bootstrap in the downstream cluster: the import identity, used
// once.
type Bootstrap struct {
	// APIServerURL and APIServerCA (PEM, may be empty) describe how the agent reaches the hub.
	APIServerURL string
	APIServerCA  []byte
	// ClusterNamespace is the workspace in which the agent creates its request.
	ClusterNamespace string
	// Token is the bearer token of the import account.
	Token string
	// TokenName is the name of the ClusterRegistrationToken. Old hubs leave it empty.
	TokenName string
	// SystemRegistrationNamespace is the namespace in which the hub creates the credential.
	SystemRegistrationNamespace string
}

// Encode returns the data of the Secret.
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

// ParseBootstrap parses the data of Secret fleet-agent-bootstrap. A non-empty key "values" contains all of it as
// YAML. Otherwise each value has its own key. If a value that a request needs is missing, the error wraps
// ErrIncomplete and names the value.
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

// Credential is the data of the Secret with the credential for a request: the request identity.
type Credential struct {
	// Token is the bearer token of the request account.
	Token string
	// DeploymentNamespace is the cluster namespace on the hub.
	DeploymentNamespace string
	// ClusterNamespace and ClusterName identify the Cluster of the agent.
	ClusterNamespace, ClusterName string
	// SystemNamespace is the hub's system namespace. Agents do not need it.
	SystemNamespace string
}

// Encode returns the data of the Secret.
func (c Credential) Encode() map[string][]byte {
	return map[string][]byte{
		tokenKey:               []byte(c.Token),
		deploymentNamespaceKey: []byte(c.DeploymentNamespace),
		clusterNamespaceKey:    []byte(c.ClusterNamespace),
		clusterNameKey:         []byte(c.ClusterName),
		systemNamespaceKey:     []byte(c.SystemNamespace),
	}
}

// ParseCredential parses the data of a credential Secret. If a value other than the system namespace is missing,
// the error wraps ErrIncomplete and names the value.
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

// Identity is the data of Secret fleet-agent in the downstream cluster: what the agent stores of its credential.
type Identity struct {
	// Kubeconfig reaches the hub as the request account, in the cluster namespace.
	Kubeconfig []byte
	// DeploymentNamespace, ClusterNamespace and ClusterName are those of the Credential.
	DeploymentNamespace, ClusterNamespace, ClusterName string
}

// Encode returns the data of the Secret.
func (i Identity) Encode() map[string][]byte {
	return map[string][]byte{
		KubeconfigKey:          i.Kubeconfig,
		deploymentNamespaceKey: []byte(i.DeploymentNamespace),
		clusterNamespaceKey:    []byte(i.ClusterNamespace),
		clusterNameKey:         []byte(i.ClusterName),
	}
}

// ParseIdentity parses the data of Secret fleet-agent. If one of the four keys is missing, the error wraps
// ErrIncomplete and names the key.
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

// need returns an error that names the keys without a value, or nil.
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
	return fmt.Errorf("%w, missing or empty keys: %s", ErrIncomplete, strings.Join(missing, ", "))
}

// ErrHubURL means that the address of a hub is not an https URL. Connections without TLS are refused, because
// the token could be read in transit. And if the scheme is missing, clients that read the address from a
// kubeconfig do not send the token.
var ErrHubURL = errors.New("the hub's address is not an https URL")

// CheckHubURL returns ErrHubURL unless the address is an https URL. The error does not contain the address.
func CheckHubURL(address string) error {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || parsed.Scheme != "https" {
		return ErrHubURL
	}
	return nil
}
