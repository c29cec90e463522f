package parity

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// agentManifest is the name of the resource with an agent's objects in its Bundle.
const agentManifest = "agent.yaml"

// Expand decodes the parts of an object whose encoding has no meaning: the manifest of a Content, the objects of
// an agent's Bundle, and a JSON configuration. It removes empty annotations, and zero counts that our controllers
// do not write.
func Expand(o Object) (Object, error) {
	o.Fields = runtime.DeepCopyJSON(o.Fields)
	if metadata, ok := o.Fields["metadata"].(map[string]any); ok {
		if annotations, ok := metadata["annotations"].(map[string]any); ok && len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
	var err error
	switch o.Kind() {
	case "BundleDeployment":
		counts, _, _ := unstructured.NestedFieldNoCopy(o.Fields, "status", "resourceCounts")
		dropZeros(counts)
	case "ConfigMap":
		err = expandConfig(o.Fields)
	case "Bundle":
		if spec, ok := o.Fields["spec"].(map[string]any); ok {
			err = expandResources(spec)
		}
	case "Content":
		err = expandContent(o.Fields)
	}
	if err != nil {
		return Object{}, fmt.Errorf("expanding %s: %w", o, err)
	}
	return o, nil
}

func dropZeros(counts any) {
	of, _ := counts.(map[string]any)
	for name, count := range of {
		if fmt.Sprint(count) == "0" {
			delete(of, name)
		}
	}
}

// expandConfig replaces the JSON of a configuration by its value.
func expandConfig(fields map[string]any) error {
	data, _ := fields["data"].(map[string]any)
	text, ok := data["config"].(string)
	if !ok {
		return nil
	}
	var config any
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return fmt.Errorf("decoding its configuration: %w", err)
	}
	data["config"] = config
	return nil
}

// expandContent verifies the hash of a Content and replaces its compressed manifest by the manifest.
func expandContent(fields map[string]any) error {
	var typed fleet.Content
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &typed); err != nil {
		return err
	}
	manifest, err := content.Read(&typed)
	if err != nil {
		return err
	}
	var plain map[string]any
	if err := json.Unmarshal(manifest.Bytes(), &plain); err != nil {
		return err
	}
	if err := expandResources(plain); err != nil {
		return err
	}
	fields["content"] = plain
	return nil
}

// expandResources replaces the manifest of an agent by its objects, keyed by kind and name.
func expandResources(in map[string]any) error {
	resources, _ := in["resources"].([]any)
	for _, entry := range resources {
		resource, _ := entry.(map[string]any)
		text, ok := resource["content"].(string)
		if !ok || resource["name"] != agentManifest {
			continue
		}
		objects := map[string]any{}
		for document := range strings.SplitSeq(text, "\n---\n") {
			var fields map[string]any
			if err := yaml.Unmarshal([]byte(document), &fields); err != nil {
				return fmt.Errorf("reading %s: %w", agentManifest, err)
			}
			if len(fields) > 0 {
				key := strings.TrimPrefix(Object{Fields: fields}.String(), " ")
				objects[key] = fields
			}
		}
		resource["content"] = objects
	}
	return nil
}
