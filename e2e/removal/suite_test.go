// Package removal removes a hub as docs/uninstall.md describes.
package removal

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/suite"
)

// east is the hub's one cluster beside its own.
const east = "east"

var world *framework.World

func TestRemoval(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "a hub that goes")
}

var _ = suite.Share(&world, framework.Options{Downstreams: []string{east}}, settings(map[string]any{}))

// settings are the values of the hub's chart, with a bootstrap of its own cluster.
func settings(bootstrap map[string]any) map[string]any {
	return map[string]any{"agentCheckinInterval": "5s", "bootstrap": bootstrap}
}
