package pack

import (
	"errors"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// imageScan is an entry of imageScans in a fleet.yaml.
type imageScan struct {
	Name string `json:"name,omitempty"`
	imageScanSpec
}

// imageScanSpec is the spec of the kind ImageScan.
type imageScanSpec struct {
	TagName     string                       `json:"tagName,omitempty"`
	GitRepoName string                       `json:"gitrepoName,omitempty"`
	Image       string                       `json:"image,omitempty"`
	Interval    metav1.Duration              `json:"interval,omitempty"`
	SecretRef   *corev1.LocalObjectReference `json:"secretRef,omitempty"`
	Suspend     bool                         `json:"suspend,omitempty"`
	Policy      imagePolicy                  `json:"policy"`
}

type imagePolicy struct {
	SemVer       *semVerPolicy       `json:"semver,omitempty"`
	Alphabetical *alphabeticalPolicy `json:"alphabetical,omitempty"`
}

type semVerPolicy struct {
	Range string `json:"range,omitempty"`
}

type alphabeticalPolicy struct {
	Order string `json:"order,omitempty"`
}

// imageScans returns the ImageScans of a Bundle. id is the Bundle's name without `name` of the fleet.yaml.
func imageScans(id string, entries []imageScan) ([]*unstructured.Unstructured, error) {
	var scans []*unstructured.Unstructured
	for i, entry := range entries {
		if entry.Image == "" {
			continue
		}
		if entry.TagName == "" {
			return nil, errors.New("the name of scan is required")
		}
		spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&entry.imageScanSpec)
		if err != nil {
			return nil, err
		}
		scan := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		scan.SetGroupVersionKind(fleet.SchemeGroupVersion.WithKind("ImageScan"))
		scan.SetName(names.SafeConcat("imagescan", id, strconv.Itoa(i)))
		scans = append(scans, scan)
	}
	return scans, nil
}
