package protocol

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// TokenLifetime is asked for where a token must not expire: agents that keep one credential for ever
// are part of the contract, and the deletion of its account revokes a token at any time. It is the
// most the TokenRequest API takes, about 136 years.
const TokenLifetime = (1<<32 - 1) * time.Second

// MinTokenLifetime is the least the TokenRequest API takes.
const MinTokenLifetime = 10 * time.Minute

// ErrNotAToken is wrapped by errors about text that is no service account token.
var ErrNotAToken = errors.New("no service account token")

// AccountToken is what a service account token says of itself. It is read, not verified: it serves to
// notice tokens that cannot work any more, never to trust one.
type AccountToken struct {
	// AccountUID is the UID of the ServiceAccount the token was made for. A token dies with it.
	AccountUID string
	// Expires is when the token ends by itself; the zero time means never.
	Expires time.Time
}

// ParseAccountToken reads the claims of a service account token, whether it came from the
// TokenRequest API or from a token Secret.
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
		return AccountToken{}, fmt.Errorf("claims name no account: %w", ErrNotAToken)
	}
	if claims.Expires > 1<<53 { // where a number of JSON no longer counts seconds
		return AccountToken{}, fmt.Errorf("claims end at no time: %w", ErrNotAToken)
	}
	if claims.Expires > 0 {
		parsed.Expires = time.Unix(int64(claims.Expires), 0).UTC()
	}
	return parsed, nil
}

// SignerOf returns what tells tokens of different signing keys and issuers apart; it is the same for all that one key has
// signed. Like ParseAccountToken it believes the token.
func SignerOf(token string) string {
	parts := strings.Split(token, ".")
	var header struct {
		Key string `json:"kid"`
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	for i, into := range []any{&header, &claims} {
		if i >= len(parts) {
			return ""
		}
		document, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(document, into) != nil {
			return ""
		}
	}
	return header.Key + " " + claims.Issuer
}

// Works says whether a token can still be one of the account at now.
func Works(token, accountUID string, now time.Time) bool {
	parsed, err := ParseAccountToken(token)
	return err == nil && parsed.AccountUID == accountUID && (parsed.Expires.IsZero() || parsed.Expires.After(now))
}

// Mint asks for a token of an account. It is what a rule returns where a secret has to come from the
// API server: rules cannot make one.
type Mint struct {
	// Namespace and Account name the ServiceAccount.
	Namespace, Account string
	// Lifetime is how long the token must live at least.
	Lifetime time.Duration
}
