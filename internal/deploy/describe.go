package deploy

import "strings"

// describeObject names an object in a message: "<kind>.<group> <namespace>/<name>". The group of a core kind
// is its version.
func describeObject(apiVersion, kind, namespace, name string) string {
	text := strings.ToLower(kind)
	if group, _, _ := strings.Cut(apiVersion, "/"); group != "" {
		text += "." + group
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	return text + " " + name
}
