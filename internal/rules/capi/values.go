package capi

import (
	"cmp"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// valuesKey is the key of spec.templateValues that the hub writes.
const valuesKey = "capi"

// Limits of the values that are copied from a Cluster of Cluster API.
const (
	// maxVariables is the size of all variables as JSON, in bytes.
	maxVariables = 8 << 10
	// maxText is the length of any other text.
	maxText = 512
	// maxBlocks is the number of CIDR blocks of a network.
	maxBlocks = 16
)

// valuesOf returns what the templates of Bundles can use of a Cluster, under .ClusterValues.capi. Variables that do not
// fit are left out, the last ones by name first.
func valuesOf(spec map[string]any, class types.NamespacedName) (values map[string]any, leftOut bool) {
	topology, network, endpoint := field(spec, "topology"), field(spec, "clusterNetwork"), field(spec, "controlPlaneEndpoint")
	values = map[string]any{}
	setText(values, "version", topology["version"])
	if class.Name != "" {
		values["class"] = map[string]any{"namespace": class.Namespace, "name": class.Name}
	}
	if host, is := endpoint["host"].(string); is && host != "" && len(host) <= maxText {
		port, _ := endpoint["port"].(int64)
		values["endpoint"] = map[string]any{"host": host, "port": port}
	}
	networks := map[string]any{}
	for _, name := range []string{"pods", "services"} {
		if blocks := textsIn(field(network, name)["cidrBlocks"]); len(blocks) > 0 {
			networks[name] = blocks
		}
	}
	setText(networks, "serviceDomain", network["serviceDomain"])
	if len(networks) > 0 {
		values["networks"] = networks
	}
	variables, leftOut := variablesIn(topology["variables"])
	if len(variables) > 0 {
		values["variables"] = variables
	}
	return values, leftOut
}

func setText(values map[string]any, key string, value any) {
	if text, is := value.(string); is && text != "" && len(text) <= maxText {
		values[key] = text
	}
}

func textsIn(list any) (texts []any) {
	all, _ := list.([]any)
	for _, one := range all[:min(len(all), maxBlocks)] {
		if text, is := one.(string); is && len(text) <= maxText {
			texts = append(texts, text)
		}
	}
	return texts
}

// variable is a variable of a topology.
type variable struct {
	name  string
	value any
}

func variablesIn(list any) (variables map[string]any, leftOut bool) {
	all, _ := list.([]any)
	var sorted []variable
	for _, one := range all {
		entry, _ := one.(map[string]any)
		if name := text(entry, "name"); name != "" {
			sorted = append(sorted, variable{name: name, value: entry["value"]})
		}
	}
	slices.SortStableFunc(sorted, func(a, b variable) int { return cmp.Compare(a.name, b.name) })
	variables, left := map[string]any{}, maxVariables
	for _, one := range sorted {
		value, is := withoutNulls(one.value)
		if !is {
			continue
		}
		document, err := json.Marshal(map[string]any{one.name: value})
		if left -= len(document); err != nil || left < 0 {
			return variables, true
		}
		variables[one.name] = value
	}
	return variables, false
}

// withoutNulls returns a value without the nulls in it: a merge patch cannot write them. It returns false for null.
func withoutNulls(value any) (any, bool) {
	switch value := value.(type) {
	case nil:
		return nil, false
	case map[string]any:
		kept := map[string]any{}
		for key, inner := range value {
			if inner, is := withoutNulls(inner); is {
				kept[key] = inner
			}
		}
		return kept, true
	case []any:
		kept := []any{}
		for _, inner := range value {
			if inner, is := withoutNulls(inner); is {
				kept = append(kept, inner)
			}
		}
		return kept, true
	}
	return value, true
}

// followValues writes spec.templateValues.capi, unless a user has changed it. All other values stay.
func followValues(cluster *fleet.Cluster, from *Cluster) {
	var data map[string]any
	if cluster.Spec.TemplateValues != nil {
		data = cluster.Spec.TemplateValues.Data
	}
	if found, is := data[valuesKey]; is && hashOf(found) != cluster.Annotations[annotation.CAPIValues] {
		objects.Annotate(cluster, annotation.CAPIValues, "")
		return
	}
	if len(from.Values) == 0 {
		delete(data, valuesKey)
		objects.Annotate(cluster, annotation.CAPIValues, "")
		return
	}
	if data == nil {
		data = map[string]any{}
		cluster.Spec.TemplateValues = &fleet.GenericMap{Data: data}
	}
	data[valuesKey] = runtime.DeepCopyJSON(from.Values)
	objects.Annotate(cluster, annotation.CAPIValues, hashOf(from.Values))
}

// hashOf returns a hash of a value as JSON.
func hashOf(value any) string {
	hash, err := names.StatusHash(value)
	if err != nil {
		return "" // only of what is no JSON, which no API server returns
	}
	return hash
}
