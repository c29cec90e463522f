package charts

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/fleet-hub/fleet/internal/pack/charts/git"
)

// redacted replaces secrets in messages.
const redacted = "redacted"

// scheme is how an address is fetched.
type scheme int

const (
	schemeLocal scheme = iota
	schemeHTTP
	schemeGit
)

// address is a parsed address.
type address struct {
	scheme scheme
	// path is the path of a local address.
	path string
	// url is where to download from, without the parts below.
	url *url.URL
	// sub is the folder in the download, or empty. hasSub is true also for an empty one after `//`.
	sub    string
	hasSub bool
	// algorithm and digest are the expected checksum, or empty.
	algorithm, digest string
	// archive is the suffix that says how to unpack, or empty.
	archive string
	// ref is a branch, tag or commit. depth limits the history if it is not 0.
	ref   string
	depth int
	// sshKey is a private key in PEM.
	sshKey []byte
}

// repository returns the git repository of the address. A key in the address wins.
func (a *address) repository(auth Auth) git.Repository {
	key := a.sshKey
	if len(key) == 0 {
		key = auth.SSHPrivateKey
	}
	return git.Repository{
		URL: a.url, Ref: a.ref, Depth: a.depth, Folder: a.sub,
		Username: auth.Username, Password: auth.Password, IsServer: func(u *url.URL) bool { return origin(u) == origin(a.url) },
		CABundle: auth.CABundle, SSHKey: key, SSHAgent: auth.SSHAgent, SSHKnownHosts: auth.SSHKnownHosts, InsecureSkipVerify: auth.InsecureSkipVerify,
	}
}

// expand separates a prefix such as `git::` and completes short forms.
func expand(text string) (forced, rest string) {
	forced, rest = cutForced(text)
	if forced == "" {
		if short, ok := expandHost(rest); ok {
			return "git", short
		}
	}
	if ssh, ok := expandSCP(rest); ok {
		switch forced {
		case "":
			return "git", ssh
		case "git", "ssh":
			return forced, ssh
		}
	}
	return forced, rest
}

// schemeOf returns how to download from a URL, or local.
func schemeOf(forced string, u *url.URL) scheme {
	kind := forced
	if kind == "" {
		kind = strings.ToLower(u.Scheme)
	}
	switch kind {
	case "git", "ssh":
		return schemeGit
	case "http", "https":
		return schemeHTTP
	}
	return schemeLocal
}

// parse recognizes an address.
func parse(text string) (*address, error) {
	forced, rest := expand(text)
	location, sub, hasSub := cutFolder(rest)
	parsed := &address{sub: sub, hasSub: hasSub, path: location}
	u, err := url.Parse(location)
	if err != nil {
		if forced == "" && !hasScheme(location) {
			return parsed, confine(sub)
		}
		return nil, errors.New("the address is not a valid URL")
	}
	if parsed.scheme = schemeOf(forced, u); parsed.scheme == schemeLocal {
		return parsed, confine(sub)
	}
	if parsed.scheme == schemeHTTP && u.Host == "" {
		return nil, errors.New("the address has no host")
	}
	parsed.url = u
	if err := confine(sub); err != nil {
		return nil, err
	}
	return parsed, parsed.options()
}

func hasScheme(text string) bool { return strings.Contains(text, "://") }

// confine refuses a folder that leads out of the download.
func confine(sub string) error {
	if sub != "" && !filepath.IsLocal(filepath.FromSlash(sub)) {
		return fmt.Errorf("folder %q leads out of the download", sub)
	}
	return nil
}

// cutForced separates a prefix such as `git::`.
func cutForced(text string) (forced, rest string) {
	for _, prefix := range []string{"git", "ssh", "http", "https"} {
		if rest, ok := strings.CutPrefix(text, prefix+"::"); ok {
			return prefix, rest
		}
	}
	return "", text
}

// expandHost returns the URL of a repository on a well-known host.
func expandHost(text string) (string, bool) {
	for _, host := range []string{"github.com/", "gitlab.com/", "bitbucket.org/"} {
		if !strings.HasPrefix(text, host) {
			continue
		}
		location, query, hasQuery := strings.Cut(text, "?")
		location, sub, _ := cutFolder(location)
		parts := strings.SplitN(location, "/", 4)
		if len(parts) < 3 || parts[2] == "" {
			return "", false
		}
		if len(parts) == 4 {
			sub = path.Join(parts[3], sub)
		}
		text = "https://" + parts[0] + "/" + parts[1] + "/" + strings.TrimSuffix(parts[2], ".git") + ".git"
		if sub != "" {
			text += "//" + sub
		}
		if hasQuery {
			text += "?" + query
		}
		return text, true
	}
	return "", false
}

