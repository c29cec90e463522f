package source

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/yamlbound"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	// rawFolder is the chart's folder for objects that are not templates.
	rawFolder = "raw-yaml/"
	// templatesFolder is the chart's folder for templates.
	templatesFolder = "templates/"
	// deepestChart limits how deeply charts may be packed into one another.
	deepestChart = 10
	// shortCommit is the length of a commit in a chart's version.
	shortCommit = 12
)

// versionPart matches valid build metadata of a version.
var versionPart = regexp.MustCompile(`^[0-9A-Za-z.-]+$`)

// Package is a bundle in the form that Helm installs.
type Package struct {
	// Chart is the bundle's own chart, or one made from its files.
	Chart *chart.Chart
	// Style describes how the bundle is built.
	Style style
	// Files are all files of the bundle. A kustomization needs them.
	Files []file
	// missing are the dependencies that Chart.yaml lists and the chart does not contain.
	missing []*chart.Dependency
}

// Input is the input of New.
type Input struct {
	// Name is the name of the BundleDeployment.
	Name string
	// ManifestID and Commit form the version of a chart made from files. Commit may be empty.
	ManifestID, Commit string
	Resources          []fleet.BundleResource
	Options            *fleet.BundleDeploymentOptions
	// Annotations are stored with the release. The agent uses them to recognize the release.
	Annotations map[string]string
}

// New makes the chart of a bundle. It writes nothing to disk, and no resource name leads out of the chart.
func New(in Input) (*Package, error) {
	files, err := readFiles(in.Resources)
	if err != nil {
		return nil, err
	}
	found, err := styleOf(files, in.Options)
	if err != nil {
		return nil, err
	}
	var chartFiles []file
	switch {
	case found.Chart != "":
		chartFiles = chartFolder(files, dirOf(found.Chart))
	case found.isRaw():
		if chartFiles, err = rawChart(files, in.Options); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(chartFiles, func(f file) bool { return f.Name == "Chart.yaml" }) {
		chartFiles = append(chartFiles, madeUpChart(in))
	}
	loaded, err := load(chartFiles, bundleLimit-sizeOf(files))
	if err != nil {
		return nil, fmt.Errorf("loading the chart: %w", err)
	}
	if in.Options.TargetNamespace != "" {
		if err := checkCRDs(loaded); err != nil {
			return nil, err
		}
	}
	annotate(loaded, in.Annotations)
	return &Package{Chart: loaded, Style: found, Files: files, missing: missingDependencies(loaded, in.Options)}, nil
}

// missingDependencies returns the dependencies that Chart.yaml lists and the chart does not contain, or none if the bundle
// is to be deployed without them.
func missingDependencies(c *chart.Chart, options *fleet.BundleDeploymentOptions) []*chart.Dependency {
	if options.Helm != nil && options.Helm.DisableDependencyUpdate {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.Metadata.Dependencies), func(d *chart.Dependency) bool {
		return action.CheckDependencies(c, []*chart.Dependency{d}) == nil
	})
}

// CheckDependencies returns an error if a dependency is enabled that the chart does not contain. Helm would install the chart
// without it. It is called when Helm has processed the conditions and tags of dependencies.
func (p *Package) CheckDependencies() error {
	for _, d := range p.missing {
		if d.Enabled {
			return outcome.Because(conditions.ReasonRenderingFailed, fmt.Errorf("dependency %q is found in Chart.yaml, but missing in charts/ directory: "+
				"add it with helm dependency update, disable it in the values, or set helm.disableDependencyUpdate to deploy the chart without it", d.Name))
		}
	}
	return nil
}

// chartFolder returns the files of a chart within a bundle, with names relative to the chart's folder.
func chartFolder(files []file, dir string) []file {
	var chosen []file
	for _, f := range files {
		if name, ok := within(f.Name, dir); ok {
			chosen = append(chosen, file{Name: name, Data: f.Data})
		}
	}
	return chosen
}

// rawChart turns the files of a raw bundle into the files of a chart: files below templates/ are rendered, other
// manifests are installed unchanged.
func rawChart(files []file, options *fleet.BundleDeploymentOptions) ([]file, error) {
	var overlays []string
	if options.YAML != nil {
		overlays = options.YAML.Overlays
	}
	files, err := applyOverlays(files, overlays)
	if err != nil {
		return nil, err
	}
	nested := nestedFolders(files)
	var chosen []file
	for _, f := range files {
		if !isManifest(f.Name) || belongsElsewhere(f.Name, nested) {
			continue
		}
		if strings.HasPrefix(f.Name, templatesFolder) {
			chosen = append(chosen, f)
			continue
		}
		chosen = append(chosen, file{Name: rawFolder + f.Name, Data: f.Data})
	}
	return chosen, nil
}

// isManifest reports whether a file contains objects, by its name.
func isManifest(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return !isFleetFile(name)
	}
	return false
}

func isFleetFile(name string) bool {
	base := path.Base(name)
	return base == "fleet.yaml" || base == "fleet.yml"
}

// nestedFolders returns the folders of other bundles and charts within this bundle.
func nestedFolders(files []file) []string {
	var nested []string
	for _, f := range files {
		if dir := dirOf(f.Name); dir != "" && (isFleetFile(f.Name) || path.Base(f.Name) == "Chart.yaml") {
			nested = append(nested, dir)
		}
	}
	return nested
}

func belongsElsewhere(name string, nested []string) bool {
	return slices.ContainsFunc(nested, func(dir string) bool { return strings.HasPrefix(name, dir+"/") })
}

