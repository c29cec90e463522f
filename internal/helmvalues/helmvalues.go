// Package helmvalues is what hub and agent agree upon about Helm values: the Secret in which a BundleDeployment's come,
// their hash, and how some are laid over others. It is pure.
package helmvalues

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
)

// Keys of the Secret with a BundleDeployment's Helm values. They are part of the wire contract.
const (
	// KeyCurrent holds the values of what the agent is to apply, as JSON.
	KeyCurrent = "values"
	// KeyStaged holds the values of the newest state, as JSON.
	KeyStaged = "stagedValues"
)

// Hash is the valuesHash of a BundleDeployment whose Secret holds these values: SHA-256 of both, one after the other, in
// hexadecimal. A BundleDeployment without values has no hash.
func Hash(current, staged []byte) string {
	h := sha256.New()
	h.Write(current)
	h.Write(staged)
	return hex.EncodeToString(h.Sum(nil))
}

// Merge lays over on base: objects are merged, all else is replaced, lists and null too. Neither is changed; the result,
// which is never nil, shares with them what did not have to be merged.
func Merge(base, over map[string]any) map[string]any {
	merged := maps.Clone(base)
	if merged == nil {
		merged = make(map[string]any, len(over))
	}
	for key, value := range over {
		below, isObject := merged[key].(map[string]any)
		above, alsoObject := value.(map[string]any)
		if isObject && alsoObject {
			value = Merge(below, above)
		}
		merged[key] = value
	}
	return merged
}
