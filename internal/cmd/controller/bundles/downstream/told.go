package downstream

import (
	"maps"
	"slices"
	"strings"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// made holds the resource versions of a copy and of its original at that time.
type made struct{ of, version string }

// copies are the copies of a BundleDeployment, by "<kind>/<name>".
type copies map[string]made

// String returns the value of AnnotationCopiesTold.
func (c copies) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, name+"="+c[name].of+"/"+c[name].version)
	}
	return strings.Join(parts, " ")
}

// parseCopies parses AnnotationCopiesTold. It ignores invalid parts.
func parseCopies(annotation string) copies {
	known := copies{}
	for part := range strings.FieldsSeq(annotation) {
		name, versions, _ := strings.Cut(part, "=")
		if of, version, ok := strings.Cut(versions, "/"); ok {
			known[name] = made{of, version}
		}
	}
	return known
}

// isUnreported reports whether a copy has changed without the agent being notified, because the process that wrote the copy
// ended before. If only the version of the original or of the copy has changed, the data is the same: only the
// original or the owners were written. Copies that Rancher Fleet has made are not recorded; they count as known.
func isUnreported(bd *fleet.BundleDeployment, there copies) bool {
	annotation, noted := bd.Annotations[fleet.AnnotationCopiesTold]
	if bd.Spec.DownstreamResourcesGeneration > 0 && !noted {
		return false
	}
	known := parseCopies(annotation)
	for name, copied := range there {
		if known[name].of != copied.of && known[name].version != copied.version {
			return true
		}
	}
	return false
}