// madeUpChart returns a generated Chart.yaml for a bundle without one.
func madeUpChart(in Input) file {
	version := "v0.0.0+" + in.ManifestID
	if len(in.Commit) > shortCommit && versionPart.MatchString(in.Commit) {
		version = "v0.0.0+git-" + in.Commit[:shortCommit]
	}
	text := fmt.Sprintf("apiVersion: v2\nname: %q\nversion: %q\n", path.Base(in.Name), version)
	return file{Name: "Chart.yaml", Data: []byte(text)}
}

func sizeOf(files []file) int {
	size := 0
	for _, f := range files {
		size += len(f.Data)
	}
	return size
}

// load makes a chart from its files. Packed charts in it may have at most left bytes when unpacked.
func load(files []file, left int) (*chart.Chart, error) {
	allowed := &chartAllowance{bytes: left, yaml: yamlbound.ForManifests()}
	buffered := make([]*loader.BufferedFile, 0, len(files))
	for _, f := range files {
		if err := allowed.spend(f.Name, f.Data, 0); err != nil {
			return nil, err
		}
		// Helm removes a byte order mark when it reads a folder or an archive, but not here.
		buffered = append(buffered, &loader.BufferedFile{Name: f.Name, Data: bytes.TrimPrefix(f.Data, []byte("\ufeff"))})
	}
	return loader.LoadFiles(buffered)
}

// chartAllowance counts what Helm may still read of a chart: bytes of packed charts, and YAML.
type chartAllowance struct {
	bytes int
	yaml  yamlbound.Budget
}

// spend charges the allowance for a file that Helm parses or unpacks. Other files are free, because Helm stores
// them unchanged.
func (a *chartAllowance) spend(name string, data []byte, depth int) error {
	switch path.Base(name) {
	case "Chart.yaml", "Chart.lock", "values.yaml", "requirements.yaml", "requirements.lock":
		if err := a.yaml.Spend(data); errors.Is(err, yamlbound.ErrTooLarge) {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if path.Ext(name) != ".tgz" || path.Base(path.Dir(name)) != "charts" {
		return nil
	}
	if depth == deepestChart {
		return outcome.Because(conditions.ReasonBundleTooLarge, fmt.Errorf("%s: charts are nested more than %d levels deep: unpack them", name, deepestChart))
	}
	files, err := a.unpack(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, f := range files {
		if err := a.spend(path.Join(name, f.Name), f.Data, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// unpack returns the files of a packed chart, or no files if Helm cannot unpack it either.
func (a *chartAllowance) unpack(data []byte) ([]*loader.BufferedFile, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, nil //nolint:nilerr // Helm returns the error, if it reads the file
	}
	size, err := io.Copy(io.Discard, io.LimitReader(unzipped, int64(a.bytes)+1))
	a.bytes -= int(size)
	if a.bytes < 0 {
		return nil, errBundleTooLarge
	}
	if err != nil {
		return nil, nil //nolint:nilerr // Helm returns the error, if it reads the file
	}
	files, err := loader.LoadArchiveFiles(bytes.NewReader(data))
	if err != nil {
		return nil, nil //nolint:nilerr // Helm returns the error, if it reads the file
	}
	unpacked := 0 // may exceed size: an archive may have holes
	for _, f := range files {
		unpacked += len(f.Data)
	}
	if a.bytes -= max(0, unpacked-int(size)); a.bytes < 0 {
		return nil, errBundleTooLarge
	}
	return files, nil
}

// checkCRDs refuses objects in a chart's CRD folder that are not CRDs. Helm creates them without the marks of the
// release and never changes or deletes them.
func checkCRDs(c *chart.Chart) error {
	for _, crd := range c.CRDObjects() {
		objects, err := manifest.Parse(crd.File.Data)
		if err != nil {
			return fmt.Errorf("%s: %w", crd.Filename, err)
		}
		for _, object := range objects {
			if !manifest.IsCRD(object.GroupVersionKind()) {
				return outcome.Because(conditions.ReasonOutsideNamespace, fmt.Errorf(
					"%s holds %s %q: with \"namespace\" there may be nothing but CustomResourceDefinitions in %s; move it to %s",
					crd.Filename, object.GetKind(), object.GetName(), manifest.CRDsFolder, templatesFolder))
			}
		}
	}
	return nil
}

func annotate(c *chart.Chart, annotations map[string]string) {
	if c.Metadata.Annotations == nil {
		c.Metadata.Annotations = map[string]string{}
	}
	for key, value := range annotations {
		c.Metadata.Annotations[key] = value
	}
}

// ChartAnnotations returns the annotations that are stored with the release and identify its owner.
func ChartAnnotations(bd *fleet.BundleDeployment, agentNamespace string) map[string]string {
	annotations := map[string]string{
		fleet.AnnotationBundleID:       bd.Name,
		fleet.AnnotationAgentNamespace: agentNamespace,
		fleet.AnnotationServiceAccount: bd.Spec.Options.ServiceAccount,
		fleet.AnnotationKeepResources:  fmt.Sprint(bd.Spec.Options.KeepResources),
		annotation.DeploymentID:        bd.Spec.DeploymentID,
	}
	if namespace := bd.Spec.Options.TargetNamespace; namespace != "" {
		annotations[annotation.TargetNamespace] = namespace
	}
	if commit := bd.Labels[fleet.LabelCommit]; commit != "" {
		annotations[fleet.AnnotationCommit] = commit
	}
	return annotations
}
