package charts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/repo"

	"github.com/fleet-hub/fleet/internal/pack/charts/unpack"
	"github.com/fleet-hub/fleet/internal/yamlbound"
)

// resolve returns the URL of the archive that the index of a chart repository names.
func resolve(ctx context.Context, source Source, limits unpack.Limits) (string, error) {
	index, err := readIndex(ctx, source, limits)
	if err != nil {
		return "", err
	}
	version, err := index.Get(source.Chart, source.Version)
	if err != nil {
		return "", err
	}
	if len(version.URLs) == 0 {
		return "", fmt.Errorf("no URL for %s-%s in the index", source.Chart, version.Version)
	}
	text, err := repo.ResolveReferenceURL(source.Repo, version.URLs[0])
	if err == nil && !isRemote(text) {
		err = fmt.Errorf("the index names the address %q, which must begin with http://, https:// or oci://", Redact(text))
	}
	return text, err
}

// isRemote reports whether an index may name an address. A repository must not choose a git repository or a folder of
// this machine.
func isRemote(text string) bool {
	return slices.ContainsFunc([]string{"http://", "https://", schemeOCI}, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// readIndex downloads the index of a chart repository.
func readIndex(ctx context.Context, source Source, limits unpack.Limits) (*repo.IndexFile, error) {
	text, err := repo.ResolveReferenceURL(source.Repo, "index.yaml")
	if err != nil {
		return nil, err
	}
	address, err := parse(text)
	if err != nil {
		return nil, err
	}
	if address.scheme != schemeHTTP {
		return nil, fmt.Errorf("%s is not the URL of a chart repository: it must begin with http://, https:// or oci://", Redact(source.Repo))
	}
	auth, from := source.Auth.forURL(*address.url)
	client, err := newClient(auth, origin(&from))
	if err != nil {
		return nil, err
	}
	response, err := get(ctx, client, from.String())
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("failed to read helm repo from %s, error code: %d", Redact(text), response.StatusCode)
	}
	return loadIndex(response.Body, limits)
}

// loadIndex reads an index. Helm reads it only from a file.
func loadIndex(body io.Reader, limits unpack.Limits) (*repo.IndexFile, error) {
	dir, err := os.MkdirTemp("", "fleet-chart-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	data, err := readAll(body, limits)
	if err != nil {
		return nil, err
	}
	budget := yamlbound.Budget{Items: len(data), Expanded: len(data), Bytes: len(data)} // only aliases can exceed it
	if err := budget.Spend(data); errors.Is(err, yamlbound.ErrTooLarge) {
		return nil, fmt.Errorf("reading the index of the chart repository: %w", err)
	}
	path := filepath.Join(dir, "index.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return nil, err
	}
	index, err := repo.LoadIndexFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the index of the chart repository: %w", err)
	}
	return index, nil
}

// readAll reads a body that must fit into memory.
func readAll(body io.Reader, limits unpack.Limits) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, limits.Memory+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limits.Memory {
		return nil, fmt.Errorf("more than %d bytes received", limits.Memory)
	}
	return data, nil
}
