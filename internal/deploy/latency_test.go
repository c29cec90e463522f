package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// tenObjects is a bundle of ten ConfigMaps.
func tenObjects() map[string]string {
	files := map[string]string{}
	for i := range 10 {
		files[fmt.Sprintf("cm-%d.yaml", i)] = strings.Replace(deploytest.ConfigMapYAML, "name: cm", fmt.Sprintf("name: cm-%d", i), 1)
	}
	return files
}

// TestBundle_ReachesReadyStatus measures the time until a BundleDeployment is applied and ready. It fails only if
// that is not reached. It runs alone.
func TestBundle_ReachesReadyStatus(t *testing.T) {
	l := newLab(t, "latency")
	l.start()
	l.apply(bundle{Name: "warm-up", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("warm-up", ready)
	for name, files := range map[string]map[string]string{
		"a chart with one object": deploytest.HelloFiles("hi"), "plain YAML with a Deployment": rawFiles(), "plain YAML, ten objects": tenObjects(),
	} {
		t.Run(name, func(t *testing.T) {
			var applied, done []time.Duration
			for i := range 10 {
				bundleName := fmt.Sprintf("b%d-%d", len(files), i)
				began := time.Now()
				l.apply(bundle{Name: bundleName, Files: files, Options: deploytest.InNamespace(l.Name + "-" + bundleName)})
				l.expectStatus(bundleName, func(bd *fleet.BundleDeployment) string {
					if bd.Status.AppliedDeploymentID == "" {
						return "not applied"
					}
					return ""
				})
				applied = append(applied, time.Since(began))
				l.expectStatus(bundleName, ready)
				done = append(done, time.Since(began))
			}
			slices.Sort(applied)
			slices.Sort(done)
			t.Logf("applied: median %s, slowest %s; ready: median %s, slowest %s",
				applied[len(applied)/2], applied[len(applied)-1], done[len(done)/2], done[len(done)-1])
		})
	}
}
