package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"golang.org/x/crypto/ssh"

	"github.com/fleet-hub/fleet/internal/pack/charts/unpack"
)

const (
	sshTimeout = 30 * time.Second
	// objectsInMemory are the bytes of the largest git object that is read at once.
	objectsInMemory = 16 << 20
)

// Repository is a git repository, with how to authenticate.
type Repository struct {
	// URL is the address. A user and a password in it win over Username and Password.
	URL *url.URL
	// Ref is a branch, tag or commit. Depth limits the history if it is not 0.
	Ref   string
	Depth int
	// Folder selects a folder of the repository. Empty means all.
	Folder string

	Username, Password string
	// IsServer reports whether a URL is on the server that user name and password are sent to.
	IsServer func(*url.URL) bool
	// CABundle are certificates in PEM that are trusted in addition to those of the system.
	CABundle []byte
	// SSHKey is a private key in PEM. SSHAgent uses the SSH agent of the user if it is empty.
	SSHKey   []byte
	SSHAgent bool
	// SSHKnownHosts are lines of a known_hosts file. If it is empty, the file of the user is used.
	SSHKnownHosts []byte
	// InsecureSkipVerify accepts every certificate and every SSH host key.
	InsecureSkipVerify bool
}

// Write writes the files of a repository at the wanted revision. It never creates a work tree, so that neither hooks nor
// attributes of the repository have an effect.
func Write(ctx context.Context, from Repository, into *unpack.Sink) error {
	dir, err := os.MkdirTemp("", "fleet-chart-")
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { // an SSH server that stops answering blocks the library without regard to the context
		defer os.RemoveAll(dir)
		tree, err := checkout(ctx, from, dir, into.Limits)
		if err == nil {
			err = writeTree(ctx, tree, from.Folder, into)
		}
		done <- err
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-done:
		return err
	}
}

// checkout returns the tree of the wanted revision.
func checkout(ctx context.Context, from Repository, dir string, limits unpack.Limits) (*object.Tree, error) {
	if from.URL.Scheme == "file" || from.URL.Scheme == "" {
		repository, err := git.PlainOpen(from.URL.Path)
		if err != nil {
			return nil, err
		}
		return treeOf(repository, from.Ref)
	}
	address := *from.URL
	address.User = nil
	method, err := authenticate(from, dir)
	if err != nil {
		return nil, err
	}
	return cloneRevision(ctx, from.Ref, dir, limits, git.CloneOptions{
		URL: address.String(), Auth: method, NoCheckout: true, SingleBranch: true, Depth: max(from.Depth, 1), Tags: git.NoTags,
		InsecureSkipTLS: from.InsecureSkipVerify, CABundle: from.CABundle,
	})
}

// cloneRevision clones a repository and returns the tree of the branch, tag or commit, or of HEAD if ref is empty.
func cloneRevision(ctx context.Context, ref, dir string, limits unpack.Limits, options git.CloneOptions) (*object.Tree, error) {
	attempts := []git.CloneOptions{options}
	if ref != "" {
		branch, tag, all := options, options, options
		branch.ReferenceName, tag.ReferenceName = plumbing.NewBranchReferenceName(ref), plumbing.NewTagReferenceName(ref)
		all.SingleBranch, all.Depth, all.Tags = false, 0, git.AllTags
		attempts = []git.CloneOptions{branch, tag, all}
	}
	for i, attempt := range attempts {
		repository, err := cloneInto(ctx, filepath.Join(dir, fmt.Sprint(i)), attempt, limits)
		last := i == len(attempts)-1
		switch {
		case err == nil && (ref == "" || !last):
			return treeOf(repository, "")
		case err == nil:
			return treeOf(repository, ref)
		case last || !errors.Is(err, git.NoMatchingRefSpecError{}) && !errors.Is(err, plumbing.ErrReferenceNotFound):
			return nil, err
		}
	}
	return nil, plumbing.ErrReferenceNotFound
}

// cloneInto clones a repository without work tree.
func cloneInto(ctx context.Context, dir string, options git.CloneOptions, limits unpack.Limits) (*git.Repository, error) {
	files := &boundedFiles{Filesystem: osfs.New(dir), left: &atomic.Int64{}}
	files.left.Store(limits.Received)
	storage := filesystem.NewStorageWithOptions(files, cache.NewObjectLRUDefault(), filesystem.Options{LargeObjectThreshold: objectsInMemory})
	return git.CloneContext(ctx, &boundedStorage{storage, dir, limits}, nil, &options)
}

// treeOf returns the files of a revision, or of HEAD.
func treeOf(repository *git.Repository, revision string) (*object.Tree, error) {
	if revision == "" {
		revision = "HEAD"
	}
	hash, err := repository.ResolveRevision(plumbing.Revision(revision))
	if err != nil {
		return nil, fmt.Errorf("resolving revision %q: %w", revision, err)
	}
	commit, err := repository.CommitObject(*hash)
	if err != nil {
		return nil, fmt.Errorf("reading commit %s: %w", hash, err)
	}
	return commit.Tree()
}

// writeTree writes the files of a tree, or of a folder in it. Submodules are left out.
func writeTree(ctx context.Context, tree *object.Tree, sub string, into *unpack.Sink) error {
	if sub != "" && sub != "." {
		var err error
		if tree, err = tree.Tree(filepath.ToSlash(sub)); err != nil {
			return fmt.Errorf("folder %q does not exist in the download", sub)
		}
	}
	walker := object.NewTreeWalker(tree, true, nil)
	defer walker.Close()
	for {
		name, entry, err := walker.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = writeEntry(tree, name, &entry, into)
		}
		if err != nil {
			return err
		}
	}
}

