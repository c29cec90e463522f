package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Content holds the resources of a Bundle, compressed, under a name made of their
// hash. It never changes, and all BundleDeployments with the same resources share it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=contents,scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
type Content struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Content is the manifest, a JSON document, compressed with gzip.
	// +nullable
	Content []byte `json:"content,omitempty"`

	// SHA256Sum is the hash of the uncompressed manifest, in hexadecimal. Readers
	// refuse a manifest that does not match it.
	SHA256Sum string `json:"sha256sum,omitempty"`

	Status ContentStatus `json:"status,omitempty"`
}

// ContentList is a list of Contents.
//
// +kubebuilder:object:root=true
type ContentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Content `json:"items"`
}

// ContentStatus reports the use of a Content.
type ContentStatus struct {
	// ReferenceCount is the number of BundleDeployments labelled with this
	// Content's name. A Content that was used and is no longer is deleted.
	ReferenceCount int `json:"referenceCount,omitempty"`
}
