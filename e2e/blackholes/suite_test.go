// Package blackholes contains stories of a hub with the kubeconfigs of many unreachable clusters and of some
// reachable ones.
package blackholes

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/suite"
)

// The reachable Clusters, one for each story. They are one downstream cluster with two agents.
const (
	downstream = "downstream"

	east = "east"
	west = "west"
)

var world *framework.World

var _ = suite.Share(&world, framework.Options{Downstreams: []string{downstream}}, map[string]any{"bootstrap": map[string]any{"enabled": false}})

func TestBlackHoles(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "clusters that are not there")
}
