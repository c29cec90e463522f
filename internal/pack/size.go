package pack

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Limits for the JSON of an object, in bytes.
const (
	// StoreLimit is the limit of etcd unless it is configured otherwise. Other stores accept more.
	StoreLimit = 3 << 19
	// RequestLimit is the limit of API servers for a request. It includes what the API server adds.
	RequestLimit = 3<<20 - 4096
)

// largestShown is the number of files that the description of a large Bundle names.
const largestShown = 5

// Size returns the number of bytes of a Bundle's JSON.
func Size(bundle *fleet.Bundle) int {
	// A Bundle that was decoded from JSON encodes.
	text, _ := json.Marshal(bundle)
	return len(text)
}

// Oversize describes a Bundle that is larger than a limit: its largest files, and the ways to make it smaller.
func Oversize(bundle *fleet.Bundle, limit int) string {
	files := slices.Clone(bundle.Spec.Resources)
	slices.SortStableFunc(files, func(a, b fleet.BundleResource) int { return cmp.Compare(len(b.Content), len(a.Content)) })
	var largest []string
	for _, file := range files[:min(len(files), largestShown)] {
		largest = append(largest, fmt.Sprintf("%s (%s)", file.Name, kib(len(file.Content))))
	}
	return fmt.Sprintf("Bundle %s has %s with %d files, more than the %s that fit into an object; the largest files are %s; "+
		"exclude files in .fleetignore, or split the folder into several paths or folders with a fleet.yaml of their own",
		bundle.Name, kib(Size(bundle)), len(files), kib(limit), strings.Join(largest, ", "))
}

// kib returns a number of bytes as text.
func kib(bytes int) string { return fmt.Sprintf("%d KiB", (bytes+1023)>>10) }
