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
	// Concealed stands in a patch where something confidential would be.
	Concealed = "<redacted>"
	// textLimit bounds the text of a patch, in bytes. It goes into the status of several objects.
	textLimit = 4096
	// valueLimit bounds each value of a patch that is too long, in bytes.
	valueLimit = 128
)

// Patch is a JSON merge patch; nil stands for none.
type Patch map[string]any

// newPatch is what turns before into after.
func newPatch(kind schema.GroupKind, before, after map[string]any) (Patch, error) {
	if reflect.DeepEqual(before, after) {
		return nil, nil
	}
	var texts [2][]byte
	for i, side := range []map[string]any{before, after} {
		text, err := json.Marshal(side)
		if err != nil {
			return nil, fmt.Errorf("encoding what is compared: %w", err)
		}
		texts[i] = text
	}
	text, err := jsonpatch.CreateMergePatch(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("comparing: %w", err)
	}
	var patch Patch
	if err := json.Unmarshal(text, &patch); err != nil {
		return nil, fmt.Errorf("reading the patch: %w", err)
	}
	if len(patch) == 0 {
		return nil, nil // one number, held in two ways
	}
	if isSecret(kind) {
		patch.conceal()
	}
	return patch, nil
}

// conceal takes what a Secret holds out of a patch of it. Annotations may have a copy.
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

// Text writes the patch, with every text in it passed through clean. A long one is shortened: it still names each
// field, and is still JSON.
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
		return "" // it was read from JSON
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// withTexts is a copy with every text, keys of maps left alone, replaced. A number whose text would be another becomes
// that.
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

// shorten cuts long texts, and puts the number of its items in the place of a list.
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
