package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestScheme_KnowsEveryKindAndItsList(t *testing.T) {
	want := map[string]bool{}
	for _, kind := range ourKinds {
		want[kind] = true
		want[kind+"List"] = true
	}
	got := map[string]bool{}
	for kind, goType := range newScheme(t).KnownTypes(fleet.SchemeGroupVersion) {
		if goType.PkgPath() == "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1" {
			got[kind] = true
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("known kinds (-want +got):\n%s", diff)
	}
}

func TestGroupAndVersion_MatchTheAPI(t *testing.T) {
	if got := fleet.SchemeGroupVersion.String(); got != "fleet.cattle.io/v1alpha1" {
		t.Errorf("group and version: %s", got)
	}
	if got := fleet.Resource("clusters").String(); got != "clusters.fleet.cattle.io" {
		t.Errorf("resource: %s", got)
	}
}
