package pack

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Warning is about a file that has no error, but probably not the effect that its author expects.
type Warning struct {
	// File is the file. Line is 0 if the warning is about all of it.
	File string
	Line int
	Text string
}

// String returns the warning as one line.
func (w Warning) String() string {
	if w.Line == 0 {
		return w.File + ": " + w.Text
	}
	return fmt.Sprintf("%s:%d: %s", w.File, w.Line, w.Text)
}

// Limits of warnings: their number for one file, and the bytes of a name from the file in them.
const (
	maxWarnings = 20
	maxShown    = 200
)

// warnings are the warnings about one file.
type warnings []Warning

// add adds a warning, unless there are too many.
func (w *warnings) add(line int, format string, args ...any) {
	if len(*w) < maxWarnings {
		*w = append(*w, Warning{Line: line, Text: fmt.Sprintf(format, args...)})
	}
}

// in returns the warnings with the name of their file, sorted by line.
func (w warnings) in(file string) []Warning {
	for i := range w {
		w[i].File = file
	}
	slices.SortStableFunc(w, func(a, b Warning) int { return a.Line - b.Line })
	return w
}

// shortened returns the start of a name.
func shortened(name string) string {
	if len(name) <= maxShown {
		return name
	}
	return name[:maxShown] + "…"
}

// warningsOf returns the warnings about the fleet.yaml of a folder: which of its keys have no effect.
func warningsOf(text []byte, doc *document, folder string) warnings {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var root, more yaml.Node
	if err := decoder.Decode(&root); err != nil || len(root.Content) == 0 {
		return nil
	}
	checker := keyChecker{seen: map[*yaml.Node]bool{}}
	checker.check(root.Content[0], reflect.TypeFor[document](), "")
	found := checker.warnings
	if err := decoder.Decode(&more); err == nil {
		found.add(more.Line, "documents after the first one are ignored")
	}
	withoutEffect(&found, root.Content[0], doc)
	misplacedCharts(&found, root.Content[0], &doc.BundleSpec, folder)
	missingOverlays(&found, root.Content[0], &doc.BundleSpec, folder)
	return found
}

// withoutEffect warns of known keys whose values have no effect.
func withoutEffect(found *warnings, root *yaml.Node, doc *document) {
	if len(doc.ImageScans) > 0 {
		found.add(lineOf(root, "imageScans", ""), "imageScans have no effect yet: they are written to the hub, which does not scan images")
	}
	if doc.ForceSyncGeneration != 0 {
		found.add(lineOf(root, "forceSyncGeneration", ""), "forceSyncGeneration is ignored: use the flag --sync-generation")
	}
	if doc.DeleteNamespace {
		found.add(lineOf(root, "deleteNamespace", ""),
			"deleteNamespace has no effect, and is accepted for compatibility: delete the namespace on the clusters yourself")
	}
	if helm := doc.Helm; helm != nil && len(helm.ValuesFiles) > 0 && helm.Chart == "" && helm.Repo == "" {
		found.add(lineOf(root, "valuesFiles", ""),
			"helm.valuesFiles are not read without helm.chart, and do not become resources; set helm.chart to the folder of the chart (. for this one)")
	}
}

// misplacedCharts warns of charts in local folders that agents do not find.
func misplacedCharts(found *warnings, root *yaml.Node, spec *fleet.BundleSpec, folder string) {
	seen := map[string]bool{}
	check := func(helm *fleet.HelmOptions) {
		if helm == nil || helm.Chart == "" || helm.Repo != "" || seen[helm.Chart] {
			return
		}
		seen[helm.Chart] = true
		info, err := os.Stat(filepath.Join(folder, helm.Chart))
		if err != nil {
			return // it will be downloaded
		}
		line, name := lineOf(root, "chart", helm.Chart), shortened(helm.Chart)
		if !filepath.IsLocal(filepath.Clean(helm.Chart)) {
			found.add(line, "chart %q is not in the folder %s: its files do not become resources, and agents do not find it; move it there", name, folder)
		} else if !info.IsDir() {
			found.add(line, "chart %q is a file, which is not unpacked, and agents do not find a chart in it; unpack it to a folder", name)
		}
	}
	check(spec.Helm)
	for i := range spec.Targets {
		check(spec.Targets[i].Helm)
	}
}

// missingOverlays warns of overlays without a folder. Names that lead out of the folder are left to agents, which refuse them.
func missingOverlays(found *warnings, root *yaml.Node, spec *fleet.BundleSpec, folder string) {
	for _, name := range overlays(spec) {
		path := filepath.Join("overlays", name)
		if !filepath.IsLocal(name) {
			continue
		}
		if info, err := os.Stat(filepath.Join(folder, path)); err != nil || !info.IsDir() {
			found.add(lineOf(root, "overlays", ""), "overlay %q has no effect, because there is no folder %s", shortened(name), shortened(path))
		}
	}
}

// overlays returns the names of the overlays of a Bundle and its targets.
func overlays(spec *fleet.BundleSpec) (names []string) {
	if spec.YAML != nil {
		names = slices.Clone(spec.YAML.Overlays)
	}
	for i := range spec.Targets {
		if yaml := spec.Targets[i].YAML; yaml != nil {
			names = append(names, yaml.Overlays...)
		}
	}
	return names
}

// lineOf returns the line of the first key with this name, and with this value unless it is empty. It returns 0 if there
// is none.
func lineOf(node *yaml.Node, name, value string) int {
	for i, inner := range node.Content {
		isKey := node.Kind == yaml.MappingNode && i%2 == 0
		if isKey && strings.EqualFold(inner.Value, name) && (value == "" || node.Content[i+1].Value == value) {
			return inner.Line
		}
		if line := lineOf(inner, name, value); line > 0 {
			return line
		}
	}
	return 0
}
