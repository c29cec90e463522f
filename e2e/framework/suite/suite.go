// Package suite starts the world that all stories of a ginkgo suite on control planes share.
package suite

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework"
)

// starting limits the start of a world. It takes longest if the product has to be built first.
const starting = 15 * time.Minute

// Share starts a world before the first story of a suite, stores it in *world, and installs the hub with these chart
// values. The world ends with the suite. If a story fails, its logs are kept and the report contains the state of the
// hub. Call it once, to initialize a package variable; the result has no meaning.
func Share(world **framework.World, o framework.Options, values map[string]any) bool {
	failed := false
	ginkgo.BeforeSuite(func(ctx ginkgo.SpecContext) {
		o.Progress = func(format string, args ...any) { ginkgo.GinkgoWriter.Printf(format+"\n", args...) }
		started, err := framework.Start(ctx, o)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		*world = started
		ginkgo.DeferCleanup(func() {
			gomega.Expect(started.Stop()).To(gomega.Succeed())
			if !failed {
				gomega.Expect(started.RemoveLogs()).To(gomega.Succeed())
			}
		})
		gomega.Expect(started.InstallHub(ctx, values)).To(gomega.Succeed())
	}, ginkgo.NodeTimeout(starting))
	return ginkgo.ReportAfterEach(func(ctx ginkgo.SpecContext, report ginkgo.SpecReport) {
		if report.Failed() && *world != nil {
			failed = true
			ginkgo.AddReportEntry("state of the hub", (*world).Describe(ctx))
		}
	})
}
