// Package yamlbound bounds what a YAML text costs that a user wrote, before a parser turns it into objects. A text of
// some kilobytes whose aliases refer to one another stands for gigabytes. It is pure.
package yamlbound

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	"go.yaml.in/yaml/v3"
)

// ErrTooLarge means that a text holds more than its budget allows.
var ErrTooLarge = errors.New("the YAML is too large")

// maxDepth is how deep lists and objects may be nested, aliases followed.
const maxDepth = 200

// Budget is what texts may hold. Each text that is spent on it takes its share.
type Budget struct {
	// Items bounds lists, objects and what is in them, counted by the characters that separate them.
	Items int
	// Expanded and Bytes bound the values, and the bytes of their texts, in a text with aliases: each alias counts as
	// what it refers to.
	Expanded, Bytes int
}

// ForValues is the budget of Helm values, of kubeconfigs and of settings. Those that are of use fit into a Secret, which
// holds 1 MiB.
func ForValues() Budget { return Budget{Items: 100_000, Expanded: 200_000, Bytes: 4 << 20} }

// ForManifests is the budget of one document or file that a Bundle deploys.
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

// Spend takes what a text holds from the budget. The error wraps ErrTooLarge; of a text with aliases it may also be the
// parser's. Texts without aliases are not parsed: they cost what they are long.
func (b *Budget) Spend(text []byte) error {
	cost, err := b.Cost(text)
	if err != nil {
		return err
	}
	return b.Take(cost)
}

// Cost is what a text takes from a budget. A text that the budget does not allow is an error, as with Spend.
func (b *Budget) Cost(text []byte) (Budget, error) {
	cost := Budget{Items: items(text)}
	left := *b
	if err := left.Take(cost); err != nil || !hasAliases(text) {
		return cost, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		if isReadByOthers(text) {
			return cost, fmt.Errorf("%w: what its aliases stand for cannot be counted; write them out", ErrTooLarge)
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

// isReadByOthers reports whether the parser that converts YAML to JSON, another one, takes a text for YAML. Nothing of the
// text fits into what it is to be read into, so that no alias is followed.
func isReadByOthers(text []byte) bool {
	var mismatch *yamlv2.TypeError
	err := yamlv2.Unmarshal(text, &struct{}{})
	return err == nil || errors.As(err, &mismatch) || strings.Contains(err.Error(), "excessive aliasing")
}

// Take takes the cost of a text from the budget. The error wraps ErrTooLarge.
func (b *Budget) Take(cost Budget) error {
	b.Items, b.Expanded, b.Bytes = b.Items-cost.Items, b.Expanded-cost.Expanded, b.Bytes-cost.Bytes
	switch {
	case b.Items < 0:
		return fmt.Errorf("%w: it holds too many items; make it smaller", ErrTooLarge)
	case b.Expanded < 0 || b.Bytes < 0:
		return fmt.Errorf("%w: with each alias replaced by what it refers to, it holds too much; use fewer aliases", ErrTooLarge)
	default:
		return nil
	}
}

// items is at least half of how many keys, values, lists and objects a parser can find in a text.
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

// isBlank says whether a dash before this byte begins an item of a list. A byte outside of ASCII may begin a line break.
func isBlank(c byte) bool { return c <= ' ' || c >= 0x7f }

// hasAliases says whether a text may define an anchor and refer to one.
func hasAliases(text []byte) bool { return hasMarkedName(text, '&') && hasMarkedName(text, '*') }

// hasMarkedName looks for a name behind a mark. In UTF-16, which parsers read too, a zero may be between them.
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

// beginsName reports whether a byte may be the first of a name.
func beginsName(c byte) bool {
	return c == 0 || c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c > 0x7f
}

// size is what a node stands for, aliases followed.
type size struct {
	nodes, bytes, depth int
	// endless means that the node is within itself.
	endless bool
}

// most bounds sums, which stop there instead of overflowing.
const most = 1 << 40

// measure remembers the sizes of nodes. One that is being measured is endless.
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
