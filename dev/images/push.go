package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// PushOptions say how to talk to a registry.
type PushOptions struct {
	// Insecure allows plain HTTP, and certificates of nobody known, for registries on a network of one's own.
	// Registries on this machine may be plain anyway.
	Insecure bool
	// Keychain has the credentials. Nil: what `docker login` and its like have stored.
	Keychain authn.Keychain
	// Transport carries the requests; nil: the usual one.
	Transport http.RoundTripper
}

// Pushed is an image in a registry.
type Pushed struct {
	// Name it was pushed as.
	Name string `json:"name"`
	// Digest of the index, the same as in the archive.
	Digest string `json:"digest"`
}

// Push copies the images of an archive, for all platforms, to where their names say. What the registry has already
// is not sent again.
func Push(ctx context.Context, archive string, options PushOptions) ([]Pushed, error) {
	folder, err := os.MkdirTemp("", "fleet-push-")
	if err != nil {
		return nil, fmt.Errorf("making a folder to unpack %s: %w", archive, err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // in the system's folder for what is left over
	if err := unpackArchive(archive, folder); err != nil {
		return nil, err
	}
	list, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, fmt.Errorf("%s is no OCI archive: make it with `make images`: %w", archive, err)
	}
	manifest, err := list.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading the list of images in %s: %w", archive, err)
	}
	var pushed []Pushed
	for _, one := range manifest.Manifests {
		reference, err := options.reference(one.Annotations[AnnotationName])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", archive, err)
		}
		index, err := list.ImageIndex(one.Digest)
		if err != nil {
			return nil, fmt.Errorf("reading image %s in %s: %w", reference, archive, err)
		}
		if err := remote.WriteIndex(reference, index, options.remote(ctx)...); err != nil {
			return nil, explain(reference, err)
		}
		pushed = append(pushed, Pushed{Name: fullName(reference), Digest: one.Digest.String()})
	}
	return pushed, nil
}

func (o PushOptions) reference(image string) (name.Tag, error) {
	reference, err := Reference(image)
	if err != nil || !o.Insecure {
		return reference, err
	}
	reference, err = name.NewTag(image, name.Insecure)
	if err != nil {
		return name.Tag{}, fmt.Errorf("reading the name %q: %w", image, err)
	}
	return reference, nil
}

func (o PushOptions) remote(ctx context.Context) []remote.Option {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if o.Keychain != nil {
		options[1] = remote.WithAuthFromKeychain(o.Keychain)
	}
	if o.Transport != nil {
		options = append(options, remote.WithTransport(o.Transport))
	}
	return options
}

// explain says what to do about the two things that go wrong most.
func explain(reference name.Tag, err error) error {
	registry := reference.RegistryStr()
	var refused *transport.Error
	switch {
	case errors.As(err, &refused) && (refused.StatusCode == http.StatusUnauthorized || refused.StatusCode == http.StatusForbidden):
		return fmt.Errorf("%s does not let you write %s: log in with `docker login %s`, or any tool that writes ~/.docker/config.json: %w",
			registry, reference.RepositoryStr(), registry, err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s speaks plain HTTP: allow that with INSECURE=1 (--insecure): %w", registry, err)
	}
	return fmt.Errorf("pushing %s: %w", reference, err)
}

// unpackArchive unpacks an OCI archive into a folder.
func unpackArchive(archive, folder string) error {
	file, err := os.Open(archive) //nolint:gosec // the user names it
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s: make it with `make images`: %w", archive, err)
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", archive, err)
	}
	defer func() { _ = file.Close() }() // only read
	reader := tar.NewReader(file)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s is no archive: make it with `make images`: %w", archive, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue // folders come with their files
		}
		if !filepath.IsLocal(header.Name) {
			return fmt.Errorf("%s holds %q, which is outside of it", archive, header.Name)
		}
		if err := unpackFile(reader, filepath.Join(folder, filepath.FromSlash(header.Name))); err != nil {
			return fmt.Errorf("unpacking %s: %w", archive, err)
		}
	}
}

func unpackFile(content io.Reader, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	file, err := os.Create(to) //nolint:gosec // below a folder of ours
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
