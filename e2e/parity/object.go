// Package parity compares the objects of Rancher Fleet and of this project in the same situation: those recorded
// in testdata/recorded, and those on running API servers.
//
//	Load, Live ─► Expand ─► Names.Of ─► Compare ─► Judge: equal, decided, waiting, different
//
// Names maps values that differ from run to run (UIDs, random names, certificates, times) to the same name on
// both sides, if they were created by the rules of the wire contract. Everything else is compared unchanged,
// field by field.
package parity

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Object is an object of a cluster.
type Object struct {
	// Cluster is hub, or a downstream cluster's name.
	Cluster string
	// Fields are the object's fields as JSON values.
	Fields map[string]any
}

// String identifies the object: "hub Secret fleet-default/swarm", "east ClusterRole /admin".
func (o Object) String() string {
	return fmt.Sprintf("%s %s %s/%s", o.Cluster, o.Kind(), o.text("metadata", "namespace"), o.text("metadata", "name"))
}

// Kind returns the object's kind without the group. No two recorded kinds have the same name.
func (o Object) Kind() string { return o.text("kind") }

// text returns a string field, or an empty string if it does not exist or is not a string.
func (o Object) text(fields ...string) string {
	found, _, _ := unstructured.NestedString(o.Fields, fields...) // a field that is not a string is compared unchanged
	return found
}

// Load reads the recorded objects of these clusters.
func Load(files fs.FS, clusters ...string) ([]Object, error) {
	var all []Object
	for _, cluster := range clusters {
		names, err := fs.Glob(files, path.Join(cluster, "*.yaml"))
		if err != nil {
			return nil, fmt.Errorf("finding the objects of %s: %w", cluster, err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(files, name)
			if err != nil {
				return nil, fmt.Errorf("reading recorded objects: %w", err)
			}
			for document := range strings.SplitSeq(string(text), "\n---\n") {
				var fields map[string]any
				if err := yaml.Unmarshal([]byte(document), &fields); err != nil {
					return nil, fmt.Errorf("reading %s: %w", name, err)
				}
				all = append(all, Object{Cluster: cluster, Fields: fields})
			}
		}
	}
	return all, nil
}

// Live converts an object of an API server to the form of the recorded ones: without fields that the API server
// sets, and with decoded Secret data.
func Live(cluster string, object *unstructured.Unstructured) Object {
	fields := runtime.DeepCopyJSON(object.Object)
	for _, own := range []string{"managedFields", "resourceVersion", "creationTimestamp", "generation", "selfLink"} {
		unstructured.RemoveNestedField(fields, "metadata", own)
	}
	if data, ok := fields["data"].(map[string]any); ok && object.GetKind() == "Secret" {
		delete(fields, "data")
		fields["decodedData"] = decoded(data, fields["type"] == helmRelease)
	}
	return Object{Cluster: cluster, Fields: fields}
}

// helmRelease is the type of the Secrets with Helm's releases.
const helmRelease = "helm.sh/release.v1"

// decoded returns the decoded values of a Secret. The content of a Helm release is replaced by a note, as in the
// recording.
func decoded(data map[string]any, release bool) map[string]any {
	plain := maps.Clone(data)
	for key, value := range data {
		text, _ := value.(string)
		bytes, err := base64.StdEncoding.DecodeString(text)
		switch {
		case err != nil:
			plain[key] = value
		case release:
			plain[key] = releaseNote
		default:
			plain[key] = string(bytes)
		}
	}
	return plain
}
