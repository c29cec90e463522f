// Package settings tells of one imported cluster whose settings are changed while its agent is at work. What it costs
// is read from the audit logs of both API servers.
package settings

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework"
)

// east is the one cluster, and is imported.
const east = "east"

var world *framework.World

// failed keeps the logs.
var failed bool

func TestSettings(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "settings of an agent at work")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	world, err = framework.Start(ctx, framework.Options{
		Downstreams: []string{east}, Audit: true,
		Progress: func(format string, args ...any) { GinkgoWriter.Printf(format+"\n", args...) },
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(world.InstallHub(ctx, map[string]any{"agentCheckinInterval": "5s", "bootstrap": map[string]any{"enabled": false}})).To(Succeed())
	DeferCleanup(func() {
		Expect(world.Stop()).To(Succeed())
		if !failed {
			Expect(world.RemoveLogs()).To(Succeed())
		}
	})
}, NodeTimeout(15*time.Minute))

var _ = ReportAfterEach(func(ctx SpecContext, report SpecReport) {
	if report.Failed() && world != nil {
		failed = true
		AddReportEntry("state of the hub", world.Describe(ctx))
	}
})
