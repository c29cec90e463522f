package pack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/pack/charts"
	"github.com/fleet-hub/fleet/internal/pack/charts/git"
)

// Credentials are used to fetch charts.
type Credentials struct {
	// Default is used for all folders, unless ByPath is set.
	Default charts.Auth
	// ByPath contains the credentials of folders, by path or glob.
	ByPath map[string]charts.Auth
	// Expression selects the repositories to which user name, password and SSH key are sent. If it is empty, they are
	// sent to none.
	Expression string
	// ProxyCA are certificates in PEM of a proxy, which all clients trust.
	ProxyCA []byte
}

// ParseByPath reads the file with the credentials of folders.
func ParseByPath(text []byte) (map[string]charts.Auth, error) {
	var read map[string]struct {
		Username           string `json:"username"`
		Password           string `json:"password"`
		CABundle           []byte `json:"caBundle"`
		SSHPrivateKey      []byte `json:"sshPrivateKey"`
		SSHKnownHosts      []byte `json:"sshKnownHosts"`
		InsecureSkipVerify bool   `json:"insecureSkipVerify"`
		BasicHTTP          bool   `json:"basicHTTP"`
	}
	if err := yaml.Unmarshal(text, &read); err != nil {
		// The parser's error may contain a password.
		return nil, errors.New("it is not a YAML object of paths with their credentials")
	}
	byPath := make(map[string]charts.Auth, len(read))
	for path, one := range read {
		byPath[path] = charts.Auth{
			Username: one.Username, Password: one.Password, CABundle: one.CABundle,
			SSHPrivateKey: one.SSHPrivateKey, SSHKnownHosts: one.SSHKnownHosts,
			InsecureSkipVerify: one.InsecureSkipVerify, BasicHTTP: one.BasicHTTP,
		}
	}
	return byPath, nil
}

// of returns the credentials of a folder: those of its path, or those of the first glob that matches it.
func (c Credentials) of(folder string) (charts.Auth, error) {
	auth, err := c.ofPath(folder)
	if len(c.ProxyCA) > 0 {
		auth.CABundle = slices.Concat(auth.CABundle, []byte("\n"), c.ProxyCA)
	}
	return auth, err
}

func (c Credentials) ofPath(folder string) (charts.Auth, error) {
	if c.ByPath == nil {
		return c.Default, nil
	}
	if auth, found := c.ByPath[folder]; found {
		return auth, nil
	}
	for _, glob := range slices.Sorted(maps.Keys(c.ByPath)) {
		matches, err := filepath.Match(glob, folder)
		if err != nil {
			return charts.Auth{}, fmt.Errorf("path %q of the credentials: %w", glob, err)
		}
		if matches {
			return c.ByPath[glob], nil
		}
	}
	return charts.Auth{}, nil
}

// explained is an error with an explanation that its text, which is that of Rancher Fleet, does not contain.
type explained struct {
	error
	hint string
}

// Unwrap returns the error.
func (e *explained) Unwrap() error { return e.error }

// Hint returns the explanation of an error and how to go on, or empty.
func Hint(err error) string {
	var found *explained
	if !errors.As(err, &found) {
		return ""
	}
	return found.hint
}

// explainWithheld explains the error of a request without credentials.
func (c Credentials) explainWithheld(err error, url string) error {
	url = charts.Redact(url)
	if c.Expression == "" {
		return &explained{err, fmt.Sprintf(
			"credentials were not sent to %s, because there is no expression that allows it; add --helm-repo-url-regex", url)}
	}
	return &explained{err, fmt.Sprintf(
		"credentials were not sent to %s, because --helm-repo-url-regex %q does not match its start", url, c.Expression)}
}

// withheldHint is added to the error of a download.
const withheldHint = "helmRepoURLRegex is empty, so Helm credentials were not forwarded; " +
	"set spec.helmRepoURLRegex to allow credential forwarding"

// allows reports whether credentials may be sent to an address.
func (c Credentials) allows(url string) (bool, error) {
	if c.Expression == "" {
		return false, nil
	}
	expression, err := regexp.Compile("^(?:" + c.Expression + ")")
	if err != nil {
		return false, fmt.Errorf("--helm-repo-url-regex: %w", err)
	}
	return expression.MatchString(url), nil
}

// with calls fetch with the credentials that may be sent to an address. If it fails and some were withheld, the error
// explains it.
func (c Credentials) with(auth charts.Auth, url string, fetch func(charts.Auth) error) error {
	allowed, err := c.allows(url)
	if err != nil {
		return err
	}
	auth.SSHAgent = allowed
	if allowed {
		return fetch(auth)
	}
	withheld := hasSecrets(auth)
	auth.Username, auth.Password, auth.SSHPrivateKey = "", "", nil
	err = fetch(auth)
	if err == nil || errors.Is(err, context.Canceled) || !withheld && !errors.Is(err, git.ErrNoKey) {
		return err
	}
	var resolving *charts.ResolveError
	if c.Expression == "" && !errors.As(err, &resolving) {
		err = fmt.Errorf("%w: %s", err, withheldHint)
	}
	return c.explainWithheld(err, url)
}

func hasSecrets(auth charts.Auth) bool {
	return auth.Username != "" || auth.Password != "" || len(auth.SSHPrivateKey) > 0
}
