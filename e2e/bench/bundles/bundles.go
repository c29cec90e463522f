package bundles

import (
	"fmt"
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Label is the label with the name of an object's Bundle.
const Label = "fleet-bench"

// Namespace is the namespace of all deployed objects on an agent's cluster.
const Namespace = "fleet-bench"

// largeSize is the size of the CRDs in the large chart, and largePacked their approximate size after compression.
const (
	largeSize   = 10 << 20
	largePacked = 900 << 10
	largeFiles  = 10
)

// ObjectNames returns the names of the ten objects of a Bundle.
func ObjectNames(bundle string) (found []string) {
	for i := range 10 {
		found = append(found, fmt.Sprintf("%s-%d", bundle, i))
	}
	return found
}

// TenObjects returns the files of a plain YAML Bundle: six ConfigMaps, two ServiceAccounts, a Service and a
// Deployment.
func TenObjects(bundle string) (files []fleet.BundleResource) {
	for i, name := range ObjectNames(bundle) {
		kind, body := "v1\nkind: ConfigMap", "data:\n  text: some words to begin with\n"
		switch {
		case i == 9:
			kind, body = "apps/v1\nkind: Deployment", fmt.Sprintf(pausing, name)
		case i == 8:
			kind, body = "v1\nkind: Service", fmt.Sprintf("spec:\n  selector: {app: %s}\n  ports: [{port: 80}]\n", name)
		case i >= 6:
			kind, body = "v1\nkind: ServiceAccount", ""
		}
		text := fmt.Sprintf("apiVersion: %s\nmetadata:\n  name: %s\n  labels: {%s: %s}\n%s", kind, name, Label, bundle, body)
		files = append(files, fleet.BundleResource{Name: name + ".yaml", Content: text})
	}
	return files
}

// pausing is the spec of a Deployment. Its pods become ready without a process.
const pausing = `spec:
  replicas: 1
  selector:
    matchLabels: {app: %[1]s}
  template:
    metadata:
      labels: {app: %[1]s}
    spec:
      containers:
      - name: pause
        image: pause
`

// LargeChart returns a chart with ten megabytes of CRDs, compressed as the files of a Bundle may be.
func LargeChart() []fleet.BundleResource {
	files := []fleet.BundleResource{
		{Name: "Chart.yaml", Content: "apiVersion: v2\nname: large\nversion: 0.1.0\n"},
		{Name: "templates/one.yaml", Content: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: large\n"},
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same chart each time
	for i := range largeFiles {
		files = append(files, content.Compress(fmt.Sprintf("crds/%d.yaml", i), []byte(crd(i, largeSize/largeFiles, random))))
	}
	return files
}

// crd returns a CustomResourceDefinition of about this size. It consists mostly of descriptions, as real ones do.
func crd(number, size int, random *rand.Rand) string {
	var text strings.Builder
	fmt.Fprintf(&text, crdHead, number)
	for i := 0; text.Len() < size; i++ {
		fmt.Fprintf(&text, "              field%d:\n                type: string\n                description: >-\n", i)
		for range 12 {
			fmt.Fprintf(&text, "                  %s\n", phrases(random))
		}
	}
	return text.String()
}

// phrases returns a line of few phrases and a number. It compresses like repetitive prose.
func phrases(random *rand.Rand) string {
	parts := []string{
		"the name of the object to which this refers", "defaults to what the namespace says", "is optional and may be left empty",
		"cannot be changed once it was set", "must be a DNS label of at most 63 characters", "is deprecated and will be ignored",
		"counts from the time of creation", "applies to all containers of the pod",
	}
	return fmt.Sprintf("%s, %s (%d)", parts[random.IntN(len(parts))], parts[random.IntN(len(parts))], random.IntN(1<<31))
}

const crdHead = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: larges%[1]d.bench.fleet.cattle.io
spec:
  group: bench.fleet.cattle.io
  names: {kind: Large%[1]d, listKind: Large%[1]dList, plural: larges%[1]d, singular: large%[1]d}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
`

// IsReadyOn reports whether a Bundle says that it is ready on this number of clusters, and on no other.
func IsReadyOn(bundle *fleet.Bundle, clusters int) bool {
	ready := conditions.Get(bundle.Status.Conditions, conditions.Ready)
	return ready != nil && ready.Status == corev1.ConditionTrue && bundle.Status.ObservedGeneration == bundle.Generation &&
		bundle.Status.Summary.Ready == clusters && bundle.Status.Summary.DesiredReady == clusters
}
