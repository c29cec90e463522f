package content

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestDecide(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	needed := &fleet.BundleDeployment{}
	going := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now}}}
	tests := map[string]struct {
		age  time.Duration
		by   []*fleet.BundleDeployment
		want outcome
	}{
		"new and unused: stays":                                   {0, nil, outcome{recheck: MinimumAge}},
		"just before the grace period ends: stays":                {MinimumAge - time.Second, nil, outcome{recheck: time.Second}},
		"old and unused: is deleted":                              {MinimumAge, nil, outcome{remove: true}},
		"old and used: stays":                                     {24 * time.Hour, []*fleet.BundleDeployment{needed, needed}, outcome{references: 2}},
		"a BundleDeployment that is being deleted does not count": {24 * time.Hour, []*fleet.BundleDeployment{needed, going}, outcome{references: 1}},
		"a BundleDeployment that is being deleted keeps it":       {24 * time.Hour, []*fleet.BundleDeployment{going}, outcome{}},
		"clock is behind: stays longer":                           {-time.Minute, nil, outcome{recheck: MinimumAge + time.Minute}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &fleet.Content{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-test.age))}}
			if diff := cmp.Diff(test.want, decide(c, test.by, now), cmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}