// expandSCP returns the URL of an address of the form user@host:path.
func expandSCP(text string) (string, bool) {
	if hasScheme(text) {
		return "", false
	}
	found := regexp.MustCompile(`^([A-Za-z0-9_.-]+)@([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\]):([^/].*|/.*)$`).FindStringSubmatch(text)
	if found == nil {
		return "", false
	}
	return "ssh://" + found[1] + "@" + found[2] + "/" + strings.TrimPrefix(found[3], "/"), true
}

// cutFolder separates the folder after `//`. The query belongs to the whole address.
func cutFolder(text string) (location, sub string, found bool) {
	location, query, hasQuery := strings.Cut(text, "?")
	start := 0
	if i := strings.Index(location, "://"); i >= 0 {
		start = i + len("://")
	}
	if before, after, ok := strings.Cut(location[start:], "//"); ok {
		location, sub, found = location[:start]+before, after, true
	}
	if hasQuery {
		location += "?" + query
	}
	if sub != "" {
		sub = path.Clean(sub)
	}
	return location, sub, found
}

// options takes the keys out of the query that are not for the server.
func (a *address) options() error {
	query, err := url.ParseQuery(a.url.RawQuery)
	if err != nil {
		return errors.New("the query of the address is not valid")
	}
	take := func(key string) string {
		value := query.Get(key)
		query.Del(key)
		return value
	}
	if a.scheme == schemeGit {
		a.ref = take("ref")
		if depth := take("depth"); depth != "" {
			if a.depth, err = strconv.Atoi(depth); err != nil || a.depth < 1 {
				return fmt.Errorf("depth %q is not a positive number", depth)
			}
		}
		if key := take("sshkey"); key != "" {
			if a.sshKey, err = base64.StdEncoding.DecodeString(strings.ReplaceAll(key, " ", "+")); err != nil {
				return errors.New("sshkey is not base64")
			}
		}
	} else {
		a.archive = take("archive")
		if a.archive != "" && !strings.HasPrefix(a.archive, ".") {
			a.archive = "." + a.archive
		}
		if a.algorithm, a.digest, err = checksum(take("checksum")); err != nil {
			return err
		}
	}
	a.url.RawQuery = query.Encode()
	return nil
}

// checksum reads the value of the key `checksum`.
func checksum(text string) (algorithm, digest string, err error) {
	if text == "" {
		return "", "", nil
	}
	algorithm, digest, ok := strings.Cut(text, ":")
	if !ok || newHash(algorithm) == nil {
		return "", "", fmt.Errorf("checksum %q is not supported: use md5, sha1, sha256 or sha512, a colon and hexadecimal digits", text)
	}
	return algorithm, strings.ToLower(digest), nil
}

// Redact returns an address without passwords and keys.
func Redact(text string) string {
	for _, secret := range secrets(text) {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return text
}

// secrets returns the passwords and keys in an address, as they are written there and decoded.
func secrets(text string) []string {
	var found []string
	add := func(secret string, decode func(string) (string, error)) {
		found = append(found, secret)
		if decoded, err := decode(secret); err == nil && decoded != secret {
			found = append(found, decoded)
		}
	}
	if match := regexp.MustCompile(`://[^/?#@]*?:([^/?#]+)@`).FindStringSubmatch(text); match != nil {
		add(match[1], url.PathUnescape)
	} else if match := regexp.MustCompile(`(?i)\bhttps?://([^/?#@]{20,})@`).FindStringSubmatch(text); match != nil {
		add(match[1], url.PathUnescape) // git servers accept a token in the place of the user
	}
	for _, match := range regexp.MustCompile(`[?&]sshkey=([^&#]+)`).FindAllStringSubmatch(text, -1) {
		add(match[1], url.QueryUnescape)
	}
	return found
}

// sameOrigin reports whether two URLs have the same scheme, host and port.
func sameOrigin(one, other string) bool {
	a, err := url.Parse(one)
	if err != nil {
		return false
	}
	b, err := url.Parse(other)
	return err == nil && origin(a) == origin(b)
}

// origin returns scheme, host and port of a URL.
func origin(u *url.URL) string {
	scheme := strings.ToLower(u.Scheme)
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}
