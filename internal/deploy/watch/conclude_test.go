package watch

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestStatusOfManyObjects_StaysWithinItsBudget(t *testing.T) {
	long := strings.Repeat("界\x01", 300_000)
	r := Report{}
	for i := range 20_000 {
		r.Resources = append(r.Resources, fleet.DeployedResource{Kind: "ConfigMap", APIVersion: "v1", Namespace: "web", Name: fmt.Sprintf("settings-%05d", i)})
	}
	for range 10 {
		r.Modified = append(r.Modified, fleet.ModifiedStatus{Kind: "ConfigMap", APIVersion: "v1", Name: "settings", Patch: long})
		r.NonReady = append(r.NonReady, fleet.NonReadyStatus{Kind: "Job", APIVersion: "batch/v1", Name: "once", Summary: fleet.ResourceSummary{Message: []string{long}}})
	}
	var status fleet.BundleDeploymentStatus
	Monitored(&status, time.Now(), r, 0)
	outcome.NotDeployed(&status, time.Now(), conditions.ReasonError, long)
	outcome.Conclude(&fleet.BundleDeployment{}, &status)
	encoded, err := json.Marshal(status)
	if err != nil || len(encoded) > state.MaxBundleDeploymentStatus {
		t.Errorf("the status takes %d bytes: %v", len(encoded), err)
	}
	if !status.IncompleteState || len(status.Resources) < 1000 || len(status.ModifiedStatus) != 10 || len(status.NonReadyStatus) != 10 {
		t.Errorf("incomplete: %v; %d resources, %d modified, %d not ready", status.IncompleteState, len(status.Resources), len(status.ModifiedStatus), len(status.NonReadyStatus))
	}
}
