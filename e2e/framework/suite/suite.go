// Package suite is what the ginkgo suites on control planes have in common: one world that all their stories share.
package suite

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework"
)

// starting bounds how long a world may take: longest where the product has to be built first.
const starting = 15 * time.Minute

// Share starts a world before the first story of a suite, as *world, and installs the hub with these values of the
// chart. It ends with the suite; where a story has failed, its logs stay, and the report has the state of the hub. Call
// it once, where a package's variables are made; the result means nothing.
func Share(world **framework.World, o framework.Options, values map[string]any) bool {
	failed := false
	BeforeSuite(func(ctx SpecContext) {
		o.Progress = func(format string, args ...any) { GinkgoWriter.Printf(format+"\n", args...) }
		started, err := framework.Start(ctx, o)
		Expect(err).NotTo(HaveOccurred())
		*world = started
		DeferCleanup(func() {
			Expect(started.Stop()).To(Succeed())
			if !failed {
				Expect(started.RemoveLogs()).To(Succeed())
			}
		})
		Expect(started.InstallHub(ctx, values)).To(Succeed())
	}, NodeTimeout(starting))
	return ReportAfterEach(func(ctx SpecContext, report SpecReport) {
		if report.Failed() && *world != nil {
			failed = true
			AddReportEntry("state of the hub", (*world).Describe(ctx))
		}
	})
}
