package pack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/fleet-hub/fleet/internal/pack/charts"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Charts fetches charts.
type Charts struct {
	// Fetch downloads a chart and unpacks it into a folder.
	Fetch func(ctx context.Context, source charts.Source, to string) error
	// Complete returns the folder of a chart with all dependencies: the same one, or a copy that the caller removes.
	Complete func(ctx context.Context, folder string, auth charts.Auth, progress io.Writer) (complete string, remove func(), err error)
}

// chartFolder is the folder of downloaded charts in a Bundle. Agents find a chart in a folder below that is named after
// the chart's hash.
const chartFolder = ".chart/"

// parallelLoads is the number of folders and charts of one Bundle that are read concurrently.
const parallelLoads = 4

// directory is a folder whose files become resources of a Bundle.
type directory struct {
	// prefix is the path of the files in the Bundle.
	prefix string
	// chart is the chart to download first, or nil for the Bundle's own folder.
	chart *fleet.HelmOptions
}

// directories returns the folder of a Bundle and the charts to download: those that are not a folder in it.
func directories(folder string, spec *fleet.BundleSpec) []directory {
	found := []directory{{prefix: "."}}
	add := func(helm *fleet.HelmOptions) {
		if helm == nil || helm.Chart == "" && helm.Repo == "" {
			return
		}
		if _, err := os.Stat(filepath.Join(folder, helm.Chart)); err == nil && helm.Repo == "" {
			return
		}
		prefix := ChartPrefix(helm)
		if !slices.ContainsFunc(found, func(d directory) bool { return d.prefix == prefix }) {
			found = append(found, directory{prefix, helm})
		}
	}
	add(spec.Helm)
	for i := range spec.Targets {
		add(spec.Targets[i].Helm)
	}
	return found
}

// ChartPrefix returns the folder of a downloaded chart in a Bundle.
func ChartPrefix(helm *fleet.HelmOptions) string {
	sum := sha256.Sum256([]byte(helm.Chart + ":" + helm.Repo + ":" + helm.Version))
	return chartFolder + hex.EncodeToString(sum[:])
}

// contents are the files of a Bundle, with warnings about those that are not.
type contents struct {
	files    []file
	warnings []Warning
	// lostValues means that a file values.yaml of a chart is left out because a values file has this name.
	lostValues bool
}

// load returns the files of a Bundle, sorted by name.
func (p *packer) load(ctx context.Context, folder Folder, auth charts.Auth, spec *fleet.BundleSpec, excluded map[string]bool) (contents, error) {
	wanted := directories(folder.Path, spec)
	loaded := make([]contents, len(wanted))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelLoads)
	for i, directory := range wanted {
		group.Go(func() (err error) {
			l := loader{packer: p, folder: folder.Path, auth: auth, excluded: excluded}
			l.updates = spec.Helm == nil || !spec.Helm.DisableDependencyUpdate
			loaded[i], err = l.load(ctx, directory)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return contents{}, err
	}
	all := loaded[0] // the Bundle's own folder; the warnings about downloaded charts are for their authors
	if spec.Helm != nil && slices.ContainsFunc(spec.Helm.ValuesFiles, func(name string) bool { return path.Clean(name) == chartValues }) {
		all.lostValues = false // its values are in those of the Bundle
	}
	for _, chart := range loaded[1:] {
		all.lostValues = all.lostValues || chart.lostValues
		all.files = append(all.files, chart.files...)
	}
	slices.SortFunc(all.files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// loader reads the directories of one Bundle.
type loader struct {
	*packer

	folder   string
	auth     charts.Auth
	excluded map[string]bool
	// updates means that missing dependencies of charts are fetched.
	updates bool
}

func (l loader) load(ctx context.Context, wanted directory) (contents, error) {
	if wanted.chart == nil && isHidden(l.folder) {
		return contents{}, nil
	}
	root, err := filepath.Abs(l.folder)
	if err != nil {
		return contents{}, err
	}
	shown := "."
	if wanted.chart != nil {
		temporary, err := os.MkdirTemp("", "fleet-chart-")
		if err != nil {
			return contents{}, err
		}
		defer os.RemoveAll(temporary)
		if err := l.fetch(ctx, wanted, root, temporary); err != nil {
			return contents{}, err
		}
		root, shown, l.auth.Root = temporary, temporary, temporary
	}
	r := &reader{shown: l.folder, excluded: l.excluded, left: &l.left}
	r.complete = func(folder string) (string, func(), error) { return l.complete(ctx, folder) }
	if err := r.read(root); err != nil {
		return contents{}, fmt.Errorf("loading directory %s, %s: failed to read %s relative to %s: %w", wanted.prefix, l.folder, shown, root, err)
	}
	for i := range r.files {
		r.files[i].name = path.Join(wanted.prefix, r.files[i].name)
	}
	return r.contents, nil
}

// fetch downloads a chart into a folder. root is the Bundle's folder.
func (l loader) fetch(ctx context.Context, wanted directory, root, to string) error {
	source := charts.Source{Repo: wanted.chart.Repo, Chart: wanted.chart.Chart, Version: wanted.chart.Version, Folder: root}
	url := source.Repo
	if url == "" {
		url = source.Chart
	}
	err := l.Credentials.with(l.auth, url, func(auth charts.Auth) error {
		source.Auth = auth
		return l.Charts.Fetch(ctx, source, to)
	})
	var resolving *charts.ResolveError
	if errors.As(err, &resolving) {
		return fmt.Errorf("failed to add directory for chart: %w", err)
	}
	if err != nil {
		return fmt.Errorf("loading directory %s, %s: %w", wanted.prefix, l.folder, err)
	}
	return nil
}

// complete returns the folder of a chart with all dependencies.
func (l loader) complete(ctx context.Context, folder string) (complete string, remove func(), err error) {
	if !l.updates {
		return folder, func() {}, nil
	}
	auth := l.auth
	auth.Allow = func(repository string) bool {
		allowed, err := l.Credentials.allows(repository)
		return err == nil && allowed
	}
	return l.Charts.Complete(ctx, folder, auth, l.Progress)
}
