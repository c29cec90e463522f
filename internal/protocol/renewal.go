package protocol

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// A Renewal describes how an agent renews its own token.
type Renewal struct {
	// Namespace and Account identify the token's ServiceAccount.
	Namespace, Account string
	// Lifetime is the lifetime of the token.
	Lifetime time.Duration
}

// lasting is the lifetime from which a token counts as one that does not expire.
const lasting = TokenLifetime / 2

// RenewalOf returns how to renew a token, and false if the token does not expire or cannot be renewed. Like
// ParseAccountToken, it does not verify the token. The lifetime is the difference of two times of one clock.
func RenewalOf(token string) (Renewal, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return Renewal{}, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Renewal{}, false
	}
	var claims struct {
		Expires    float64 `json:"exp"`
		Issued     float64 `json:"iat"`
		Kubernetes struct {
			Namespace      string `json:"namespace"`
			ServiceAccount struct {
				Name string `json:"name"`
			} `json:"serviceaccount"`
		} `json:"kubernetes.io"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return Renewal{}, false
	}
	seconds := claims.Expires - claims.Issued
	renewal := Renewal{Namespace: claims.Kubernetes.Namespace, Account: claims.Kubernetes.ServiceAccount.Name}
	if claims.Issued <= 0 || seconds < 1 || seconds >= lasting.Seconds() || renewal.Namespace == "" || renewal.Account == "" {
		return Renewal{}, false
	}
	renewal.Lifetime = time.Duration(seconds) * time.Second
	return renewal, true
}

// ExpiryOf returns when an account token expires. It returns the zero time for other tokens, and for one without expiry.
func ExpiryOf(token string) time.Time {
	parsed, err := ParseAccountToken(token)
	if _, expires := RenewalOf(token); err != nil || !expires {
		return time.Time{}
	}
	return parsed.Expires
}
