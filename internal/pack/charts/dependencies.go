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
)

// UpdateDependencies fetches the dependencies of the chart in dir, unless all that its Chart.yaml lists are in charts/.
// It writes charts/ and Chart.lock in dir, and progress messages to progress. It fails if the chart cannot be loaded.
func UpdateDependencies(ctx context.Context, dir string, auth Auth, progress io.Writer) error {
	return updateDependencies(ctx, dir, auth, progress, defaultLimits())
}

func updateDependencies(ctx context.Context, dir string, auth Auth, progress io.Writer, limits limits) error {
	loaded, err := load(dir, limits)
	if err != nil {
		return err
	}
	dependencies := loaded.Metadata.Dependencies
	if len(dependencies) == 0 || action.CheckDependencies(loaded, dependencies) == nil {
		return nil
	}
	for _, dependency := range dependencies {
		if local, ok := strings.CutPrefix(dependency.Repository, "file://"); ok {
			path, err := absolute(dir, local)
			if err != nil {
				return err
			}
			if err := checkFiles(path, limits); err != nil {
				return fmt.Errorf("dependency %s: %w", dependency.Name, err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	var hidden []string
	for _, dependency := range dependencies {
		hidden = append(hidden, secrets(dependency.Repository)...)
	}
	if err := update(ctx, dir, dependencies, auth, scrubbing{progress, hidden}, limits); err != nil {
		return scrub(fmt.Errorf("updating the dependencies of chart %s: %w", loaded.Name(), err), hidden...)
	}
	return nil
}

// load loads the chart in a folder.
func load(dir string, limits limits) (*chart.Chart, error) {
	if err := checkFiles(dir, limits); err != nil {
		return nil, err
	}
	loaded, err := loader.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("loading chart: %w", err)
	}
	return loaded, nil
}

// update runs Helm's update of dependencies, with clients of its own.
func update(ctx context.Context, dir string, dependencies []*chart.Dependency, auth Auth, progress io.Writer, limits limits) error {
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
		inner, err := getter.NewOCIGetter(append(options, getter.WithRegistryClient(registry))...)
		return &checkedGetter{inner, limits}, err
	}}
	return (&downloader.Manager{
		Out:              progress,
		ChartPath:        dir,
		Getters:          getter.Providers{web, oci},
		RegistryClient:   registry,
		RepositoryConfig: filepath.Join(cache, "repositories.yaml"),
		RepositoryCache:  cache,
	}).Update()
}

// webGetter downloads indexes and archives for Helm.
type webGetter struct {
	ctx    context.Context //nolint:containedctx // Helm's interface has no context
	client *http.Client
	limits limits
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
	limits limits
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
