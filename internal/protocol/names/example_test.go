package names_test

import (
	"fmt"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Hub and agent compute the same names, so neither has to send them.
func ExampleClusterNamespace() {
	fmt.Println(names.ClusterNamespace("fleet-default", "east"))
	fmt.Println(names.ClusterNamespace("fleet-default", "a-cluster-with-a-name-that-is-too-long-to-be-part-of-another"))
	// Output:
	// cluster-fleet-default-east-0f0350029557
	// cluster-fleet-default-a-cluster-with-a-name-that-is-too-l-21fff
}
