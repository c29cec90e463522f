// Package jointext encodes and parses the join text: everything that a cluster needs to join a hub, as one line that can
// be pasted.
//
//	Text ─► JSON with a checksum ─► gzip ─► base64url ─► "fleet-join-v1:…" ─► Parse ─► Text
//
// A join text contains a bearer token. No error of this package contains any part of a text.
package jointext

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/protocol"
)

const (
	// name and version make the prefix of a join text.
	name    = "fleet-join-v"
	version = 1
	prefix  = "fleet-join-v1:"
	// MaxBytes limits a join text, and maxDecoded the JSON inside.
	MaxBytes   = 256 << 10
	maxDecoded = 512 << 10
	// maxClientID and maxToken limit what the hub would reject, or what no hub creates.
	maxClientID = 1024
	maxToken    = 64 << 10
	// maxImage limits a name of an image.
	maxImage = 512
)

// Text is the content of a join text.
type Text struct {
	// URL and CA (PEM, may be empty) describe how the agent reaches the hub.
	URL string `json:"url"`
	CA  string `json:"ca,omitempty"`
	// Workspace is the namespace on the hub in which the cluster registers.
	Workspace string `json:"workspace"`
	// Token is the bearer token of the ClusterRegistrationToken, and TokenName the name of that object.
	Token     string `json:"token"`
	TokenName string `json:"tokenName"`
	// ClientID identifies the Cluster, and Cluster is its name. Both are empty in the text of a reusable token. Texts of earlier
	// releases have no name.
	ClientID string `json:"clientID,omitempty"`
	Cluster  string `json:"cluster,omitempty"`
	// Expires is the time when the token expires. Nil means never.
	Expires *time.Time `json:"expires,omitempty"`
	// SystemRegistrationNamespace is the namespace on the hub in which the credential will be stored.
	SystemRegistrationNamespace string `json:"systemRegistrationNamespace"`
	// SystemNamespace is the hub's system namespace, if it is not the default.
	SystemNamespace string `json:"systemNamespace,omitempty"`
	// AgentNamespace is the spec.agentNamespace of the Cluster. Empty means the hub's system namespace.
	AgentNamespace string `json:"agentNamespace,omitempty"`
	// Image is the image of the hub's agents, such as registry.example.com/fleet-agent:v1. Empty means that of the chart.
	Image string `json:"image,omitempty"`
}

// String returns a text without the token.
func (t Text) String() string { return "join text of token " + t.Workspace + "/" + t.TokenName }

// GoString returns the same, so that no format prints the token.
func (t Text) GoString() string { return t.String() }

// envelope is the JSON document. The checksum is that of the bytes of Join.
type envelope struct {
	Checksum string          `json:"checksum"`
	Join     json.RawMessage `json:"join"`
}

func checksum(document []byte) string {
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:])
}

