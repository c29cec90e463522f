package deploy

import (
	"errors"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/helmvalues"
	"github.com/fleet-hub/fleet/internal/yamlbound"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// defaultValuesKey is where values are in a Secret or ConfigMap of valuesFrom.
const defaultValuesKey = "values.yaml"

// errValuesHash means that the Secret with the values is not the one the BundleDeployment was written with.
// The controller writes both, one after the other, so it heals by itself.
var errValuesHash = errors.New("the Secret with the Helm values does not match the hash in the BundleDeployment")

// optionsValues reads the values from a BundleDeployment's Secret and checks them against the hash. Both keys
// count for the hash, only the current values are returned.
func optionsValues(data map[string][]byte, wantHash string) (map[string]any, error) {
	if !haveHash(data, wantHash) {
		return nil, errValuesHash
	}
	current := data[helmvalues.KeyCurrent]
	if len(current) == 0 {
		return nil, nil
	}
	var values map[string]any
	if err := utiljson.Unmarshal(current, &values); err != nil {
		return nil, errors.New("the values in the BundleDeployment's Secret are no JSON object")
	}
	return values, nil
}

// haveHash tells whether values are those of a hash.
func haveHash(data map[string][]byte, hash string) bool {
	return helmvalues.Hash(data[helmvalues.KeyCurrent], data[helmvalues.KeyStaged]) == hash
}

// parseValues reads values written as YAML. The error does not show them.
func parseValues(text []byte) (map[string]any, error) {
	if err := yamlbound.Check(text); errors.Is(err, yamlbound.ErrTooLarge) {
		return nil, err
	}
	converted, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, errors.New("the values are no valid YAML")
	}
	var values map[string]any
	if err := utiljson.Unmarshal(converted, &values); err != nil {
		return nil, errors.New("the values are no YAML object")
	}
	return values, nil
}

// valuesSource is one Secret or ConfigMap of valuesFrom, in full.
type valuesSource struct {
	// Secret is true for a Secret, false for a ConfigMap.
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

// object is the Secret or ConfigMap.
func (s valuesSource) object() awaitedObject {
	if s.Secret {
		return core(copiedSecrets, s.Namespace, s.Name)
	}
	return core(copiedConfigMaps, s.Namespace, s.Name)
}

// valuesSources lists where values come from, in the order in which later ones win: of each entry first the
// ConfigMap, then the Secret. An object copied downstream with the deployment is in the
// release's namespace, whatever the reference says.
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
