package charts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
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
	loaded, err := load(dir)
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
			if err := checkLinks(path); err != nil {
				return fmt.Errorf("dependency %s: %w", dependency.Name, err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if err := update(ctx, dir, dependencies, auth, progress, limits); err != nil {
		var hidden []string
		for _, dependency := range dependencies {
			hidden = append(hidden, secrets(dependency.Repository)...)
		}
		return scrub(fmt.Errorf("updating the dependencies of chart %s: %w", loaded.Name(), err), hidden...)
	}
	return nil
}

// load loads the chart in a folder.
func load(dir string) (*chart.Chart, error) {
	if err := checkLinks(dir); err != nil {
		return nil, err
	}
	loaded, err := loader.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("loading chart: %w", err)
	}
	return loaded, nil
}

// checkLinks returns an error if a chart contains a symbolic link that leads out of it, or to a folder: Helm follows
// links, and those to folders can form loops.
func checkLinks(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink == 0 {
			return err
		}
		if info, err := root.Stat(name); err != nil {
			return fmt.Errorf("symlink %q: %w", name, err)
		} else if info.IsDir() {
			return fmt.Errorf("symlink %q: links to folders are not supported in charts", name)
		}
		return nil
	})
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
		return getter.NewOCIGetter(append(options, getter.WithRegistryClient(registry))...)
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
		return nil, fmt.Errorf("failed to fetch %s : %s", redact(text), response.Status)
	}
	data, err := readAll(response.Body, w.limits)
	return bytes.NewBuffer(data), err
}
