// Package helmvalues defines how hub and agent exchange Helm values: the Secret with a BundleDeployment's
// values, their hash, and how values are merged. It is pure.
package helmvalues

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
)

// Keys of the Secret with a BundleDeployment's Helm values. They are part of the wire contract.
const (
	// KeyCurrent contains the values for the deployment that the agent must apply, as JSON.
	KeyCurrent = "values"
	// KeyStaged contains the values of the newest deployment, as JSON.
	KeyStaged = "stagedValues"
)

// Hash returns the valuesHash of a BundleDeployment whose Secret contains these values: the hex SHA-256 of
// current followed by staged. A BundleDeployment without values has no hash.
func Hash(current, staged []byte) string {
	h := sha256.New()
	h.Write(current)
	h.Write(staged)
	return hex.EncodeToString(h.Sum(nil))
}

// Merge merges over into base. Objects are merged. All other values, also lists and null, replace those of base.
// Neither argument is changed. The result is never nil and shares the parts that were not merged.
func Merge(base, over map[string]any) map[string]any {
	return merge(base, over, maps.Clone)
}

// MergeInto merges like Merge, but changes and returns base. The result shares the parts of over.
func MergeInto(base, over map[string]any) map[string]any {
	return merge(base, over, func(base map[string]any) map[string]any { return base })
}

func merge(base, over map[string]any, start func(map[string]any) map[string]any) map[string]any {
	merged := start(base)
	if merged == nil {
		merged = make(map[string]any, len(over))
	}
	for key, value := range over {
		below, isObject := merged[key].(map[string]any)
		above, alsoObject := value.(map[string]any)
		if isObject && alsoObject {
			value = merge(below, above, start)
		}
		merged[key] = value
	}
	return merged
}
