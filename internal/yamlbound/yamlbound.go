// Package yamlbound limits the cost of YAML text from users before a parser decodes it. A text of a few
// kilobytes whose aliases refer to each other can expand to gigabytes. It is pure.
package yamlbound

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	"go.yaml.in/yaml/v3"
)

// ErrTooLarge means that a text exceeds its budget.
var ErrTooLarge = errors.New("the YAML is too large")

// maxDepth is the maximum nesting of lists and objects, with aliases expanded.
const maxDepth = 200

// Budget limits the content of texts. Each text reduces what is left for the next.
type Budget struct {
	// Items limits the lists, objects and their items, counted by the characters that separate them.
	Items int
	// Expanded and Bytes limit the number of values and the length of their texts in a text with aliases, with each
	// alias expanded.
	Expanded, Bytes int
}

// ForValues returns the budget for Helm values, kubeconfigs and settings. Useful ones fit into a Secret, which
// is limited to 1 MiB.
func ForValues() Budget { return Budget{Items: 100_000, Expanded: 200_000, Bytes: 4 << 20} }

// ForManifests returns the budget for one document or file that a Bundle deploys.
func ForManifests() Budget { return Budget{Items: 2_000_000, Expanded: 400_000, Bytes: 32 << 20} }

// Check returns an error that wraps ErrTooLarge if the text is too large for Helm values.
func Check(text []byte) error {
	budget := ForValues()
	return budget.Spend(text)
}

// CheckManifest returns an error that wraps ErrTooLarge if the text is too large for a document of a Bundle.
func CheckManifest(text []byte) error {
	budget := ForManifests()
	return budget.Spend(text)
}

// Spend subtracts the cost of a text from the budget. The error wraps ErrTooLarge. For a text with aliases it
// may also be the parser's error. Texts without aliases are not parsed, because their cost is proportional to
// their length.
func (b *Budget) Spend(text []byte) error {
	cost, err := b.Cost(text)
	if err != nil {
		return err
	}
	return b.Take(cost)
}

// Cost returns the cost of a text. It fails like Spend if the budget does not allow the text.
func (b *Budget) Cost(text []byte) (Budget, error) {
	cost := Budget{Items: items(text)}
	left := *b
	if err := left.Take(cost); err != nil || !hasAliases(text) {
		return cost, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		if isReadByOthers(text) {
			return cost, fmt.Errorf("%w: the size of its expanded aliases cannot be determined; write them out", ErrTooLarge)
		}
		return cost, err
	}
	size := measure{}.of(&root)
	if size.endless || size.depth > maxDepth {
		return cost, fmt.Errorf("%w: its aliases are nested more than %d levels deep; write them out", ErrTooLarge, maxDepth)
	}
	cost.Expanded, cost.Bytes = size.nodes, size.bytes
	left = *b
	return cost, left.Take(cost)
}

// isReadByOthers reports whether the other YAML parser, which converts YAML to JSON, accepts the text. Decoding
// into an empty struct follows no alias.
func isReadByOthers(text []byte) bool {
	var mismatch *yamlv2.TypeError
	err := yamlv2.Unmarshal(text, &struct{}{})
	return err == nil || errors.As(err, &mismatch) || strings.Contains(err.Error(), "excessive aliasing")
}

// Take subtracts a cost from the budget. The error wraps ErrTooLarge.
func (b *Budget) Take(cost Budget) error {
	b.Items, b.Expanded, b.Bytes = b.Items-cost.Items, b.Expanded-cost.Expanded, b.Bytes-cost.Bytes
	switch {
	case b.Items < 0:
		return fmt.Errorf("%w: it contains too many items; make it smaller", ErrTooLarge)
	case b.Expanded < 0 || b.Bytes < 0:
		return fmt.Errorf("%w: with its aliases expanded, it contains too much; use fewer aliases", ErrTooLarge)
	default:
		return nil
	}
}

// items returns at least half of the number of keys, values, lists and objects that a parser can find in a text.
func items(text []byte) int {
	found := 0
	for i, c := range text {
		switch c {
		case ',', '[', '{', ':', '?':
			found++
		case '-':
			if i+1 == len(text) || isBlank(text[i+1]) {
				found++
			}
		}
	}
	return found
}

// isBlank reports whether a dash before this byte starts a list item. A byte outside of ASCII may start a line
// break.
func isBlank(c byte) bool { return c <= ' ' || c >= 0x7f }

// hasAliases reports whether a text may define an anchor and refer to it.
func hasAliases(text []byte) bool { return hasMarkedName(text, '&') && hasMarkedName(text, '*') }

// hasMarkedName reports whether a name follows the mark. In UTF-16, which parsers also read, a zero byte may be
// between them.
func hasMarkedName(text []byte, mark byte) bool {
	for {
		at := bytes.IndexByte(text, mark)
		if at < 0 || at+1 == len(text) {
			return false
		}
		text = text[at+1:]
		if beginsName(text[0]) {
			return true
		}
	}
}

// beginsName reports whether a byte may be the first byte of a name.
func beginsName(c byte) bool {
	return c == 0 || c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c > 0x7f
}

// size is the size of a node with its aliases expanded.
type size struct {
	nodes, bytes, depth int
	// endless means that the node contains itself.
	endless bool
}

// most limits sums, so that they do not overflow.
const most = 1 << 40

// measure caches the sizes of nodes. A node that is being measured is endless.
type measure map[*yaml.Node]size

func (m measure) of(node *yaml.Node) size {
	if known, found := m[node]; found {
		return known
	}
	if node.Kind == yaml.AliasNode {
		return m.of(node.Alias)
	}
	if node.Kind == yaml.ScalarNode && node.Anchor == "" {
		return size{nodes: 1, bytes: len(node.Value), depth: 1}
	}
	m[node] = size{endless: true}
	sum := size{nodes: 1, bytes: len(node.Value), depth: 1}
	for _, inner := range node.Content {
		each := m.of(inner)
		sum.nodes = min(sum.nodes+each.nodes, most)
		sum.bytes = min(sum.bytes+each.bytes, most)
		sum.depth = max(sum.depth, each.depth+1)
		sum.endless = sum.endless || each.endless
	}
	m[node] = sum
	return sum
}
