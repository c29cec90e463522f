package downstream

import (
	"maps"
	"slices"
	"strings"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// made is a copy: the resource version that its original had, and its own.
type made struct{ of, version string }

// copies are those of a BundleDeployment, by "<kind>/<name>".
type copies map[string]made

// String is what AnnotationCopiesTold has.
func (c copies) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, name+"="+c[name].of+"/"+c[name].version)
	}
	return strings.Join(parts, " ")
}

// toldOf reads AnnotationCopiesTold; what is no such thing counts for nothing.
func toldOf(annotation string) copies {
	told := copies{}
	for part := range strings.FieldsSeq(annotation) {
		name, versions, _ := strings.Cut(part, "=")
		if of, version, ok := strings.Cut(versions, "/"); ok {
			told[name] = made{of, version}
		}
	}
	return told
}

// untold says whether there is a copy of which a BundleDeployment's agent was not told, since the process that wrote it
// ended before. One whose original alone was written has the same data, and so has one that only changed owners. Of
// copies that others have told of, without a note of which, nobody knows: they count as told.
func untold(bd *fleet.BundleDeployment, there copies) bool {
	annotation, noted := bd.Annotations[fleet.AnnotationCopiesTold]
	if bd.Spec.DownstreamResourcesGeneration > 0 && !noted {
		return false
	}
	told := toldOf(annotation)
	for name, copied := range there {
		if told[name].of != copied.of && told[name].version != copied.version {
			return true
		}
	}
	return false
}
