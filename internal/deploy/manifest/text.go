package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/releaseutil"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/yamlbound"
)

// CRDsFolder is the chart's folder for objects that Helm installs before all others and never changes.
const CRDsFolder = "crds/"

// Parse parses a stream of YAML or JSON documents. It replaces Lists by their items and skips empty
// documents and comments. Its errors start with "YAML parse error", because classify looks for this text.
func Parse(stream []byte) ([]*unstructured.Unstructured, error) {
	documents, err := SplitDocuments(stream)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for i, document := range documents {
		content, err := parseDocument(document)
		if err != nil {
			return nil, fmt.Errorf("YAML parse error in document %d: %w", i+1, err)
		}
		if content == nil {
			continue
		}
		items, err := flatten(content)
		if err != nil {
			return nil, fmt.Errorf("YAML parse error in document %d: %w", i+1, err)
		}
		objects = append(objects, items...)
	}
	return objects, nil
}

func SplitDocuments(stream []byte) ([][]byte, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(stream)))
	var documents [][]byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, fmt.Errorf("YAML parse error: %w", err)
		}
		documents = append(documents, document)
	}
}

// parseDocument parses one document. It returns nil for an empty document.
func parseDocument(document []byte) (map[string]any, error) {
	if err := yamlbound.CheckManifest(document); err != nil {
		return nil, err
	}
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, err
	}
	if string(text) == "null" {
		return nil, nil
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, errors.New("the document is not an object")
	}
	var content map[string]any
	if err := utiljson.Unmarshal(text, &content); err != nil {
		return nil, err
	}
	return content, nil
}

// flatten replaces a List by its items. It skips an empty object, which a template makes of an empty value.
func flatten(content map[string]any) ([]*unstructured.Unstructured, error) {
	if len(content) == 0 {
		return nil, nil
	}
	object := &unstructured.Unstructured{Object: content}
	items, isList := content["items"].([]any)
	if !isList || !strings.HasSuffix(object.GetKind(), "List") {
		return []*unstructured.Unstructured{object}, nil
	}
	var objects []*unstructured.Unstructured
	for _, item := range items {
		inner, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("an item of a %s is not an object", object.GetKind())
		}
		flat, err := flatten(inner)
		if err != nil {
			return nil, err
		}
		objects = append(objects, flat...)
	}
	return objects, nil
}

// Format encodes objects as a stream of YAML documents. Equal objects produce equal bytes.
func Format(objects []*unstructured.Unstructured) ([]byte, error) {
	var out bytes.Buffer
	for _, object := range objects {
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("encoding %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}

// SortForInstall sorts objects by Helm's install order of kinds. Objects of the same kind keep their order.
func SortForInstall(objects []*unstructured.Unstructured) {
	sort.SliceStable(objects, func(i, j int) bool {
		return installsBefore(objects[i].GetKind(), objects[j].GetKind())
	})
}

// installsBefore compares kinds: kinds that Helm knows come first, in Helm's order, then other kinds by name.
func installsBefore(a, b string) bool {
	first, second := slices.Index(releaseutil.InstallOrder, a), slices.Index(releaseutil.InstallOrder, b)
	switch {
	case first >= 0 && second >= 0:
		return first < second
	case first < 0 && second < 0:
		return a < b
	default:
		return first >= 0
	}
}

// IsCRD reports whether a kind is CustomResourceDefinition.
func IsCRD(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "apiextensions.k8s.io" && gvk.Kind == "CustomResourceDefinition"
}