// Encode returns the join text, one line without a newline.
func Encode(text Text) (string, error) {
	join, err := json.Marshal(text)
	if err != nil {
		return "", errors.New("encoding the join text failed")
	}
	document, err := json.Marshal(envelope{Checksum: checksum(join), Join: join})
	if err != nil {
		return "", errors.New("encoding the join text failed")
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(document); err != nil {
		return "", fmt.Errorf("compressing the join text: %w", err)
	}
	if err := writer.Close(); err != nil {
		return "", fmt.Errorf("compressing the join text: %w", err)
	}
	return prefix + base64.RawURLEncoding.EncodeToString(packed.Bytes()), nil
}

// The ways in which a join text can be wrong.
var (
	ErrEmpty     = errors.New("there is no join text: standard input is empty")
	ErrNotOne    = errors.New("the input is not a join text: " + prefix + " is missing at its start")
	ErrTooLarge  = errors.New("the join text is too large")
	ErrVersion   = errors.New("the join text has another version")
	ErrTruncated = errors.New("the join text is truncated: its end is missing")
	ErrCorrupted = errors.New("the join text is corrupted: it was changed after it was printed")
	ErrInvalid   = errors.New("the join text is not valid")
	ErrExpired   = errors.New("the join text has expired")
)

// Read reads a join text and parses it. It reads at most one byte more than a join text may have.
func Read(in io.Reader) (Text, error) {
	input, err := io.ReadAll(io.LimitReader(in, MaxBytes+1))
	if err != nil {
		return Text{}, exit.Errorf(exit.Preflight, "reading the join text: %w", err)
	}
	return Parse(input)
}

// Parse parses a join text. White space is ignored, because terminals and mail programs break long lines. It does not
// check the expiry.
func Parse(input []byte) (Text, error) {
	text, err := parse(input)
	if err == nil {
		return text, nil
	}
	failure := exit.Errorf(exit.Preflight, "%w", err)
	if errors.Is(err, ErrVersion) {
		return Text{}, failure.With("use the fleet binary of the hub's release")
	}
	if !text.hasValidCA() { // otherwise the hub would print the same text again
		failure = failure.With("on the hub, set its CA in PEM: helm upgrade -n cattle-fleet-system fleet charts/fleet --reset-then-reuse-values --set-file apiServerCA=hub-ca.pem")
	}
	return Text{}, failure.With("print the text again on the hub, and paste all of it: fleet token show TOKEN --with-secret")
}

func parse(input []byte) (Text, error) {
	if len(input) > MaxBytes {
		return Text{}, fmt.Errorf("%w: more than %d KiB", ErrTooLarge, MaxBytes>>10)
	}
	encoded := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, string(input))
	body, found := strings.CutPrefix(encoded, prefix)
	switch {
	case encoded == "":
		return Text{}, ErrEmpty
	case !found:
		return Text{}, foreign(encoded)
	}
	document, err := decode(body)
	if err != nil {
		return Text{}, err
	}
	var outer envelope
	var text Text
	if json.Unmarshal(document, &outer) != nil || outer.Checksum != checksum(outer.Join) || json.Unmarshal(outer.Join, &text) != nil {
		return Text{}, ErrCorrupted
	}
	return text, text.validate()
}

// foreign returns the error for an input that does not start with the prefix.
func foreign(encoded string) error {
	rest, found := strings.CutPrefix(encoded, name)
	number, _, hasEnd := strings.Cut(rest, ":")
	switch other, err := strconv.Atoi(number); {
	case strings.HasPrefix(prefix, encoded):
		return ErrTruncated
	case found && hasEnd && err == nil && other != version && other >= 0:
		return fmt.Errorf("%w: it has version %d, and this program reads version %d", ErrVersion, other, version)
	}
	return ErrNotOne
}

// decode returns the JSON document of a join text.
func decode(body string) ([]byte, error) {
	packed, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(body, "="))
	var at base64.CorruptInputError
	switch {
	case errors.As(err, &at) && int(at) >= len(body)/4*4:
		return nil, ErrTruncated
	case err != nil:
		return nil, ErrCorrupted
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, damaged(err)
	}
	document, err := io.ReadAll(io.LimitReader(reader, maxDecoded+1))
	switch {
	case err != nil:
		return nil, damaged(err)
	case len(document) > maxDecoded:
		return nil, fmt.Errorf("%w: more than %d KiB when decompressed", ErrTooLarge, maxDecoded>>10)
	}
	return document, nil
}

func damaged(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return ErrCorrupted
}

// validate returns all problems of the text.
func (t Text) validate() error {
	var problems []string
	require := func(ok bool, problem string) {
		if !ok {
			problems = append(problems, problem)
		}
	}
	require(isHubURL(t.URL), "the hub's URL is not an https URL")
	require(t.hasValidCA(), "the hub's CA does not consist of certificates")
	require(isName(t.Workspace), "the workspace is not a name of a namespace")
	require(isName(t.TokenName), "the token's name is not valid")
	require(isName(t.SystemRegistrationNamespace), "the registration namespace is not a name of a namespace")
	require(t.SystemNamespace == "" || isName(t.SystemNamespace), "the system namespace is not a name of a namespace")
	require(t.AgentNamespace == "" || isName(t.AgentNamespace), "the agent's namespace is not a name of a namespace")
	require(t.Cluster == "" || isName(t.Cluster), "the Cluster's name is not valid")
	require(t.Image == "" || IsImage(t.Image), "the image is not a name of an image")
	require(len(t.ClientID) <= maxClientID, "the client ID is too long")
	require(t.Token != "" && len(t.Token) <= maxToken && !strings.ContainsFunc(t.Token, notInToken), "the token is missing or not a bearer token")
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrInvalid, strings.Join(problems, ", "))
}

