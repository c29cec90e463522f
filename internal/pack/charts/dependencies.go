package charts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/downloader"
	"helm.sh/helm/v3/pkg/getter"

	"github.com/fleet-hub/fleet/internal/pack/charts/unpack"
)

// Complete returns the folder of a chart with the dependencies that its Chart.yaml lists in charts/. If none is missing, it
// is dir. Otherwise it is a copy, with charts/ and Chart.lock, which the caller removes. Progress messages are written to
// progress. It fails if the chart cannot be loaded. Of a chart without dependencies, only the files that could list them are read.
func Complete(ctx context.Context, dir string, auth Auth, progress io.Writer) (complete string, remove func(), err error) {
	return completeWithin(ctx, dir, auth, progress, unpack.DefaultLimits())
}

func completeWithin(ctx context.Context, dir string, auth Auth, progress io.Writer, limits unpack.Limits) (complete string, remove func(), err error) {
	listed, err := load(readDefinition(dir, limits))
	if err != nil {
		return "", nil, err
	}
	unchanged := func() {}
	if len(listed.Metadata.Dependencies) == 0 {
		return dir, unchanged, nil
	}
	loaded, err := load(readFiles(dir, gitFolder, limits))
	if err != nil {
		return "", nil, err
	}
	dependencies := loaded.Metadata.Dependencies
	if action.CheckDependencies(loaded, dependencies) == nil {
		return dir, unchanged, nil
	}
	temporary, err := os.MkdirTemp("", "fleet-chart-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(temporary) }
	complete, err = copyChart(dir, dependencies, temporary, auth.Root, limits)
	if err == nil {
		err = update(ctx, complete, loaded, auth, progress, limits)
	}
	if err != nil {
		remove()
		return "", nil, err
	}
	return complete, remove, nil
}

// copyChart copies a chart, and the folders of its dependencies, which are relative to it: each to its path below the
// directory to. The dependencies must be in the folder root, unless that is empty.
func copyChart(dir string, dependencies []*chart.Dependency, to, root string, limits unpack.Limits) (string, error) {
	for _, dependency := range dependencies {
		local, isLocal := strings.CutPrefix(dependency.Repository, "file://")
		if !isLocal {
			continue
		}
		from, err := absolute(dir, local)
		if err == nil {
			err = Within(root, "dependency "+dependency.Name, from)
		}
		if err == nil {
			err = checkFiles(from, limits)
		}
		if err == nil && !filepath.IsAbs(local) {
			err = copyTo(from, filepath.Join(to, from), limits)
		}
		if err != nil {
			return "", fmt.Errorf("dependency %s: %w", dependency.Name, err)
		}
	}
	copied := filepath.Join(to, dir)
	return copied, copyTo(dir, copied, limits)
}

// copyTo copies a folder.
func copyTo(from, to string, limits unpack.Limits) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	into, err := unpack.NewSink(to, limits)
	if err != nil {
		return err
	}
	defer into.Close()
	return copyLocal(&address{path: from}, "", "", into)
}

// load loads the files of a chart. err is the error of reading them.
func load(files []*loader.BufferedFile, err error) (*chart.Chart, error) {
	if err != nil {
		return nil, err
	}
	loaded, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("loading chart: %w", err)
	}
	return loaded, nil
}

// update fetches the dependencies of the chart in dir.
func update(ctx context.Context, dir string, loaded *chart.Chart, auth Auth, progress io.Writer, limits unpack.Limits) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	var hidden []string
	for _, dependency := range loaded.Metadata.Dependencies {
		hidden = append(hidden, secrets(dependency.Repository)...)
	}
	err := runUpdate(ctx, dir, loaded.Metadata.Dependencies, auth, scrubbing{progress, hidden}, limits)
	if err != nil {
		return scrub(fmt.Errorf("updating the dependencies of chart %s: %w", loaded.Name(), err), hidden...)
	}
	return nil
}

// runUpdate runs Helm's update of dependencies, with clients of its own.
func runUpdate(ctx context.Context, dir string, dependencies []*chart.Dependency, auth Auth, progress io.Writer, limits unpack.Limits) error {
	var origins, hosts []string
	for _, dependency := range dependencies {
		if auth.Allow == nil || !auth.Allow(dependency.Repository) {
			continue
		}
		if address, err := url.Parse(dependency.Repository); err == nil {
			origins, hosts = append(origins, origin(address)), append(hosts, address.Host)
		}
	}
	client, err := newClient(auth, origins...)
	if err != nil {
		return err
	}
	registry, err := newRegistry(ctx, auth, limits, hosts...)
	if err != nil {
		return err
	}
	cache, err := os.MkdirTemp("", "fleet-chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(cache)
	web := getter.Provider{Schemes: []string{"http", "https"}, New: func(...getter.Option) (getter.Getter, error) {
		return &webGetter{ctx, client, limits}, nil
	}}
	oci := getter.Provider{Schemes: []string{"oci"}, New: func(options ...getter.Option) (getter.Getter, error) {
		inner, err := getter.NewOCIGetter(append(options, getter.WithRegistryClient(registry.Client))...)
		return &checkedGetter{inner, limits}, err
	}}
	err = (&downloader.Manager{
		Out:              progress,
		ChartPath:        dir,
		Getters:          getter.Providers{web, oci},
		RegistryClient:   registry.Client,
		RepositoryConfig: filepath.Join(cache, "repositories.yaml"),
		RepositoryCache:  cache,
	}).Update()
	return registry.received.check(err)
}

// webGetter downloads indexes and archives for Helm.
type webGetter struct {
	ctx    context.Context //nolint:containedctx // Helm's interface has no context
	client *http.Client
	limits unpack.Limits
}

// Get downloads a URL.
func (w *webGetter) Get(text string, _ ...getter.Option) (*bytes.Buffer, error) {
	response, err := get(w.ctx, w.client, text)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("failed to fetch %s : %s", Redact(text), response.Status)
	}
	data, err := readAll(response.Body, w.limits)
	if err != nil {
		return nil, err
	}
	return bytes.NewBuffer(data), checkArchive(data, w.limits)
}

// checkedGetter checks the archives that another getter returns.
type checkedGetter struct {
	getter.Getter
	limits unpack.Limits
}

// Get downloads a URL.
func (c *checkedGetter) Get(text string, options ...getter.Option) (*bytes.Buffer, error) {
	data, err := c.Getter.Get(text, options...)
	if err != nil {
		return nil, err
	}
	return data, checkArchive(data.Bytes(), c.limits)
}

// scrubbing is a writer of texts whose secrets are replaced.
type scrubbing struct {
	io.Writer
	secrets []string
}

// Write writes a text.
func (s scrubbing) Write(text []byte) (int, error) {
	clean := text
	for _, secret := range s.secrets {
		clean = bytes.ReplaceAll(clean, []byte(secret), []byte(redacted))
	}
	if _, err := s.Writer.Write(clean); err != nil {
		return 0, err
	}
	return len(text), nil
}
