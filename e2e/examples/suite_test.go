// Package examples contains the story of a user who delivers the folders of examples/ with the command line `fleet`.
package examples

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/suite"
)

// The clusters.
const (
	east = "east" // has the label env=dev
	west = "west" // has the label env=prod
)

var world *framework.World

func TestExamples(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "the examples")
}

var _ = suite.Share(&world, framework.Options{Downstreams: []string{east, west}}, map[string]any{
	"agentCheckinInterval": "5s", "bootstrap": map[string]any{"enabled": false},
})
