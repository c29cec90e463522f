package cloudconfig

import (
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// kindOf names a value's type in messages.
func kindOf(node *yaml.Node) string {
	switch node.Kind {
	case yaml.AliasNode:
		return "an alias; aliases are not accepted"
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	}
	switch node.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!str":
		return "a string"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "a boolean"
	default:
		return "a value with a YAML tag"
	}
}

// quote quotes a text of the user and shortens it.
func quote(text string) string {
	const most = 80
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strconv.QuoteToASCII(text)
}

func sortedNames[V any](known map[string]V) []string { return slices.Sorted(maps.Keys(known)) }
