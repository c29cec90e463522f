package controller_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// leases are those of a hub, whichever implementation runs it.
func leases() []string {
	return []string{names.CleanupLease, names.DeliveryLease, names.ControllerLease}
}

// TestOldController_EndsBeforeOursWorks has each of the three processes of the other implementation go on for a
// while, as in a rolling upgrade.
func TestOldController_EndsBeforeOursWorks(t *testing.T) {
	hub := hub(t)
	held := hub.Kube.CoordinationV1().Leases(system)
	for _, name := range leases() {
		t.Run(name, func(t *testing.T) {
			if code := leading.stop(); code != 0 {
				t.Fatalf("exit code %d\n%s", code, leading.Log())
			}
			for _, other := range leases() {
				expectHolder(t, other, "")
			}
			lease, err := held.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			old, hour, now := "fleet-controller-77cdf5ff7-w9xd4", int32(3600), metav1.NewMicroTime(time.Now())
			lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &old, LeaseDurationSeconds: &hour, AcquireTime: &now, RenewTime: &now}
			if lease, err = held.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}

			leading = start(t, must(t)(installed()))
			if err := leading.awaitReady("standing by"); err != nil {
				t.Fatal(err)
			}
			lease.Spec.HolderIdentity = new(string)
			if _, err := held.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := leading.awaitReady("leading"); err != nil {
				t.Fatal(err)
			}
			for _, other := range leases() {
				expectHolder(t, other, t.Name())
			}
			expectWork(t, hub)
		})
	}
}

// expectHolder looks at who holds a lease; the names of our processes begin with their tests'.
func expectHolder(t *testing.T, name, holder string) {
	t.Helper()
	found, err := administrator(t, control.Plane(t).Hub.Config()).Kube.CoordinationV1().Leases(system).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && holder == "" {
		return
	}
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	identity := ""
	if found.Spec.HolderIdentity != nil {
		identity = *found.Spec.HolderIdentity
	}
	if holder == "" && identity != "" || holder != "" && len(identity) <= len(holder) || holder != "" && identity[:len(holder)] != holder {
		t.Errorf("lease %s is held by %q, want %q", name, identity, holder)
	}
}
