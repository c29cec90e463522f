package source

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"

	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// file is a decoded resource of a bundle with a clean name.
type file struct {
	Name string
	Data []byte
}

// externalCharts is the folder of charts that were downloaded when the bundle was made.
const externalCharts = ".chart"

// bundleLimit limits the total size of the files of a bundle in bytes, decompressed and with unpacked charts.
const bundleLimit = 128 << 20

// errBundleTooLarge means that the files of a bundle exceed bundleLimit.
var errBundleTooLarge = outcome.Because(conditions.ReasonBundleTooLarge, fmt.Errorf(
	"the files of the bundle have more than %d MiB together, decompressed and unpacked: make the bundle smaller, or split it", bundleLimit>>20))

// readFiles decodes a bundle's resources. A resource without a name gets one from its index. If two have the same
// name, the last one wins.
func readFiles(resources []fleet.BundleResource) ([]file, error) {
	files := make([]file, 0, len(resources))
	place := map[string]int{}
	left := bundleLimit
	for i, resource := range resources {
		name := resource.Name
		if name == "" {
			name = fmt.Sprintf("manifests/file%03d.yaml", i)
		}
		name, err := cleanPath(name)
		if err != nil {
			return nil, err
		}
		data, err := content.Data(resource, min(left, content.MaxSize))
		if errors.Is(err, content.ErrTooLarge) && left < content.MaxSize {
			return nil, errBundleTooLarge
		}
		left -= len(data)
		if err != nil {
			return nil, fmt.Errorf("decoding resource %q: %w", name, err)
		}
		if at, seen := place[name]; seen {
			files[at].Data = data
			continue
		}
		place[name] = len(files)
		files = append(files, file{Name: name, Data: data})
	}
	return files, nil
}

// style describes what a bundle consists of. A bundle may have both a chart and a kustomization. A bundle with
// neither is raw.
type style struct {
	// Chart is the path of the Chart.yaml, "" without a chart.
	Chart string
	// Kustomization is the path of the requested kustomization file, "" without one.
	Kustomization string
}

func (s style) isRaw() bool { return s.Chart == "" && s.Kustomization == "" }

// styleOf determines the style of a bundle. If several files match, the last one wins.
func styleOf(files []file, options *fleet.BundleDeploymentOptions) (style, error) {
	chartPath, external, err := chartPaths(options.Helm)
	if err != nil {
		return style{}, fmt.Errorf("finding the chart: %w", err)
	}
	kustomizations, err := kustomizationPaths(options.Kustomize)
	if err != nil {
		return style{}, fmt.Errorf("finding the kustomization: %w", err)
	}
	var found style
	for _, f := range files {
		if f.Name == chartPath || isExternalChart(f.Name, external) {
			found.Chart = f.Name
		}
		if slices.Contains(kustomizations, f.Name) {
			found.Kustomization = f.Name
		}
	}
	return found, checkNamed(found, options, chartPath, kustomizations)
}

// checkNamed returns an error if the options name a chart or a kustomization that the bundle does not contain. The
// files would otherwise be deployed in another way than requested.
func checkNamed(found style, options *fleet.BundleDeploymentOptions, chartPath string, kustomizations []string) error {
	switch helm := options.Helm; {
	case found.Chart != "" || helm == nil || helm.Chart == "" && helm.Repo == "":
	case helm.Repo != "" || chartPath == "":
		return &outcome.UnsupportedError{What: fmt.Sprintf(
			"the bundle does not contain the chart %q of helm, and charts are not downloaded: put its files into the bundle, as fleet apply does", named(helm))}
	default:
		return outcome.Because(conditions.ReasonRenderingFailed, fmt.Errorf("finding the chart: helm.chart is %q, but the bundle has no file %s", helm.Chart, chartPath))
	}
	if kustomize := options.Kustomize; found.Kustomization == "" && kustomize != nil && kustomize.Dir != "" {
		return outcome.Because(conditions.ReasonRenderingFailed, fmt.Errorf(
			"finding the kustomization: kustomize.dir is %q, but the bundle has no file %s", kustomize.Dir, kustomizations[0]))
	}
	return nil
}

// named returns the chart that Helm options name.
func named(helm *fleet.HelmOptions) string { return cmp.Or(helm.Chart, helm.Repo) }

// chartPaths returns the path that a Chart.yaml of the bundle would have, and the folder that a downloaded chart
// would have.
func chartPaths(helm *fleet.HelmOptions) (chartPath, external string, err error) {
	if helm == nil {
		return "Chart.yaml", "", nil
	}
	sum := sha256.Sum256([]byte(helm.Chart + ":" + helm.Repo + ":" + helm.Version))
	external = path.Join(externalCharts, hex.EncodeToString(sum[:]))
	if strings.Contains(named(helm), "://") {
		return "", external, nil // a URL, not a folder of the bundle
	}
	dir, err := cleanDir(named(helm))
	if err != nil {
		return "", "", err
	}
	return path.Join(dir, "Chart.yaml"), external, nil
}

func isExternalChart(name, external string) bool {
	rest, below := strings.CutPrefix(name, external+"/")
	if external == "" || !below || path.Base(rest) != "Chart.yaml" {
		return false
	}
	return strings.Count(rest, "/") <= 1
}

// kustomizationPaths returns the possible paths of the kustomization file, one for each name that kustomize knows.
// If a folder has two of them, kustomize returns an error.
func kustomizationPaths(kustomize *fleet.KustomizeOptions) ([]string, error) {
	dir := ""
	if kustomize != nil {
		dir = kustomize.Dir
	}
	dir, err := cleanDir(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		paths = append(paths, path.Join(dir, name))
	}
	return paths, nil
}
