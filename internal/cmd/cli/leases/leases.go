// Package leases judges the Leases of the hub's controllers: is a process active?
//
//	Lease, current time ─► Of ─► Lease (holder, renewed, active)
package leases

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// skew is the tolerated difference between the clocks of this machine and of the hub.
	skew = time.Minute
	// defaultDuration is the duration of a Lease that does not name one.
	defaultDuration = 45 * time.Second
)

// Lease is a Lease of the hub's controllers.
type Lease struct {
	Name    string            `json:"name"`
	Holder  string            `json:"holder,omitempty"`
	Renewed *metav1.MicroTime `json:"renewed,omitempty"`
	// Active means that the holder has renewed the Lease in time.
	Active bool `json:"active"`
}

// Of returns what is known of a Lease.
func Of(lease *coordinationv1.Lease, now time.Time) Lease {
	result := Lease{Name: lease.Name, Renewed: lease.Spec.RenewTime}
	if lease.Spec.HolderIdentity != nil {
		result.Holder = *lease.Spec.HolderIdentity
	}
	life := defaultDuration
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil {
		life = time.Duration(*seconds) * time.Second
	}
	result.Active = result.Holder != "" && result.Renewed != nil && now.Sub(result.Renewed.Time) < life+skew
	return result
}
