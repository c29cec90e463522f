package deploy

import (
	"testing"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/watch"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestSameButDetails(t *testing.T) {
	base := deploytest.Deployment().Status
	watch.Monitored(&base, deploytest.Noon(), watch.Report{Ready: true, NonModified: true}, 0)
	tests := map[string]struct {
		change func(*fleet.BundleDeploymentStatus)
		want   bool
	}{
		"equal":                   {func(*fleet.BundleDeploymentStatus) {}, true},
		"another message":         {func(s *fleet.BundleDeploymentStatus) { s.Conditions[0].Message = "x" }, true},
		"another count":           {func(s *fleet.BundleDeploymentStatus) { s.ResourceCounts.NotReady = 3 }, true},
		"another readiness":       {func(s *fleet.BundleDeploymentStatus) { s.Ready = false }, false},
		"modified":                {func(s *fleet.BundleDeploymentStatus) { s.NonModified = false }, false},
		"another release":         {func(s *fleet.BundleDeploymentStatus) { s.Release = "x" }, false},
		"another deployment":      {func(s *fleet.BundleDeploymentStatus) { s.AppliedDeploymentID = "x" }, false},
		"another condition":       {func(s *fleet.BundleDeploymentStatus) { s.Conditions[0].Status = "False" }, false},
		"a condition was removed": {func(s *fleet.BundleDeploymentStatus) { s.Conditions = s.Conditions[1:] }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			to := base.DeepCopy()
			test.change(to)
			if got := outcome.SameButDetails(&base, to); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
