package gather

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/hub"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
)

const (
	// maxKubeconfig and maxToken limit what is parsed, in bytes.
	maxKubeconfig = 256 << 10
	maxToken      = 16 << 10
)

// readKubeconfig returns what the checks need of a kubeconfig Secret. The hub's rules decide what is refused.
func readKubeconfig(data map[string][]byte, options foreign.Options) hub.Kubeconfig {
	document, found := data[protocol.KubeconfigValueKey]
	switch {
	case !found:
		return hub.Kubeconfig{}
	case len(document) > maxKubeconfig:
		return hub.Kubeconfig{Exists: true, Err: kubeconfigs.ErrKubeconfigMalformed}
	}
	result := hub.Kubeconfig{Exists: true}
	if _, err := foreign.Config(document, options); err != nil && !errors.Is(err, foreign.ErrKubeconfigExpired) {
		result.Err = err
		return result
	}
	cfg, err := kubeconfigs.SafeOrInsecure(document, true)
	if err != nil {
		result.Err = err
		return result
	}
	result.Expires = earlier(certificateExpiry(cfg.CertData), tokenExpiry(cfg.BearerToken))
	return result
}

// earlier returns the earlier one of two times. The zero time means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// certificateExpiry returns when a client certificate expires, or the zero time if it cannot be parsed.
func certificateExpiry(data []byte) time.Time {
	block, _ := pem.Decode(data)
	if block == nil {
		return time.Time{}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return certificate.NotAfter
}

// tokenExpiry returns when a JWT expires, or the zero time if the token is not a JWT or does not expire.
func tokenExpiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > maxToken {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expires float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Expires <= 0 || claims.Expires > 1<<53 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expires), 0)
}

// rulesOf returns the hub's rules for kubeconfigs.
func rulesOf(f *hub.Facts) foreign.Options {
	options := foreign.Options{Now: f.Now, AnyAddress: f.Config.AllowLocalKubeconfigs, Insecure: allowsInsecure(f)}
	for _, text := range f.Config.RefusedKubeconfigCIDRs {
		if network, err := netip.ParsePrefix(text); err == nil {
			options.Refused = append(options.Refused, network)
		}
	}
	return options
}

// allowsInsecure reports whether the operator allows kubeconfigs that skip the verification of certificates.
func allowsInsecure(f *hub.Facts) bool {
	for _, deployment := range f.Controllers() {
		for _, container := range deployment.Spec.Template.Spec.Containers {
			for _, variable := range container.Env {
				if variable.Name == "FLEET_ALLOW_INSECURE_KUBECONFIGS" && variable.Value == "true" {
					return true
				}
			}
		}
	}
	return false
}
