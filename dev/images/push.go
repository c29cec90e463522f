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

// PushOptions configures how to connect to a registry.
type PushOptions struct {
	// Insecure allows plain HTTP and unknown certificates, for registries on a private network. Registries on
	// this machine may always use plain HTTP.
	Insecure bool
	// Transport sends the requests. Nil means the default transport.
	Transport http.RoundTripper
}

// Pushed describes an image in a registry.
type Pushed struct {
	// Name is the name in the registry.
	Name string `json:"name"`
	// Digest is the digest of the index, the same as in the archive.
	Digest string `json:"digest"`
}

// Push copies the images of an archive, for all platforms, to the registries in their names. It skips blobs that
// the registry already has.
func Push(ctx context.Context, archive string, options PushOptions) ([]Pushed, error) {
	folder, err := os.MkdirTemp("", "fleet-push-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory to unpack %s: %w", archive, err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // leftovers are in the system's temporary directory
	if err := unpackArchive(archive, folder); err != nil {
		return nil, err
	}
	list, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, fmt.Errorf("%s is not an OCI archive: create it with `make images`: %w", archive, err)
	}
	manifest, err := list.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading the list of images in %s: %w", archive, err)
	}
	var pushed []Pushed
	for _, one := range manifest.Manifests {
		reference, err := options.reference(one.Annotations[AnnotationName])
		if err != nil {
			return nil, fmt.Errorf("pushing the images of %s: %w", archive, err)
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
		return name.Tag{}, fmt.Errorf("parsing the name %q: %w", image, err)
	}
	return reference, nil
}

func (o PushOptions) remote(ctx context.Context) []remote.Option {
	// The credentials are those that docker login and similar tools have stored.
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if o.Transport != nil {
		options = append(options, remote.WithTransport(o.Transport))
	}
	return options
}

// explain adds the remedy for the two most common errors.
func explain(reference name.Tag, err error) error {
	registry := reference.RegistryStr()
	var refused *transport.Error
	switch {
	case errors.As(err, &refused) && (refused.StatusCode == http.StatusUnauthorized || refused.StatusCode == http.StatusForbidden):
		return fmt.Errorf("registry %s does not allow writing %s: log in with `docker login %s`, or any tool that writes ~/.docker/config.json: %w",
			registry, reference.RepositoryStr(), registry, err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("registry %s uses plain HTTP: allow it with INSECURE=1 (--insecure): %w", registry, err)
	}
	return fmt.Errorf("pushing %s: %w", reference, err)
}

// unpackArchive unpacks an OCI archive into a directory.
func unpackArchive(archive, folder string) error {
	file, err := os.Open(archive) //nolint:gosec // the user names it
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist: create it with `make images`: %w", archive, err)
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", archive, err)
	}
	defer func() { _ = file.Close() }() // the file is only read
	reader := tar.NewReader(file)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s is not an archive: create it with `make images`: %w", archive, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue // directories are created with their files
		}
		if !filepath.IsLocal(header.Name) {
			return fmt.Errorf("%s contains %q, which is outside of the target directory", archive, header.Name)
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
