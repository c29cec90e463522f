package outcome

import (
	"testing"
	"time"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestReported_IsTrueForADeployedRevisionThatWasNotMadeAgain(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var status fleet.BundleDeploymentStatus
	expect := func(want bool, revision string, made time.Time) {
		t.Helper()
		if got := Reported(&status, revision, made); got != want {
			t.Errorf("revision %s, made at %s: got %t", revision, made, got)
		}
	}
	expect(false, "", noon)
	Deployed(&status, noon.Add(800*time.Millisecond), "s-1:a", "web/hello:1")
	expect(true, "web/hello:1", noon.Add(-time.Minute))
	expect(true, "web/hello:1", noon.Add(700*time.Millisecond)) // the condition has whole seconds
	expect(false, "web/hello:1", noon.Add(time.Second))
	expect(false, "web/hello:2", noon)
	NotDeployed(&status, noon.Add(time.Minute), conditions.ReasonError, "no answer")
	expect(false, "web/hello:1", noon)
}
