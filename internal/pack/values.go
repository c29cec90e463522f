package pack

import (
	"errors"
	"fmt"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/helmvalues"
	"github.com/fleet-hub/fleet/internal/pack/charts"
	"github.com/fleet-hub/fleet/internal/yamlbound"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// mergeValues merges the values files of the Bundle and its targets into their values. Those of the Bundle itself are
// only read if it names a chart. They must be in the folder root.
func mergeValues(folder, root string, spec *fleet.BundleSpec) error {
	if helm := spec.Helm; helm != nil {
		roundNumbers(helm)
		if helm.Chart != "" || helm.Repo != "" {
			if err := mergeFiles(folder, root, helm); err != nil {
				return err
			}
		}
	}
	for i := range spec.Targets {
		if helm := spec.Targets[i].Helm; helm != nil {
			roundNumbers(helm)
			if err := mergeFiles(folder, root, helm); err != nil {
				return err
			}
		}
	}
	return nil
}

func mergeFiles(folder, root string, helm *fleet.HelmOptions) error {
	for _, name := range helm.ValuesFiles {
		path := filepath.Join(folder, name)
		read, err := readValues(root, path)
		if err != nil {
			return fmt.Errorf("reading values file: %s: %w", path, err)
		}
		if helm.Values == nil {
			helm.Values = &fleet.GenericMap{}
		}
		helm.Values.Data = helmvalues.Merge(helm.Values.Data, read)
	}
	return nil
}

func readValues(root, path string) (map[string]any, error) {
	if err := charts.Within(root, "helm.valuesFiles", path); errors.As(err, new(*charts.OutsideError)) {
		return nil, err
	}
	text, err := readFile(path, maxOptions)
	if err != nil {
		return nil, err
	}
	if err := yamlbound.Check(text); err != nil {
		return nil, err
	}
	var values map[string]any
	err = yaml.Unmarshal(text, &values)
	return values, err
}

// roundNumbers converts the numbers in values to floating point, because they are part of the hash of a Bundle's
// values. Other readers of a fleet.yaml do not keep more digits.
func roundNumbers(helm *fleet.HelmOptions) {
	if helm.Values != nil && helm.Values.Data != nil {
		helm.Values.Data = rounded(helm.Values.Data).(map[string]any)
	}
}

func rounded(value any) any {
	switch value := value.(type) {
	case int64:
		return float64(value)
	case map[string]any:
		for key := range value {
			value[key] = rounded(value[key])
		}
	case []any:
		for i := range value {
			value[i] = rounded(value[i])
		}
	}
	return value
}

// valuesFiles returns the values files of the Bundle and its targets.
func valuesFiles(spec *fleet.BundleSpec) []string {
	var files []string
	if spec.Helm != nil {
		files = append(files, spec.Helm.ValuesFiles...)
	}
	for _, target := range spec.Targets {
		if target.Helm != nil {
			files = append(files, target.Helm.ValuesFiles...)
		}
	}
	return files
}
