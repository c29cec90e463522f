// Package suite is what the ginkgo suites on control planes have in common: one world that all their stories share.
package suite

import (
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework"
)

// starting bounds how long a world may take: longest where the product has to be built first.
const starting = 15 * time.Minute

// Share starts a world before the first story of a suite, as *world, and installs the hub with these values of the
// chart. It ends with the suite; where a story has failed, its logs stay, and the report has the state of the hub. Call
// it once, where a package's variables are made; the result means nothing.
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
