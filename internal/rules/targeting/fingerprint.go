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

// Fingerprint is a hash that distinguishes states. Equal states have equal fingerprints, and different states almost
// always have different ones. Zero means no fingerprint.
type Fingerprint uint64

// Print collects the data of a Fingerprint.
type Print struct{ hash hash.Hash64 }

// NewPrint returns an empty Print.
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

// Flags adds booleans.
func (p *Print) Flags(flags ...bool) {
	for _, flag := range flags {
		n := int64(0)
		if flag {
			n = 1
		}
		p.Number(n)
	}
}

// Map adds a map, independent of the order of its keys.
func (p *Print) Map(m map[string]string) {
	p.Number(int64(len(m)))
	for _, key := range slices.SortedFunc(maps.Keys(m), strings.Compare) {
		p.Texts(key, m[key])
	}
}

// Fingerprint returns the fingerprint of the added data.
func (p *Print) Fingerprint() Fingerprint { return Fingerprint(max(1, p.hash.Sum64())) }

// fingerprint covers everything that the options of a cluster depend on, except for the Bundle.
func (s *Selection) fingerprint(cluster *fleet.Cluster, picked chosen) Fingerprint {
	p := NewPrint()
	p.Texts(cluster.Namespace, cluster.Name)
	p.Map(cluster.Labels)
	p.Map(cluster.Annotations)
	if values := cluster.Spec.TemplateValues; values != nil {
		text, _ := json.Marshal(values) // parsed from JSON, so encoding cannot fail
		p.Texts(string(text))
	}
	for _, overlay := range picked.overlays {
		p.Number(int64(s.indexOf(overlay)))
	}
	return p.Fingerprint()
}

// indexOf returns the index of a target in the Bundle's targets, or -1.
func (s *Selection) indexOf(target *fleet.BundleTarget) int {
	for i := range s.bundle.Spec.Targets {
		if &s.bundle.Spec.Targets[i] == target {
			return i
		}
	}
	return -1
}
