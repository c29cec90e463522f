package deploy

import (
	"errors"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/yamlbound"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// defaultValuesKey is the default key of values in a Secret or ConfigMap of valuesFrom.
const defaultValuesKey = "values.yaml"

// parseValues parses values in YAML. Its errors do not contain the values.
func parseValues(text []byte) (map[string]any, error) {
	if err := yamlbound.Check(text); errors.Is(err, yamlbound.ErrTooLarge) {
		return nil, err
	}
	converted, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, errors.New("the values are not valid YAML")
	}
	var values map[string]any
	if err := utiljson.Unmarshal(converted, &values); err != nil {
		return nil, errors.New("the values are not a YAML object")
	}
	return values, nil
}

// valuesSource is one resolved entry of valuesFrom.
type valuesSource struct {
	// Secret is true for a Secret and false for a ConfigMap.
	Secret               bool
	Namespace, Name, Key string
}

func (s valuesSource) String() string {
	kind := "ConfigMap"
	if s.Secret {
		kind = "Secret"
	}
	return fmt.Sprintf("key %q of %s %s/%s", s.Key, kind, s.Namespace, s.Name)
}

// object returns the Secret or ConfigMap as an object to wait for.
func (s valuesSource) object() awaitedObject {
	if s.Secret {
		return core("secrets", s.Namespace, s.Name)
	}
	return core("configmaps", s.Namespace, s.Name)
}

// valuesSources returns the sources of values; later sources override earlier ones. In each entry the ConfigMap
// comes before the Secret. A source that is copied downstream is read from the release's namespace, whatever
// namespace the entry names.
func valuesSources(options *fleet.BundleDeploymentOptions, releaseNamespace string) []valuesSource {
	if options.Helm == nil {
		return nil
	}
	copied := map[string]bool{}
	for _, resource := range options.DownstreamResources {
		copied[resource.Name] = true
	}
	var sources []valuesSource
	add := func(ref *fleet.ValuesKeyRef, secret bool) {
		if ref == nil {
			return
		}
		source := valuesSource{Secret: secret, Namespace: ref.Namespace, Name: ref.Name, Key: ref.Key}
		if source.Namespace == "" || copied[ref.Name] {
			source.Namespace = releaseNamespace
		}
		if source.Key == "" {
			source.Key = defaultValuesKey
		}
		sources = append(sources, source)
	}
	for _, from := range options.Helm.ValuesFrom {
		add(from.ConfigMapKeyRef, false)
		add(from.SecretKeyRef, true)
	}
	return sources
}
