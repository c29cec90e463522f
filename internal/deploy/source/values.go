package source

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/helmvalues"
	"github.com/fleet-hub/fleet/internal/yamlbound"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
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
func (s valuesSource) object() outcome.Awaited {
	if s.Secret {
		return outcome.CoreObject("secrets", s.Namespace, s.Name)
	}
	return outcome.CoreObject("configmaps", s.Namespace, s.Name)
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

// MergeValues reads the values of valuesFrom and merges them over the given ones. It also returns the values that
// came from Secrets.
func MergeValues(ctx context.Context, identity *access.Identity, options *fleet.BundleDeploymentOptions, releaseNamespace string, values map[string]any) (
	merged map[string]any, secret []map[string]any, err error) {
	merged = values
	for _, source := range valuesSources(options, releaseNamespace) {
		text, err := readValues(ctx, identity, source)
		if err != nil {
			err = fmt.Errorf("reading Helm values from %s: %w", source, err)
			if apierrors.IsNotFound(err) || errors.Is(err, errNoSuchKey) {
				err = outcome.Until(source.object(), outcome.Because(conditions.ReasonHelmValuesInvalid, err))
			}
			return nil, nil, err
		}
		found, err := parseValues(text)
		if err != nil {
			return nil, nil, outcome.Because(conditions.ReasonHelmValuesInvalid, fmt.Errorf("reading Helm values from %s: %w", source, err))
		}
		if source.Secret {
			secret = append(secret, found)
		}
		merged = helmvalues.Merge(merged, found)
	}
	if merged == nil {
		merged = map[string]any{}
	}
	return merged, secret, nil
}

// errNoSuchKey means that a Secret or ConfigMap lacks the key with the values.
var errNoSuchKey = errors.New("the key does not exist")

// readValues reads one source of values, with the identity that deploys.
func readValues(ctx context.Context, identity *access.Identity, source valuesSource) ([]byte, error) {
	core := identity.Clientset.CoreV1()
	var text []byte
	var found bool
	if source.Secret {
		secret, err := core.Secrets(source.Namespace).Get(ctx, source.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		text, found = secret.Data[source.Key]
	} else {
		configMap, err := core.ConfigMaps(source.Namespace).Get(ctx, source.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		var data string
		data, found = configMap.Data[source.Key]
		text = []byte(data)
		if !found {
			text, found = configMap.BinaryData[source.Key]
		}
	}
	if !found {
		return nil, errNoSuchKey
	}
	return text, nil
}
