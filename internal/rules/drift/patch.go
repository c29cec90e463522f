package drift

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Concealed replaces confidential values in a patch.
	Concealed = "<redacted>"
	// textLimit limits the text of a patch, in bytes, because it is copied into the status of several objects.
	textLimit = 4096
	// valueLimit limits each value in a patch that is too long, in bytes.
	valueLimit = 128
)

// Patch is a JSON merge patch. Nil means no difference.
type Patch map[string]any

// newPatch returns the patch that turns before into after.
func newPatch(kind schema.GroupKind, before, after map[string]any) (Patch, error) {
	if reflect.DeepEqual(before, after) {
		return nil, nil
	}
	var texts [2][]byte
	for i, side := range []map[string]any{before, after} {
		text, err := json.Marshal(side)
		if err != nil {
			return nil, fmt.Errorf("encoding object to compare: %w", err)
		}
		texts[i] = text
	}
	text, err := jsonpatch.CreateMergePatch(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("comparing: %w", err)
	}
	var patch Patch
	if err := json.Unmarshal(text, &patch); err != nil {
		return nil, fmt.Errorf("decoding patch: %w", err)
	}
	if len(patch) == 0 {
		return nil, nil // the same number in two representations
	}
	if isSecret(kind) {
		patch.conceal()
	}
	return patch, nil
}

// conceal redacts the data of a Secret in its patch, including annotations, which may contain a copy.
func (p Patch) conceal() {
	hide := func(string) string { return Concealed }
	for _, field := range []string{"data", "stringData"} {
		if value, ok := p[field]; ok {
			p[field] = withTexts(value, hide)
		}
	}
	if metadata, ok := p["metadata"].(map[string]any); ok && metadata["annotations"] != nil {
		metadata["annotations"] = withTexts(metadata["annotations"], hide)
	}
}

// Text returns the patch as JSON, with every text passed through clean. A long patch is shortened: it is still valid
// JSON and names each field.
func (p Patch) Text(clean func(string) string) string {
	cleaned := withTexts(map[string]any(p), clean)
	text := encode(cleaned)
	if len(text) > textLimit {
		text = encode(shorten(cleaned))
	}
	if len(text) > textLimit {
		text = encode(map[string]any{"…": "too many fields: " + strings.Join(slices.Sorted(maps.Keys(p)), ", ")})
	}
	return text
}

func encode(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "" // cannot happen: the value was decoded from JSON
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// withTexts returns a copy in which replace was applied to every text except map keys. A number becomes text if
// replace changes it.
func withTexts(value any, replace func(string) string) any {
	switch value := value.(type) {
	case string:
		return replace(value)
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, field := range value {
			out[key] = withTexts(field, replace)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i := range value {
			out[i] = withTexts(value[i], replace)
		}
		return out
	case float64, int64:
		if text := encode(value); replace(text) != text {
			return replace(text)
		}
	}
	return value
}

// shorten cuts long texts, and replaces long lists by the number of their items.
func shorten(value any) any {
	switch value := value.(type) {
	case string:
		if len(value) > valueLimit {
			return strings.ToValidUTF8(value[:valueLimit], "") + "…"
		}
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, field := range value {
			out[key] = shorten(field)
		}
		return out
	case []any:
		if len(encode(value)) > valueLimit {
			return fmt.Sprintf("[%d items]", len(value))
		}
	}
	return value
}
