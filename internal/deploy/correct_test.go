package deploy

import (
	"testing"

	"k8s.io/client-go/util/workqueue"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/pace"
	"github.com/fleet-hub/fleet/internal/deploy/watch"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The objects may be corrected although the revision of the correction could be neither stored nor deleted.
func TestDriftGoneAfterFailedCorrection_HistoryIsReadAgain(t *testing.T) {
	for name, failed := range map[string]bool{"no correction failed: still tracked": false, "correction failed: not tracked": true} {
		t.Run(name, func(t *testing.T) {
			d := &deployer{queue: workqueue.NewTypedRateLimitingQueue(pace.NewBackoff(func() float64 { return 0 }))}
			defer d.queue.ShutDown()
			bd := deploytest.Deployment(func(bd *fleet.BundleDeployment) { bd.Spec.CorrectDrift = &fleet.CorrectDrift{Enabled: true} })
			r := &record{}
			r.track(&watch.Tracking{Release: "web/hello:1", Known: true})
			if failed {
				r.correction.Failed(deploytest.Noon(), "storing revision 2", 0)
			}
			if err := d.correct(t.Context(), bd, r, &bd.Status); err != nil {
				t.Fatal(err)
			}
			if tracked, enqueued := r.tracking != nil, d.queue.Len() > 0; tracked == failed || enqueued != failed {
				t.Errorf("tracked: %t, enqueued: %t", tracked, enqueued)
			}
		})
	}
}
