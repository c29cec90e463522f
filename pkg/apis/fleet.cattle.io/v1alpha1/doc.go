// Package v1alpha1 is the wire format of Fleet: the kinds of the API group fleet.cattle.io, version v1alpha1, with the
// labels and annotations that go with them. Annotations that only this project writes are in package annotation, and
// conditions with their reasons in package conditions.
//
// The types are the only source of the CustomResourceDefinitions in charts/fleet-crd/crd-bases and of the deep copies
// in this package; run `go generate ./...` after changing one. A field's JSON name, its place in the struct and its
// omitempty are part of the wire format: deployment IDs and change detectors are hashes of the JSON. All fields are
// optional.
//
// +kubebuilder:validation:Optional
// +kubebuilder:object:generate=true
// +groupName=fleet.cattle.io
package v1alpha1
