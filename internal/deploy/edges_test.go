package deploy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/hub"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestRecords(t *testing.T) {
	r := newRecords()
	first := r.of(deploytest.Deployment(func(bd *fleet.BundleDeployment) { bd.UID = "1" }), "h")
	if again := r.of(deploytest.Deployment(func(bd *fleet.BundleDeployment) { bd.UID = "1" }), "h"); again != first {
		t.Error("another record for the same")
	}
	if anew := r.of(deploytest.Deployment(func(bd *fleet.BundleDeployment) { bd.UID = "2" }), "h"); anew == first {
		t.Error("the same record after a recreation")
	}
	r.of(deploytest.Deployment(func(bd *fleet.BundleDeployment) { bd.Name = "other" }), "h")
	if diff := cmp.Diff([]string{"hello", "other"}, r.usersOf("h")); diff != "" {
		t.Error(diff)
	}
	if known := r.drop("hello"); known == nil || known.uid != "2" {
		t.Errorf("dropped %v", known)
	}
	if known := r.drop("hello"); known != nil {
		t.Errorf("dropped %v again", known)
	}
	r.drop("other")
	r.setLeftCopies("deleted", true)
	if users := r.usersOf(""); len(users) > 0 {
		t.Errorf("an empty hash names a set of %v", users)
	}
	r.setLeftCopies("deleted", false)
	if len(r.byName) > 0 {
		t.Errorf("left over: %v", r.byName)
	}
}

func TestChangedBundleDeployment_IsEnqueuedUnlessOnlyStatus(t *testing.T) {
	tests := map[string]struct {
		change func(*fleet.BundleDeployment)
		want   bool
	}{
		"nothing":          {func(*fleet.BundleDeployment) {}, false},
		"the status":       {func(bd *fleet.BundleDeployment) { bd.Status.Ready = true; bd.ResourceVersion = "9" }, false},
		"the spec":         {func(bd *fleet.BundleDeployment) { bd.Spec.Paused = true }, true},
		"a copied Secret":  {func(bd *fleet.BundleDeployment) { bd.Spec.DownstreamResourcesGeneration++ }, true},
		"a label":          {func(bd *fleet.BundleDeployment) { bd.Labels["a"] = "b" }, true},
		"an annotation":    {func(bd *fleet.BundleDeployment) { bd.Annotations = map[string]string{"a": "b"} }, true},
		"its deletion":     {func(bd *fleet.BundleDeployment) { bd.DeletionTimestamp = &metav1.Time{Time: deploytest.Noon()} }, true},
		"it was recreated": {func(bd *fleet.BundleDeployment) { bd.UID = "other" }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bd := deploytest.Deployment()
			test.change(bd)
			if got := worthALook(deploytest.Deployment(), bd); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestPanic_BecomesError(t *testing.T) {
	err := guarded(func() error { panic("a chart did it") })
	if err == nil || !strings.Contains(err.Error(), "a chart did it") {
		t.Errorf("got %v", err)
	}
	if err := guarded(func() error { return nil }); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestSuperseded(t *testing.T) {
	at := func(version, deploymentID string) *fleet.BundleDeployment {
		return deploytest.Deployment(func(bd *fleet.BundleDeployment) {
			bd.UID, bd.ResourceVersion, bd.Spec.DeploymentID = "1", version, deploymentID
		})
	}
	changed := func(change func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
		bd := at("7", "s-2:a")
		change(bd)
		return bd
	}
	tests := map[string]struct {
		cached *fleet.BundleDeployment
		want   bool
		// atomic is the result for an atomic operation.
		atomic bool
	}{
		"the deployed state: is not superseded":                 {at("5", "s-1:a"), false, false},
		"changed, same deployment ID: is not superseded":        {at("7", "s-1:a"), false, false},
		"other deployment ID: is superseded":                    {at("7", "s-2:a"), true, false},
		"cache is older: is not superseded":                     {at("3", "s-0:a"), false, false},
		"it was deleted: is superseded":                         {nil, true, true},
		"it was recreated: is superseded":                       {deploytest.Deployment(func(bd *fleet.BundleDeployment) { bd.UID = "2" }), true, false},
		"other deployment ID, off schedule: is not superseded":  {changed(func(bd *fleet.BundleDeployment) { bd.Spec.OffSchedule = true }), false, false},
		"other deployment ID, paused: is not superseded":        {changed(func(bd *fleet.BundleDeployment) { bd.Spec.Paused = true }), false, false},
		"other deployment ID without values: is not superseded": {changed(func(bd *fleet.BundleDeployment) { bd.Spec.WaitingForValues = true }), false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h, err := hub.New(&rest.Config{}, "cluster-ns")
			if err != nil {
				t.Fatal(err)
			}
			if test.cached != nil {
				if err := h.Informer.GetStore().Add(test.cached); err != nil {
					t.Fatal(err)
				}
			}
			bd := at("5", "s-1:a")
			if got := (&deployer{hub: h}).superseded(bd)(); got != test.want {
				t.Errorf("got %t", got)
			}
			bd.Spec.Options.Helm = &fleet.HelmOptions{Atomic: true}
			if got := (&deployer{hub: h}).superseded(bd)(); got != test.atomic {
				t.Errorf("atomic: got %t", got)
			}
		})
	}
}

// A restored hub has an older state than this agent. The agent uses the hub's state.
func TestRestoredHub_OlderStateIsUsed(t *testing.T) {
	at := func(version, deploymentID string) *fleet.BundleDeployment {
		return deploytest.Deployment(func(bd *fleet.BundleDeployment) {
			bd.UID, bd.ResourceVersion, bd.Spec.DeploymentID = "1", version, deploymentID
		})
	}
	tests := map[string]struct {
		before, after *fleet.BundleDeployment
		looked        bool
		want          string
	}{
		"cache is older than the last report: report is used": {at("5", "s-1:a"), at("7", "s-1:a"), false, "9"},
		"cache has the last report: either is used":           {at("7", "s-1:a"), at("9", "s-1:a"), false, "9"},
		"cache is newer: cache is used":                       {at("9", "s-1:a"), at("11", "s-2:a"), true, "11"},
		"lower version and older state: hub was restored":     {at("9", "s-2:a"), at("4", "s-1:a"), true, "4"},
		"lower version, same state: hub was restored":         {at("9", "s-1:a"), at("4", "s-1:a"), true, "4"},
		"slightly lower version: hub was restored":            {at("9", "s-1:a"), at("8", "s-1:a"), true, "8"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now := deploytest.Noon()
			d, _ := testDeployer(&now)
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
			defer queue.ShutDown()
			d.queue = queue
			r := d.records.of(test.before, "h")
			r.written = at("9", "s-1:a")
			d.handlers().OnUpdate(test.before, test.after)
			if looked := queue.Len() > 0; looked != test.looked {
				t.Errorf("enqueued: %t, want %t", looked, test.looked)
			}
			latest := func() *fleet.BundleDeployment { return hub.Newer(test.after, d.records.of(test.after, "h").written) }
			if got := latest(); got.ResourceVersion != test.want {
				t.Errorf("version %s, want %s", got.ResourceVersion, test.want)
			}
			r.written = at("12", "s-3:a") // the answer to the next report
			if got := latest(); got.ResourceVersion != "12" {
				t.Errorf("then version %s, want 12", got.ResourceVersion)
			}
		})
	}
}
