package source

import (
	"fmt"
	"path"
	"sort"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/yamlbound"
)

const (
	// overlaysFolder contains one folder for each overlay.
	overlaysFolder = "overlays/"
	// patchMark in the name of an overlay's file makes it a patch. The name without the mark is the file to patch.
	patchMark = "_patch."
	// patchLimit limits the bytes that the copy operations of one JSON patch may add, because each could double an object. It
	// also limits a file that overlays have patched, because there may be any number of them. API servers refuse objects of
	// this size.
	patchLimit = 4 << 20
)

// limitCopies sets patchLimit for JSON patches of overlays and of kustomize, which uses the same package.
var limitCopies = sync.OnceFunc(func() { jsonpatch.AccumulatedCopySizeLimit = patchLimit }) //nolint:gochecknoglobals // the limit is a global variable

// applyOverlays applies the files of the named overlays to the other files, in order. It drops the folder of the
// overlays and sorts the files by name. Within an overlay, plain files come before patches, so that a patch can
// change a file of its own overlay.
func applyOverlays(files []file, overlays []string) ([]file, error) {
	result := map[string][]byte{}
	for _, f := range files {
		if !strings.HasPrefix(f.Name, overlaysFolder) {
			result[f.Name] = f.Data
		}
	}
	left := mostBytes // searching the files of an overlay counts too: an overlay may be named any number of times
	for _, overlay := range overlays {
		dir, err := cleanPath(overlaysFolder + overlay)
		if err != nil {
			return nil, fmt.Errorf("overlay %q: %w", overlay, err)
		}
		folder := chartFolder(files, dir)
		for _, f := range folder {
			if target, isPatch := patchTarget(f.Name); isPatch {
				left -= len(f.Data) + len(result[target])
			}
		}
		if left -= len(files); left < 0 {
			return nil, fmt.Errorf("overlay %q: the overlays patch more than %d MiB, counted as often as they are named: name fewer, or split the bundle", overlay, mostBytes>>20)
		}
		if err := applyOverlay(result, folder); err != nil {
			return nil, fmt.Errorf("overlay %q: %w", overlay, err)
		}
	}
	return sortedFiles(result), nil
}

func applyOverlay(result map[string][]byte, overlay []file) error {
	sort.Slice(overlay, func(i, j int) bool { return overlay[i].Name < overlay[j].Name })
	for _, f := range overlay {
		if _, isPatch := patchTarget(f.Name); !isPatch {
			result[f.Name] = f.Data
		}
	}
	for _, f := range overlay {
		target, isPatch := patchTarget(f.Name)
		if !isPatch {
			continue
		}
		base, exists := result[target]
		if !exists {
			return fmt.Errorf("%s patches %s, which does not exist", f.Name, target)
		}
		patched, err := patchFile(base, f.Data)
		if err != nil {
			return fmt.Errorf("patching %s with %s: %w", target, f.Name, err)
		}
		if len(patched) > patchLimit {
			return fmt.Errorf("patching %s with %s: the result has more than %d MiB: make the file or the patches smaller", target, f.Name, patchLimit>>20)
		}
		result[target] = patched
	}
	return nil
}

// patchTarget returns the file that a patch changes.
func patchTarget(name string) (target string, isPatch bool) {
	dir, base := path.Split(name)
	if !strings.Contains(base, patchMark) {
		return "", false
	}
	return dir + strings.Replace(base, patchMark, ".", 1), true
}

// patchFile applies a patch to a file with one object. A list is a JSON patch. Anything else is a strategic merge
// patch for built-in kinds, and a JSON merge patch for others. The result is JSON.
func patchFile(base, patch []byte) ([]byte, error) {
	object, err := singleObject(base)
	if err != nil {
		return nil, err
	}
	if err := yamlbound.CheckManifest(patch); err != nil {
		return nil, fmt.Errorf("YAML parse error: %w", err)
	}
	patchJSON, err := yaml.YAMLToJSON(patch)
	if err != nil {
		return nil, fmt.Errorf("YAML parse error: %w", err)
	}
	baseJSON, err := object.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	if strings.HasPrefix(string(patchJSON), "[") {
		operations, err := jsonpatch.DecodePatch(patchJSON)
		if err != nil {
			return nil, fmt.Errorf("reading the JSON patch: %w", err)
		}
		limitCopies()
		return operations.Apply(baseJSON)
	}
	known, err := scheme.Scheme.New(object.GroupVersionKind())
	if err != nil {
		return jsonpatch.MergePatch(baseJSON, patchJSON) // not a built-in kind
	}
	return strategicpatch.StrategicMergePatch(baseJSON, patchJSON, known)
}

func singleObject(data []byte) (*unstructured.Unstructured, error) {
	objects, err := manifest.Parse(data)
	if err != nil {
		return nil, err
	}
	if len(objects) != 1 {
		return nil, fmt.Errorf("the file contains %d objects; only a file with one object can be patched", len(objects))
	}
	if objects[0].GetKind() == "" {
		return nil, fmt.Errorf("the file contains an object without a kind")
	}
	return objects[0], nil
}

func sortedFiles(contents map[string][]byte) []file {
	files := make([]file, 0, len(contents))
	for name, data := range contents {
		files = append(files, file{Name: name, Data: data})
	}
	sort.Slice(files, func(i, j int) bool { return files[i].Name < files[j].Name })
	return files
}
