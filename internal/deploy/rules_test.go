package deploy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestDecide(t *testing.T) {
	tests := map[string]struct {
		change        func(*fleet.BundleDeployment)
		releaseExists bool
		forced        bool
		want          action
	}{
		"release in place: is kept":                  {releaseExists: true, want: Keep},
		"release missing: is deployed":               {want: Deploy},
		"release in place, forced: is deployed":      {releaseExists: true, forced: true, want: Deploy},
		"another deployment ID is deployed":          {change: func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = "s-2:a" }, releaseExists: true, want: Deploy},
		"a new BundleDeployment is deployed":         {change: func(bd *fleet.BundleDeployment) { bd.Status = fleet.BundleDeploymentStatus{} }, want: Deploy},
		"release under a former name: is deployed":   {change: func(bd *fleet.BundleDeployment) { bd.Status.Release = "web/other:1" }, releaseExists: true, want: Deploy},
		"release in a former namespace: is deployed": {change: func(bd *fleet.BundleDeployment) { bd.Status.Release = "other/hello:1" }, releaseExists: true, want: Deploy},
		"invalid release in the status: is deployed": {change: func(bd *fleet.BundleDeployment) { bd.Status.Release = "hello" }, releaseExists: true, want: Deploy},
		"permanent failure: is kept": {change: func(bd *fleet.BundleDeployment) {
			outcome.FailedDeployment(&bd.Status, deploytest.Noon(), "s-1:a", conditions.ReasonError, "x")
		}, want: KeepFailure},
		"permanent failure, retry due: is deployed": {change: func(bd *fleet.BundleDeployment) {
			outcome.FailedDeployment(&bd.Status, deploytest.Noon(), "s-1:a", conditions.ReasonError, "x")
		}, forced: true, want: Deploy},
		"a failure of another deployment ID does not count": {change: func(bd *fleet.BundleDeployment) {
			outcome.FailedDeployment(&bd.Status, deploytest.Noon(), "s-0:a", conditions.ReasonError, "x")
		}, want: Deploy},
		"temporary error: is deployed": {change: func(bd *fleet.BundleDeployment) {
			bd.Status.AppliedDeploymentID = ""
			outcome.NotDeployed(&bd.Status, deploytest.Noon(), conditions.ReasonError, "x")
		}, want: Deploy},
		"a release whose namespace could not be labelled is kept": {change: func(bd *fleet.BundleDeployment) {
			outcome.LabelsRefused(&bd.Status, deploytest.Noon(), "s-1:a", "web/hello:1", conditions.ReasonForbidden, "x")
		}, releaseExists: true, want: Keep},
		"contents in a registry are refused":     {change: func(bd *fleet.BundleDeployment) { bd.Spec.OCIContents = true }, releaseExists: true, want: Refuse},
		"a chart to download is refused":         {change: func(bd *fleet.BundleDeployment) { bd.Spec.HelmChartOptions = &fleet.BundleHelmOptions{} }, want: Refuse},
		"deployment ID without a colon: is kept": {change: func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = "s-1"; bd.Status.AppliedDeploymentID = "s-1" }, releaseExists: true, want: Keep},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bd := deploytest.Deployment()
			if test.change != nil {
				test.change(bd)
			}
			before := bd.DeepCopy()
			got := decide(situation{BundleDeployment: bd, Status: &bd.Status, ReleaseExists: test.releaseExists, Forced: test.forced})
			if got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
			if diff := cmp.Diff(before, bd); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
		})
	}
}

func TestIsSkipped(t *testing.T) {
	if isSkipped(deploytest.Deployment()) {
		t.Error("a complete BundleDeployment is skipped")
	}
	for name, change := range map[string]func(*fleet.BundleDeployment){
		"paused is skipped":                  func(bd *fleet.BundleDeployment) { bd.Spec.Paused = true },
		"outside its schedule is skipped":    func(bd *fleet.BundleDeployment) { bd.Spec.OffSchedule = true },
		"waiting for values is skipped":      func(bd *fleet.BundleDeployment) { bd.Spec.WaitingForValues = true },
		"being deleted is skipped":           func(bd *fleet.BundleDeployment) { bd.DeletionTimestamp = &metav1.Time{Time: deploytest.Noon()} },
		"without a deployment ID is skipped": func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = "" },
		"paused comes before refused":        func(bd *fleet.BundleDeployment) { bd.Spec.OCIContents = true; bd.Spec.Paused = true },
	} {
		t.Run(name, func(t *testing.T) {
			if !isSkipped(deploytest.Deployment(change)) {
				t.Error("it is not skipped")
			}
		})
	}
}

func TestOptionsComplete(t *testing.T) {
	tests := map[string]struct {
		in   Options
		want string
	}{
		"nothing":              {Options{}, "Hub and Local"},
		"no namespace":         {Options{Hub: &rest.Config{}, Local: &rest.Config{}, AgentNamespace: "a"}, "Namespace and AgentNamespace"},
		"no agent's namespace": {Options{Hub: &rest.Config{}, Local: &rest.Config{}, Namespace: "a"}, "Namespace and AgentNamespace"},
		"negative workers":     {Options{Hub: &rest.Config{}, Local: &rest.Config{}, Namespace: "a", AgentNamespace: "b", Workers: -1}, "negative"},
		"all required options": {Options{Hub: &rest.Config{}, Local: &rest.Config{}, Namespace: "a", AgentNamespace: "b"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := test.in.complete()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	got, err := Options{Hub: &rest.Config{}, Local: &rest.Config{}, Namespace: "a", AgentNamespace: "b"}.complete()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{5, 15 * time.Minute}, []any{got.Workers, got.GarbageCollectionInterval}); diff != "" {
		t.Error(diff)
	}
	got.OnWatching(nil)
	got.OnDeploy(outcome.Succeeded, time.Second)
	got.Log.Info("discarded")
	if chance := got.Random(); got.Clock().IsZero() || chance < 0 || chance >= 1 {
		t.Errorf("clock %s chance %f", got.Clock(), chance)
	}
}
