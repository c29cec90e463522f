package helm

import (
	"fmt"
	"path/filepath"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/repo"
)

// WriteRepository packs the chart in a folder and writes the archive with an index into another one, as `helm package`
// and `helm repo index` do. A server of that folder is a chart repository.
func WriteRepository(chart, into string) error {
	loaded, err := loader.LoadDir(chart)
	if err != nil {
		return fmt.Errorf("reading chart %s: %w", chart, err)
	}
	if _, err := chartutil.Save(loaded, into); err != nil {
		return fmt.Errorf("packing chart %s: %w", chart, err)
	}
	index, err := repo.IndexDirectory(into, "")
	if err != nil {
		return fmt.Errorf("indexing %s: %w", into, err)
	}
	return index.WriteFile(filepath.Join(into, "index.yaml"), 0o600)
}
