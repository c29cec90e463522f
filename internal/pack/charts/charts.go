package charts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fleet-hub/fleet/internal/pack/charts/git"
	"github.com/fleet-hub/fleet/internal/pack/charts/unpack"
)

// Time limits of one download, and of one HTTP request in it.
const (
	fetchTimeout   = 15 * time.Minute
	requestTimeout = 5 * time.Minute
)

// Auth is how to authenticate, and which servers to trust.
type Auth struct {
	Username, Password string
	// CABundle are certificates in PEM that are trusted in addition to those of the system.
	CABundle []byte
	// SSHPrivateKey is a private key in PEM. SSHAgent uses the SSH agent of the user if it is empty.
	SSHPrivateKey []byte
	SSHAgent      bool
	// SSHKnownHosts are lines of a known_hosts file. If it is empty, the file of the user is used.
	SSHKnownHosts []byte
	// InsecureSkipVerify accepts every certificate and every SSH host key.
	InsecureSkipVerify bool
	// BasicHTTP uses OCI registries without TLS.
	BasicHTTP bool
	// Allow reports whether user name and password may be sent to the repository of a dependency. If it is nil, they
	// are not sent. Fetch does not call it: its caller decides about the chart.
	Allow func(repository string) bool
	// Root is the folder that local charts, git repositories and dependencies must be in. If it is empty, they may be
	// anywhere: then the addresses must be those of the user, not of a repository.
	Root string
}

// Source is the chart to fetch.
type Source struct {
	// Repo, Chart and Version are helm.repo, helm.chart and helm.version of fleet.yaml.
	Repo, Chart, Version string
	// Folder is the folder of the Bundle. Local addresses are relative to it.
	Folder string
	Auth   Auth
}

// ResolveError means that a chart repository does not lead to an archive. Nothing was downloaded.
type ResolveError struct{ Err error }

// Error returns the message.
func (e *ResolveError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ResolveError) Unwrap() error { return e.Err }

// Fetch downloads the chart and unpacks it into the directory to, which it creates. The top folder of a chart's archive
// stays. The error is a ResolveError if the repository's index does not lead to an archive; otherwise it begins with
// `retrieving file from "<address>": `. It contains no password.
func Fetch(ctx context.Context, source Source, to string) error {
	return fetch(ctx, source, to, unpack.DefaultLimits())
}

func fetch(ctx context.Context, source Source, to string, limits unpack.Limits) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	target, err := locate(ctx, source, limits)
	if err != nil {
		return &ResolveError{Err: scrub(err, secrets(source.Repo)...)}
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	if err := retrieve(ctx, target, to, limits); err != nil {
		text := Redact(target.text)
		return scrub(fmt.Errorf("retrieving file from %q: %w", text, err), secrets(target.text)...)
	}
	return nil
}

// target is an address with what its repository says about it.
type target struct {
	text string
	// folder is the folder for relative addresses.
	folder string
	// version selects a tag of an OCI repository.
	version string
	auth    Auth
	// withheld means that the credentials belong to another host.
	withheld bool
	// archive is the suffix of addresses without a known one.
	archive string
}

// locate returns what to download. It reads the index of a chart repository.
func locate(ctx context.Context, source Source, limits unpack.Limits) (target, error) {
	result := target{text: source.Chart, folder: source.Folder, version: source.Version, auth: source.Auth}
	switch {
	case source.Repo == "":
		return result, nil
	case isOCI(source.Repo):
		result.text = source.Repo
		return result, nil
	}
	text, err := resolve(ctx, source, limits)
	if err != nil {
		return target{}, fmt.Errorf("failed to resolve URL of repo=%s chart=%s version=%s: %w", Redact(source.Repo), source.Chart, source.Version, err)
	}
	result.text, result.archive = text, ".tgz"
	if !sameOrigin(source.Repo, text) && source.Auth.Username+source.Auth.Password != "" {
		result.withheld, result.auth.Username, result.auth.Password = true, "", ""
	}
	return result, nil
}

// retrieve downloads the target into a directory.
func retrieve(ctx context.Context, target target, to string, limits unpack.Limits) error {
	into, err := unpack.NewSink(to, limits)
	if err != nil {
		return err
	}
	defer into.Close()
	if err := transfer(ctx, target, into); err != nil {
		return err
	}
	return into.Verify()
}

// transfer writes the files of the target.
func transfer(ctx context.Context, target target, into *unpack.Sink) error {
	if isOCI(target.text) {
		return pull(ctx, target, into)
	}
	address, err := parse(target.text)
	if err != nil {
		return err
	}
	switch address.scheme {
	case schemeHTTP:
		return download(ctx, address, target, into)
	case schemeGit:
		if err := confineRepository(address, target.auth.Root); err != nil {
			return err
		}
		return git.Write(ctx, address.repository(target.auth), into)
	}
	return copyLocal(address, target.folder, target.auth.Root, into)
}

// absolute returns a local path as an absolute one.
func absolute(folder, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	return filepath.Abs(path)
}

// scrubbed is an error whose text contains no secrets.
type scrubbed struct {
	err  error
	text string
}

func (s *scrubbed) Error() string { return s.text }
func (s *scrubbed) Unwrap() error { return s.err }

// scrub removes secrets from the text of an error.
func scrub(err error, secrets ...string) error {
	text := err.Error()
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, redacted)
		}
	}
	if text == err.Error() {
		return err
	}
	return &scrubbed{err: err, text: text}
}
