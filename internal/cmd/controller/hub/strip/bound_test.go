package strip

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"

	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestCaches_HoldNoMoreOfAReportThanAStatusMay(t *testing.T) {
	loud := genericcondition.GenericCondition{Type: "Monitored", Status: "False", Reason: "Error", Message: strings.Repeat("x", 1_200_000)}
	bd := &fleet.BundleDeployment{Status: fleet.BundleDeploymentStatus{
		Conditions:     []genericcondition.GenericCondition{loud},
		ModifiedStatus: make([]fleet.ModifiedStatus, 30_000), NonReadyStatus: make([]fleet.NonReadyStatus, 30_000),
	}}
	cluster := &fleet.Cluster{Status: fleet.ClusterStatus{Conditions: []genericcondition.GenericCondition{loud}}}
	for _, object := range []any{bd, cluster} {
		kept, err := newStripper().strip(object)
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := json.Marshal(kept)
		if err != nil || len(encoded) > state.MaxClusterStatus {
			t.Errorf("of a %T, %d bytes are kept: %v", object, len(encoded), err)
		}
	}
	if !bd.Status.IncompleteState {
		t.Error("the status of a BundleDeployment whose lists were cut is complete")
	}
}