// hasValidCA reports whether the CA consists of certificates, or is empty.
func (t Text) hasValidCA() bool { return t.CA == "" || certificates(t.CA) != nil }

// isHubURL reports whether a text is an https URL with a visible host: it contains no user, and only characters of ASCII.
func isHubURL(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && protocol.CheckHubURL(text) == nil && !strings.ContainsFunc(text, notInToken) &&
		parsed.User == nil && parsed.RawQuery == "" && parsed.Fragment == ""
}

// isName reports whether a text is a name of an object: the tokens' names may contain dots.
func isName(text string) bool {
	return len(validation.IsDNS1123Subdomain(text)) == 0
}

// IsImage reports whether a text consists of what names of images consist of: letters, digits and "._-:/@".
func IsImage(text string) bool {
	return text != "" && len(text) <= maxImage && !strings.ContainsFunc(text, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("._-:/@", r)
	})
}

func notInToken(r rune) bool { return r <= ' ' || r >= 0x7f }

// certificates returns the certificates of a PEM text in DER, one after the other. It returns nil if the text contains
// anything else.
func certificates(text string) []byte {
	var all []byte
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			if len(bytes.TrimSpace(rest)) > 0 {
				return nil
			}
			return all
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil || block.Type != "CERTIFICATE" {
			return nil
		}
		all = append(all, block.Bytes...)
	}
}

// CheckExpiry returns an error if the token has expired at now.
func (t Text) CheckExpiry(now time.Time) error {
	if t.Expires == nil || now.Before(*t.Expires) {
		return nil
	}
	return exit.Errorf(exit.Preflight, "%w at %s: this clock shows %s", ErrExpired, t.Expires.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339)).
		With(t.Renewal())
}

// Renewal says which command on the hub prints another text for the same Cluster, or for a token of the same name.
func (t Text) Renewal() string {
	if t.ClientID == "" {
		return "on the hub: fleet token create " + t.TokenName + " -n " + t.Workspace
	}
	return "on the hub: fleet repair " + cmp.Or(t.Cluster, "CLUSTER") + " -n " + t.Workspace
}

// Fingerprint returns the SHA-256 of the CA, as `fleet token create` and `fleet join` print it. For one certificate, it
// is the one that openssl prints.
func (t Text) Fingerprint() string {
	if t.CA == "" {
		return "none (the CAs of the system)"
	}
	return "sha256:" + checksum(certificates(t.CA))
}

// Values returns the values with which the agent registers.
func (t Text) Values() protocol.Values {
	return protocol.Values{
		ClusterNamespace: t.Workspace, APIServerURL: t.URL, APIServerCA: t.CA, Token: t.Token, TokenName: t.TokenName,
		SystemRegistrationNamespace: t.SystemRegistrationNamespace, SystemNamespace: t.SystemNamespace,
	}
}

// Of returns the text for a token's values.
func Of(values protocol.Values, clientID string, expires *time.Time) Text {
	if expires != nil {
		utc := expires.UTC().Truncate(time.Second)
		expires = &utc
	}
	return Text{
		URL: values.APIServerURL, CA: values.APIServerCA, Workspace: values.ClusterNamespace, Token: values.Token, TokenName: values.TokenName,
		ClientID: clientID, Expires: expires, SystemRegistrationNamespace: values.SystemRegistrationNamespace, SystemNamespace: values.SystemNamespace,
	}
}
