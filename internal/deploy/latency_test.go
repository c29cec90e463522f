package deploy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Measured, not judged: the time from a BundleDeployment on the hub to its status there.
func TestLatencyOfASmallBundle(t *testing.T) {
	l := newLab(t, "latency")
	l.start()
	measure := func(name string, files map[string]string) []time.Duration {
		var taken []time.Duration
		for i := range 10 {
			bundleName := fmt.Sprintf("%s-%d", name, i)
			began := time.Now()
			l.apply(bundle{Name: bundleName, Files: files, Options: fleet.BundleDeploymentOptions{
				DefaultNamespace: l.Name + "-" + bundleName, Helm: &fleet.HelmOptions{}}})
			l.expectStatus(bundleName, ready)
			taken = append(taken, time.Since(began))
		}
		slices.Sort(taken)
		return taken
	}
	for _, files := range []map[string]string{helloFiles("hi"), rawFiles()} {
		taken := measure(fmt.Sprintf("b%d", len(files)), files)
		t.Logf("median %s, fastest %s, slowest %s", taken[len(taken)/2], taken[0], taken[len(taken)-1])
	}
}
