package protocol

import (
	"crypto/x509"
	"encoding/base64"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Maximum sizes in bytes of the values in a recovery Secret.
const (
	maxRecoveryToken  = 16 << 10
	maxRecoveryTicket = 16 << 10
	maxRecoveryURL    = 2 << 10
	maxRecoveryCA     = 256 << 10
	maxRecoveryText   = 1 << 10
)

// RecoveryData is the data of an agent's recovery Secret besides its private key: everything that the agent needs to return to
// its hub if it has lost everything else. Each value may be missing.
type RecoveryData struct {
	Recovery
	// APIServerURL and APIServerCA (PEM; empty means the system's roots) describe how the agent reaches the hub.
	APIServerURL string
	APIServerCA  []byte
	// ClusterNamespace is the workspace.
	ClusterNamespace string
	// SystemRegistrationNamespace is the namespace in which the hub creates the answer to a request.
	SystemRegistrationNamespace string
	// ClientID is the client ID of the agent's last request.
	ClientID string
	// Serial is the serial of the last hub document that the agent stored.
	Serial int64
	// RecoverySpread is the time over which the agents of the hub spread their recovery requests, as of that document.
	RecoverySpread time.Duration
}

// recoveryDataKeys are the keys that Encode may return.
func recoveryDataKeys() []string {
	return []string{
		recoveryTokenKey, recoveryTicketKey, hubKeyKey, workspaceKeyKey, APIServerURLKey, APIServerCAKey, clusterNamespaceKey,
		registrationKey, ClientIDKey, SerialKey, RecoverySpreadKey,
	}
}

// Encode returns the values that are not empty.
func (k RecoveryData) Encode() map[string][]byte {
	data := k.Recovery.Encode()
	data[APIServerURLKey] = []byte(k.APIServerURL)
	data[APIServerCAKey] = k.APIServerCA
	data[clusterNamespaceKey] = []byte(k.ClusterNamespace)
	data[registrationKey] = []byte(k.SystemRegistrationNamespace)
	data[ClientIDKey] = []byte(k.ClientID)
	if k.Serial > 0 {
		data[SerialKey] = []byte(strconv.FormatInt(k.Serial, 10))
	}
	if seconds := int64(k.RecoverySpread / time.Second); seconds > 0 {
		data[RecoverySpreadKey] = []byte(strconv.FormatInt(seconds, 10))
	}
	for key, value := range data {
		if len(value) == 0 {
			delete(data, key)
		}
	}
	return data
}

// Replace sets the values in the data of a recovery Secret, and removes those that are empty. It keeps all other keys.
func (k RecoveryData) Replace(data map[string][]byte) {
	encoded := k.Encode()
	for _, key := range recoveryDataKeys() {
		if value, isKept := encoded[key]; isKept {
			data[key] = value
		} else {
			delete(data, key)
		}
	}
}

// ParseRecoveryData returns the values that are valid. It leaves out all others, because a damaged value must not make the
// remaining ones useless.
func ParseRecoveryData(data map[string][]byte) RecoveryData {
	text := func(key string, limit int, isValid func(string) bool) string {
		value := string(data[key])
		if value == "" || len(value) > limit || !isValid(value) {
			return ""
		}
		return value
	}
	recovery := RecoveryData{
		Recovery: Recovery{
			Token:  text(recoveryTokenKey, maxRecoveryToken, isAccountToken),
			Ticket: text(recoveryTicketKey, maxRecoveryTicket, isAny),
			HubKey: text(hubKeyKey, maxRecoveryText, isAny),
		},
		APIServerURL:                text(APIServerURLKey, maxRecoveryURL, func(url string) bool { return CheckHubURL(url) == nil }),
		APIServerCA:                 []byte(text(APIServerCAKey, maxRecoveryCA, IsCA)),
		ClusterNamespace:            text(clusterNamespaceKey, maxRecoveryText, isNamespace),
		SystemRegistrationNamespace: text(registrationKey, maxRecoveryText, isNamespace),
		ClientID:                    text(ClientIDKey, maxRecoveryText, isAny),
	}
	if key, err := base64.RawURLEncoding.DecodeString(text(workspaceKeyKey, maxRecoveryText, isAny)); err == nil && len(key) > 0 {
		recovery.WorkspaceKey = key
	}
	if serial, err := strconv.ParseInt(string(data[SerialKey]), 10, 64); err == nil && serial > 0 {
		recovery.Serial = serial
	}
	if seconds, err := strconv.ParseInt(string(data[RecoverySpreadKey]), 10, 32); err == nil && seconds > 0 {
		recovery.RecoverySpread = time.Duration(seconds) * time.Second
	}
	if len(recovery.APIServerCA) == 0 {
		recovery.APIServerCA = nil
	}
	return recovery
}

func isAny(string) bool { return true }

func isAccountToken(token string) bool {
	_, err := ParseAccountToken(token)
	return err == nil
}

// IsCA reports whether a text contains a certificate in PEM. Agents refuse any other CA.
func IsCA(ca string) bool { return x509.NewCertPool().AppendCertsFromPEM([]byte(ca)) }

func isNamespace(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// Access returns what a recovery request is made with, and false if a part is missing. A hub without the ticket would
// not know the Cluster.
func (k RecoveryData) Access() (Bootstrap, bool) {
	isComplete := k.Token != "" && k.Ticket != "" && k.APIServerURL != "" && k.ClusterNamespace != "" && k.SystemRegistrationNamespace != ""
	return Bootstrap{
		APIServerURL: k.APIServerURL, APIServerCA: k.APIServerCA, ClusterNamespace: k.ClusterNamespace,
		Token: k.Token, SystemRegistrationNamespace: k.SystemRegistrationNamespace,
	}, isComplete
}
