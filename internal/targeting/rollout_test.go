package targeting

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// deployed has the IDs staged, current and applied, and is ready.
func deployed(staged, current, applied string) *fleet.BundleDeployment {
	return &fleet.BundleDeployment{
		Spec:   fleet.BundleDeploymentSpec{StagedDeploymentID: staged, DeploymentID: current},
		Status: fleet.BundleDeploymentStatus{AppliedDeploymentID: applied, Ready: true},
	}
}

func unready(bd *fleet.BundleDeployment) *fleet.BundleDeployment {
	bd.Status.Ready = false
	return bd
}

func TestRollout(t *testing.T) {
	tests := map[string]struct {
		in   []Step
		want []Verdict
	}{
		"nothing to do":      {nil, []Verdict{}},
		"all at once":        {[]Step{{DeploymentID: "2"}, {DeploymentID: "2", Deployment: deployed("1", "1", "1")}}, []Verdict{Promote, Promote}},
		"what is paused not": {[]Step{{DeploymentID: "2", Paused: true}, {DeploymentID: "2"}}, []Verdict{Stage, Promote}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Rollout(nil, test.in)); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProgressOf(t *testing.T) {
	progress := func(count, unavailable, partition int) Progress {
		return Progress{
			Unavailable: unavailable, MaxUnavailable: count,
			Partitions: []fleet.PartitionStatus{{Name: "All", Count: count, MaxUnavailable: count, Unavailable: partition}},
		}
	}
	tests := map[string]struct {
		in   []Step
		want Progress
	}{
		"no targets":                       {nil, Progress{}},
		"ready and up to date":             {[]Step{{DeploymentID: "1", Deployment: deployed("1", "1", "1")}}, progress(1, 0, 0)},
		"not ready":                        {[]Step{{DeploymentID: "1", Deployment: unready(deployed("1", "1", "1"))}}, progress(1, 1, 1)},
		"not applied":                      {[]Step{{DeploymentID: "2", Deployment: deployed("2", "2", "1")}}, progress(1, 1, 1)},
		"available, but not the newest":    {[]Step{{DeploymentID: "2", Deployment: deployed("2", "1", "1")}}, progress(1, 0, 1)},
		"not even staged":                  {[]Step{{DeploymentID: "2", Deployment: deployed("1", "1", "1")}}, progress(1, 0, 1)},
		"there is none yet":                {[]Step{{DeploymentID: "1"}}, progress(1, 0, 1)},
		"each counts, in whatever order":   {[]Step{{DeploymentID: "1"}, {DeploymentID: "1", Deployment: deployed("1", "1", "1")}}, progress(2, 0, 1)},
		"each counts, in the other order ": {[]Step{{DeploymentID: "1", Deployment: deployed("1", "1", "1")}, {DeploymentID: "1"}}, progress(2, 0, 1)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, ProgressOf(nil, test.in)); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
		})
	}
}
