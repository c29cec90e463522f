package protocol

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// TokenLifetime is requested for tokens that must not expire: by contract, agents keep one credential forever.
// Deleting the account revokes the token at any time. The value is the maximum of the TokenRequest API, about
// 136 years.
const TokenLifetime = (1<<32 - 1) * time.Second

// MinTokenLifetime is the minimum of the TokenRequest API.
const MinTokenLifetime = 10 * time.Minute

// ErrNotAToken is wrapped by errors about text that is not a service account token.
var ErrNotAToken = errors.New("not a service account token")

// AccountToken contains the claims of a service account token. The claims are parsed but not verified: use them
// to detect tokens that no longer work, never to trust one.
type AccountToken struct {
	// AccountUID is the UID of the ServiceAccount of the token. Deleting the ServiceAccount revokes the token.
	AccountUID string
	// Expires is the time at which the token expires. The zero time means never.
	Expires time.Time
}

// ParseAccountToken parses the claims of a service account token, from the TokenRequest API or from a token
// Secret.
func ParseAccountToken(token string) (AccountToken, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return AccountToken{}, fmt.Errorf("%d parts instead of three: %w", len(parts), ErrNotAToken)
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return AccountToken{}, fmt.Errorf("claims are not base64: %w", ErrNotAToken)
	}
	var claims struct {
		Expires    float64 `json:"exp"`
		Kubernetes struct {
			ServiceAccount struct {
				UID string `json:"uid"`
			} `json:"serviceaccount"`
		} `json:"kubernetes.io"`
		SecretUID string `json:"kubernetes.io/serviceaccount/service-account.uid"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return AccountToken{}, fmt.Errorf("claims are not JSON: %w", ErrNotAToken)
	}
	parsed := AccountToken{AccountUID: claims.Kubernetes.ServiceAccount.UID}
	if parsed.AccountUID == "" {
		parsed.AccountUID = claims.SecretUID
	}
	if parsed.AccountUID == "" {
		return AccountToken{}, fmt.Errorf("claims contain no account UID: %w", ErrNotAToken)
	}
	if claims.Expires > 1<<53 { // larger JSON numbers do not represent whole seconds
		return AccountToken{}, fmt.Errorf("claims contain an invalid expiry time: %w", ErrNotAToken)
	}
	if claims.Expires > 0 {
		parsed.Expires = time.Unix(int64(claims.Expires), 0).UTC()
	}
	return parsed, nil
}

// SignerOf returns a text that identifies the signing key and the issuer of a token. Like ParseAccountToken, it does not
// verify the token.
func SignerOf(token string) string {
	var claims struct {
		Issuer string `json:"iss"`
	}
	if !decodePart(token, 1, &claims) {
		return ""
	}
	return SigningKeyOf(token) + " " + claims.Issuer
}

// SigningKeyOf returns the name of the key that has signed a token, or "" if the token names none. A hub signs the tokens in
// token Secrets and those of TokenRequest with the same key, but their issuers differ. SigningKeyOf does not verify the token.
func SigningKeyOf(token string) string {
	var header struct {
		Key string `json:"kid"`
	}
	decodePart(token, 0, &header)
	return header.Key
}

// decodePart decodes one part of a token. It reports whether that is possible.
func decodePart(token string, part int, into any) bool {
	parts := strings.Split(token, ".")
	if part >= len(parts) {
		return false
	}
	document, err := base64.RawURLEncoding.DecodeString(parts[part])
	return err == nil && json.Unmarshal(document, into) == nil
}

// Works reports whether a token may still be valid for the account at now.
func Works(token, accountUID string, now time.Time) bool {
	parsed, err := ParseAccountToken(token)
	return err == nil && parsed.AccountUID == accountUID && (parsed.Expires.IsZero() || parsed.Expires.After(now))
}

// Mint describes a request for a token of an account. A rule returns it when it needs a secret that only the API
// server can create.
type Mint struct {
	// Namespace and Account identify the ServiceAccount.
	Namespace, Account string
	// Lifetime is the minimum lifetime of the token, or the maximum if the agent renews it.
	Lifetime time.Duration
	// Renewed means that the agent renews the token.
	Renewed bool
}
