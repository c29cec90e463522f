package targeting

import (
	"encoding/binary"
	"encoding/json"
	"hash"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Fingerprint tells states apart: equal ones have equal fingerprints, and others almost never do. Zero is none.
type Fingerprint uint64

// Print collects what a Fingerprint is made of.
type Print struct{ hash hash.Hash64 }

// NewPrint is empty.
func NewPrint() *Print { return &Print{hash: fnv.New64a()} }

// Texts adds texts, in this order.
func (p *Print) Texts(texts ...string) {
	for _, text := range texts {
		p.Number(int64(len(text)))
		_, _ = io.WriteString(p.hash, text) // never fails
	}
}

// Number adds a number.
func (p *Print) Number(n int64) {
	var bytes [8]byte
	binary.LittleEndian.PutUint64(bytes[:], uint64(n)) //nolint:gosec // any bits will do
	_, _ = p.hash.Write(bytes[:])                      // never fails
}

// Flags adds truths.
func (p *Print) Flags(flags ...bool) {
	for _, flag := range flags {
		n := int64(0)
		if flag {
			n = 1
		}
		p.Number(n)
	}
}

// Map adds a map, whatever the order of its keys.
func (p *Print) Map(m map[string]string) {
	p.Number(int64(len(m)))
	for _, key := range slices.SortedFunc(maps.Keys(m), strings.Compare) {
		p.Texts(key, m[key])
	}
}

// Fingerprint is that of what was added.
func (p *Print) Fingerprint() Fingerprint { return Fingerprint(max(1, p.hash.Sum64())) }

// fingerprint is that of what the options of a cluster depend on, beside the Bundle.
func (s *Selection) fingerprint(cluster *fleet.Cluster, picked chosen) Fingerprint {
	p := NewPrint()
	p.Texts(cluster.Namespace, cluster.Name)
	p.Map(cluster.Labels)
	p.Map(cluster.Annotations)
	if values := cluster.Spec.TemplateValues; values != nil {
		text, _ := json.Marshal(values) // they came as JSON
		p.Texts(string(text))
	}
	for _, overlay := range picked.overlays {
		p.Number(int64(s.indexOf(overlay)))
	}
	return p.Fingerprint()
}

// indexOf is which of the Bundle's targets it is.
func (s *Selection) indexOf(target *fleet.BundleTarget) int {
	for i := range s.bundle.Spec.Targets {
		if &s.bundle.Spec.Targets[i] == target {
			return i
		}
	}
	return -1
}
