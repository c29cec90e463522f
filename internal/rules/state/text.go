package state

import (
	"strings"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ModifiedText describes a modified resource for the message of a condition: "service.v1 ns/name missing".
func ModifiedText(m fleet.ModifiedStatus) string {
	id := Describe(m.APIVersion, m.Kind, m.Namespace, m.Name)
	switch {
	case m.Missing && m.Exist:
		return id + " is not owned by us"
	case m.Missing:
		return id + " missing"
	case m.Delete:
		return id + " extra"
	default:
		return id + " modified " + m.Patch
	}
}

// NonReadyText describes a resource that is not ready for the message of a condition: "deployment.apps ns/name
// [progressing] Available: 0/1".
func NonReadyText(n fleet.NonReadyStatus) string {
	return Describe(n.APIVersion, n.Kind, n.Namespace, n.Name) + " " + SummaryText(n.Summary)
}

// SummaryText describes in what way a resource is not ready: "[progressing] Available: 0/1".
func SummaryText(s fleet.ResourceSummary) string {
	var flags []string
	if s.Transitioning {
		flags = append(flags, "progressing")
	}
	if s.Error {
		flags = append(flags, "error")
	}
	text := s.State
	if len(flags) > 0 {
		text = "[" + strings.Join(flags, ",") + "]"
	}
	if len(s.Message) == 0 {
		return text
	}
	return text + " " + strings.Join(s.Message, ", ")
}

// Describe returns "<kind>.<group> <namespace>/<name>" of an object, with the kind in lower case. For objects of the
// core group, which has no name, it shows the version instead.
func Describe(apiVersion, kind, namespace, name string) string {
	text := strings.ToLower(kind)
	if group, _, _ := strings.Cut(apiVersion, "/"); group != "" {
		text += "." + group
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	return text + " " + name
}
