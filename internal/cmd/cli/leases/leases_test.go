package leases_test

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/leases"
)

func TestOf(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	renewed := func(ago time.Duration) *metav1.MicroTime { return &metav1.MicroTime{Time: now.Add(-ago)} }
	for name, test := range map[string]struct {
		spec   coordinationv1.LeaseSpec
		active bool
	}{
		"renewed in time":                       {coordinationv1.LeaseSpec{HolderIdentity: new("a"), RenewTime: renewed(30 * time.Second), LeaseDurationSeconds: new(int32(15))}, true},
		"not renewed in time":                   {coordinationv1.LeaseSpec{HolderIdentity: new("a"), RenewTime: renewed(2 * time.Minute), LeaseDurationSeconds: new(int32(15))}, false},
		"without a duration: the default":       {coordinationv1.LeaseSpec{HolderIdentity: new("a"), RenewTime: renewed(100 * time.Second)}, true},
		"older than the default":                {coordinationv1.LeaseSpec{HolderIdentity: new("a"), RenewTime: renewed(106 * time.Second)}, false},
		"released: without a holder":            {coordinationv1.LeaseSpec{HolderIdentity: new(""), RenewTime: renewed(time.Second)}, false},
		"never held":                            {coordinationv1.LeaseSpec{}, false},
		"renewed in the future: clocks differ":  {coordinationv1.LeaseSpec{HolderIdentity: new("a"), RenewTime: renewed(-time.Hour)}, true},
		"holder without a time of the renewal":  {coordinationv1.LeaseSpec{HolderIdentity: new("a")}, false},
		"time of the renewal without a holder":  {coordinationv1.LeaseSpec{RenewTime: renewed(0)}, false},
		"duration of the Lease is taken as set": {coordinationv1.LeaseSpec{HolderIdentity: new("a"), RenewTime: renewed(9 * time.Minute), LeaseDurationSeconds: new(int32(600))}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := leases.Of(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l"}, Spec: test.spec}, now)
			if got.Active != test.active || got.Name != "l" || got.Renewed != test.spec.RenewTime {
				t.Errorf("%+v", got)
			}
		})
	}
}