// writeEntry writes a file, a link or a folder. Folders count as well: a few objects can describe billions of them.
func writeEntry(tree *object.Tree, name string, entry *object.TreeEntry, into *unpack.Sink) error {
	switch entry.Mode {
	case filemode.Dir:
		return into.Dir(name)
	case filemode.Submodule:
		return nil
	}
	file, err := tree.TreeEntryFile(entry)
	if err != nil {
		return err
	}
	content, err := file.Reader()
	if err != nil {
		return err
	}
	defer content.Close()
	if entry.Mode != filemode.Symlink {
		return into.File(name, content)
	}
	to, err := io.ReadAll(io.LimitReader(content, unpack.MaxName+1))
	if err != nil {
		return err
	}
	return into.Symlink(name, string(to))
}

// authenticate returns how to authenticate at a git server, or nil. Credentials in the address win.
func authenticate(from Repository, dir string) (transport.AuthMethod, error) {
	user, password := from.Username, from.Password
	if from.URL.User != nil {
		user = from.URL.User.Username()
		password, _ = from.URL.User.Password()
	}
	switch from.URL.Scheme {
	case "http", "https":
		if user == "" && password == "" {
			return nil, nil
		}
		return &basicAuth{isServer: from.IsServer, BasicAuth: githttp.BasicAuth{Username: user, Password: password}}, nil
	case "ssh":
		if from.URL.User == nil {
			user = "git"
		}
		return authenticateSSH(from, user, dir)
	case "git":
		return nil, nil
	}
	return nil, fmt.Errorf("git repositories with the scheme %q are not supported: use https, http, ssh or git", from.URL.Scheme)
}

// basicAuth is basic authentication for one server.
type basicAuth struct {
	githttp.BasicAuth
	isServer func(*url.URL) bool
}

// SetAuth adds the credentials to a request.
func (b *basicAuth) SetAuth(request *http.Request) {
	if b.isServer(request.URL) {
		b.BasicAuth.SetAuth(request)
	}
}

// authenticateSSH returns the key and the known host keys.
func authenticateSSH(from Repository, user, dir string) (transport.AuthMethod, error) {
	var hosts gitssh.HostKeyCallbackHelper
	switch {
	case from.InsecureSkipVerify:
		hosts.HostKeyCallback = ssh.InsecureIgnoreHostKey() //nolint:gosec // the user asks for it
	case len(from.SSHKnownHosts) > 0:
		file := filepath.Join(dir, "known_hosts")
		if err := os.WriteFile(file, from.SSHKnownHosts, 0o600); err != nil {
			return nil, err
		}
		known, err := gitssh.NewKnownHostsDb(file)
		if err != nil {
			return nil, fmt.Errorf("reading the known SSH hosts: %w", err)
		}
		port := from.URL.Port()
		if port == "" {
			port = "22"
		}
		hosts.HostKeyCallback = known.HostKeyCallback()
		hosts.HostKeyAlgorithms = known.HostKeyAlgorithms(from.URL.Hostname() + ":" + port)
	}
	if len(from.SSHKey) == 0 {
		if !from.SSHAgent {
			return nil, ErrNoKey
		}
		agent, err := gitssh.NewSSHAgentAuth(user)
		if err != nil {
			return nil, fmt.Errorf("there is no SSH key: %w", err)
		}
		agent.HostKeyCallbackHelper = hosts
		return limitedSSH{agent}, nil
	}
	keys, err := gitssh.NewPublicKeys(user, from.SSHKey, "")
	if err != nil {
		return nil, fmt.Errorf("reading the SSH key: %w", err)
	}
	keys.HostKeyCallbackHelper = hosts
	return limitedSSH{keys}, nil
}

// limitedSSH sets a time limit for the connection.
type limitedSSH struct{ gitssh.AuthMethod }

// ClientConfig returns the configuration of the SSH client.
func (l limitedSSH) ClientConfig() (*ssh.ClientConfig, error) {
	config, err := l.AuthMethod.ClientConfig()
	if err == nil {
		config.Timeout = sshTimeout
	}
	return config, err
}

// ErrNoKey means that an SSH server needs a key, and that the SSH agent must not be used.
var ErrNoKey = errors.New("no SSH key is given, and the SSH agent is not used for this address")

var errTooLarge = errors.New("the git repository is too large")

// boundedFiles is a file system that accepts a limited number of bytes.
type boundedFiles struct {
	billy.Filesystem
	left *atomic.Int64
}

// Create creates a file.
func (b *boundedFiles) Create(name string) (billy.File, error) {
	file, err := b.Filesystem.Create(name)
	return b.bound(file, err)
}

// OpenFile opens a file.
func (b *boundedFiles) OpenFile(name string, flag int, mode os.FileMode) (billy.File, error) {
	file, err := b.Filesystem.OpenFile(name, flag, mode)
	return b.bound(file, err)
}

// TempFile creates a temporary file.
func (b *boundedFiles) TempFile(dir, prefix string) (billy.File, error) {
	file, err := b.Filesystem.TempFile(dir, prefix)
	return b.bound(file, err)
}

func (b *boundedFiles) bound(file billy.File, err error) (billy.File, error) {
	if err != nil {
		return nil, err
	}
	return &boundedFile{file, b.left}, nil
}

type boundedFile struct {
	billy.File
	left *atomic.Int64
}

// Write writes.
func (b *boundedFile) Write(p []byte) (int, error) {
	if b.left.Add(-int64(len(p))) < 0 {
		return 0, errTooLarge
	}
	return b.File.Write(p)
}
