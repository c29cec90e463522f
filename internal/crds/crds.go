// Package crds finds fields that an API server would drop because its CRDs are older than this release.
//
//	Embedded (the CRDs this release was built with) ─┐
//	                                                 ├─► Missing: fields the server would drop
//	served (the CRD the server has) ─────────────────┘
//
// An API server silently drops fields that its schema does not contain. A controller that is newer than the CRDs
// would write the same status forever.
package crds

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Folder is the folder in the chart fleet-crd with the CRDs of the kinds that this release reconciles.
const Folder = "fleet-crd/crd-bases"

// Embedded returns the CRDs of the kinds that this release reconciles, sorted by name. fsys is charts.FS.
func Embedded(fsys fs.FS) ([]apiextensions.CustomResourceDefinition, error) {
	files, err := fs.Glob(fsys, Folder+"/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("looking for CRDs in %s: %w", Folder, err)
	}
	found := make([]apiextensions.CustomResourceDefinition, len(files))
	for i, file := range files {
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, fmt.Errorf("reading CRD %s: %w", file, err)
		}
		if err := yaml.Unmarshal(text, &found[i]); err != nil {
			return nil, fmt.Errorf("reading CRD %s: %w", file, err)
		}
	}
	return found, nil
}

// Missing returns the fields of ours that a server with this CRD would drop. They are sorted paths from the
// object's root ("status.conditions", "spec.targets[].name", "spec.labels.*"). Fields below a missing field are
// not listed. A version that is not served is "version v1alpha1", a missing subresource is "subresource status".
// Additional fields of the server do not matter, because CRDs may be newer.
func Missing(ours, served *apiextensions.CustomResourceDefinition) []string {
	if served.Spec.PreserveUnknownFields {
		return nil
	}
	var missing []string
	for _, version := range ours.Spec.Versions {
		if version.Served {
			missing = append(missing, missingOf(version, served.Spec.Versions)...)
		}
	}
	return missing
}

func missingOf(ours apiextensions.CustomResourceDefinitionVersion, served []apiextensions.CustomResourceDefinitionVersion) []string {
	at := slices.IndexFunc(served, func(v apiextensions.CustomResourceDefinitionVersion) bool { return v.Name == ours.Name && v.Served })
	if at < 0 {
		return []string{"version " + ours.Name}
	}
	var missing []string
	if hasStatus(ours) && !hasStatus(served[at]) {
		missing = append(missing, "subresource status")
	}
	if ours.Schema == nil || ours.Schema.OpenAPIV3Schema == nil {
		return missing
	}
	has := apiextensions.JSONSchemaProps{}
	if served[at].Schema != nil && served[at].Schema.OpenAPIV3Schema != nil {
		has = *served[at].Schema.OpenAPIV3Schema
	}
	return append(missing, below("", *ours.Schema.OpenAPIV3Schema, has)...)
}

func hasStatus(v apiextensions.CustomResourceDefinitionVersion) bool {
	return v.Subresources != nil && v.Subresources.Status != nil
}

// below returns the fields at path that ours has and served does not have.
func below(path string, ours, served apiextensions.JSONSchemaProps) []string {
	if keepsAll(served) {
		return nil
	}
	if keepsAll(ours) {
		return []string{join(path, "*")}
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(ours.Properties)) {
		if implied(name, path, ours) {
			continue
		}
		at := join(path, name)
		has, known := property(served, name)
		if !known {
			missing = append(missing, at)
			continue
		}
		missing = append(missing, below(at, ours.Properties[name], has)...)
	}
	missing = append(missing, values(path, ours, served)...)
	return append(missing, items(path, ours, served)...)
}

// values returns the missing fields of a map's values.
func values(path string, ours, served apiextensions.JSONSchemaProps) []string {
	if ours.AdditionalProperties == nil {
		return nil
	}
	at := join(path, "*")
	switch {
	case served.AdditionalProperties == nil:
		return []string{at}
	case ours.AdditionalProperties.Schema == nil || served.AdditionalProperties.Schema == nil:
		return nil // one schema only says that other properties are allowed
	}
	return below(at, *ours.AdditionalProperties.Schema, *served.AdditionalProperties.Schema)
}

// items returns the missing fields of a list's items.
func items(path string, ours, served apiextensions.JSONSchemaProps) []string {
	if ours.Items == nil || ours.Items.Schema == nil {
		return nil
	}
	has := apiextensions.JSONSchemaProps{}
	if served.Items != nil && served.Items.Schema != nil {
		has = *served.Items.Schema
	}
	return below(path+"[]", *ours.Items.Schema, has)
}

// property returns the schema of a field: by its name, or the schema of all values of a map.
func property(schema apiextensions.JSONSchemaProps, name string) (apiextensions.JSONSchemaProps, bool) {
	if found, ok := schema.Properties[name]; ok {
		return found, true
	}
	if more := schema.AdditionalProperties; more != nil {
		if more.Schema != nil {
			return *more.Schema, true
		}
		return apiextensions.JSONSchemaProps{XPreserveUnknownFields: new(true)}, more.Allows
	}
	return apiextensions.JSONSchemaProps{}, false
}

// implied reports whether the API server knows the field in every schema, whether listed or not.
func implied(name, path string, schema apiextensions.JSONSchemaProps) bool {
	return (path == "" || schema.XEmbeddedResource) && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name)
}

func keepsAll(schema apiextensions.JSONSchemaProps) bool {
	return schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
