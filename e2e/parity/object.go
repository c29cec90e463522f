// Package parity compares the objects of two implementations in the same situation: those recorded
// in testdata/recorded, and those that are on API servers now.
//
//	Load, Live ─► Expand ─► Names.Of ─► Compare ─► Judge: equal, decided, waiting, different
//
// Names gives what differs from run to run (UIDs, random names, certificates, times) the same name
// on both sides, where it was made by the rules of the wire contract; everything else is compared as
// it is, field by field.
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

// Object is one object of one cluster.
type Object struct {
	// Cluster is where it is: hub, or a downstream cluster's name.
	Cluster string
	// Fields are the object's own, as JSON has them.
	Fields map[string]any
}

// String identifies the object: "hub Secret fleet-default/swarm", "east ClusterRole /admin".
func (o Object) String() string {
	return fmt.Sprintf("%s %s %s/%s", o.Cluster, o.Kind(), o.text("metadata", "namespace"), o.text("metadata", "name"))
}

// Kind is the object's, without its group: no two recorded kinds share a name.
func (o Object) Kind() string { return o.text("kind") }

// text is a field, and empty where there is none or it is no text.
func (o Object) text(fields ...string) string {
	found, _, _ := unstructured.NestedString(o.Fields, fields...) // what is no text is compared as it is
	return found
}

// Load reads the objects recorded in the folders of these clusters.
func Load(files fs.FS, clusters ...string) ([]Object, error) {
	var all []Object
	for _, cluster := range clusters {
		names, err := fs.Glob(files, path.Join(cluster, "*.yaml"))
		if err != nil {
			return nil, fmt.Errorf("looking for the objects of %s: %w", cluster, err)
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

// Live is an object of an API server in the form in which objects are recorded: without what an API
// server keeps of its own, and with the data of a Secret decoded.
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

// helmRelease is the type of the Secrets in which Helm keeps what it has installed.
const helmRelease = "helm.sh/release.v1"

// decoded are the values of a Secret. The payload of a release is not recorded, only that it is there.
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
