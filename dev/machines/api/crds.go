package api

import (
	"embed"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed crds
var crds embed.FS

// CRDs returns the CustomResourceDefinitions of all kinds, sorted by name.
func CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := fs.Glob(crds, "crds/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing CRDs: %w", err)
	}
	found := make([]*apiextensionsv1.CustomResourceDefinition, len(files))
	for i, file := range files {
		text, err := crds.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading CRD %s: %w", file, err)
		}
		if err := yaml.UnmarshalStrict(text, &found[i]); err != nil {
			return nil, fmt.Errorf("decoding CRD %s: %w", file, err)
		}
	}
	return found, nil
}
