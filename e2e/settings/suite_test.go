// Package settings tells of one imported cluster whose settings are changed while its agent is at work. What it costs
// is read from the audit logs of both API servers.
package settings

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/suite"
)

// east is the one cluster, and is imported.
const east = "east"

var world *framework.World

func TestSettings(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "settings of an agent at work")
}

var _ = suite.Share(&world, framework.Options{Downstreams: []string{east}, Audit: true}, map[string]any{"agentCheckinInterval": "5s", "bootstrap": map[string]any{"enabled": false}})
