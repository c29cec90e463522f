package leader

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lasting returns a lease of another process that was renewed some seconds after the first time.
func lasting(renewed int, seconds int32) *coordinationv1.Lease {
	lease := heldByAnother()
	at := metav1.NewMicroTime(time.Date(2026, 11, 26, 12, 0, renewed, 5000, time.UTC))
	lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &at, &seconds
	return lease
}

func recordOf(lease *coordinationv1.Lease) *resourcelock.LeaderElectionRecord {
	return resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
}

func TestExpiry(t *testing.T) {
	const hour = 3600
	tests := map[string]struct {
		seen    []*coordinationv1.Lease
		expires *coordinationv1.Lease // the renewal whose timer fires
		asked   *coordinationv1.Lease
		want    bool
	}{
		"never seen: unknown":                             {asked: lasting(0, hour)},
		"renewed a moment ago: not expired":               {seen: []*coordinationv1.Lease{lasting(0, hour)}, asked: lasting(0, hour)},
		"not renewed for the lease duration: expired":     {[]*coordinationv1.Lease{lasting(0, hour)}, lasting(0, hour), lasting(0, hour), true},
		"reported again by another watch: expired":        {[]*coordinationv1.Lease{lasting(0, hour), lasting(0, hour)}, lasting(0, hour), lasting(0, hour), true},
		"renewed since: the old timer is ignored":         {[]*coordinationv1.Lease{lasting(0, hour), lasting(10, hour)}, lasting(0, hour), lasting(10, hour), false},
		"renewed since, unseen by the watch: not expired": {[]*coordinationv1.Lease{lasting(0, hour)}, lasting(0, hour), lasting(10, hour), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var e expiry
			t.Cleanup(e.stop)
			for _, lease := range test.seen {
				e.see(lease, func() { t.Error("an hour has passed") })
			}
			if test.expires != nil {
				e.expire(renewalOf(test.expires))
			}
			if got := e.of(recordOf(test.asked)); got != test.want {
				t.Errorf("expired: %v", got)
			}
		})
	}
}

func TestExpiry_ReportsTheEndOnce(t *testing.T) {
	var e expiry
	t.Cleanup(e.stop)
	ended := make(chan struct{})
	e.see(lasting(0, 0), func() { close(ended) })
	<-ended
	if !e.of(recordOf(lasting(0, 0))) {
		t.Error("it has not expired")
	}
}

// The elector looks again after an hour, and the lease expires after a second.
func TestLead_AcquiresAnExpiredLeaseAtOnce(t *testing.T) {
	l := &leases{lease: lasting(0, 1), events: make(chan string, 1)}
	l.events <- "ADDED"
	o := election(t, l, "two")
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 3*time.Hour, 2*time.Hour, time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	led := false
	if err := Lead(ctx, o, func(context.Context) error {
		led = true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !led {
		t.Errorf("the lease went %q", l.history())
	}
}
