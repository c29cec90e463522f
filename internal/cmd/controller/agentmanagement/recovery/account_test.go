package recovery

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// wider returns the Role of the recovery account with one more verb.
func wider(t *testing.T, hub *hubtest.Hub) *rbacv1.Role {
	t.Helper()
	role := hubtest.MustGet[*rbacv1.Role](t, hub, "ws", names.Recovery)
	role.Rules[0].Verbs = append(role.Rules[0].Verbs, "list")
	return role
}

// A Role with other rights and the old version shows whether objects were compared: only a comparison repairs it.
func TestUnchangedVersions_SkipTheComparison(t *testing.T) {
	hub := settled(t, cluster(), cluster(func(c *fleet.Cluster) { c.Name, c.UID = "c2", "u-c2" }))
	handle(t, hub)
	hub.Requests()
	hub.See(wider(t, hub))
	for _, key := range []string{"ws/c1", "ws/c2"} {
		if err := hub.Handle("Cluster", key); err != nil {
			t.Fatal(err)
		}
	}
	hubtest.ExpectRequests(t, hub)
}

func TestChangeByAnotherClient_IsRepaired(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*testing.T, *hubtest.Hub)
		want   []string
	}{
		"the Role has more rights": {func(t *testing.T, hub *hubtest.Hub) { hub.Put(wider(t, hub)) }, []string{"patch Role ws/fleet-recovery"}},
		"the RoleBinding has another subject": {func(t *testing.T, hub *hubtest.Hub) {
			binding := hubtest.MustGet[*rbacv1.RoleBinding](t, hub, "ws", names.Recovery)
			binding.Subjects[0].Name = "another"
			hub.Put(binding)
		}, []string{"patch RoleBinding ws/fleet-recovery"}},
		"the account has no owner": {func(t *testing.T, hub *hubtest.Hub) {
			account := hubtest.MustGet[*corev1.ServiceAccount](t, hub, "ws", names.Recovery)
			account.OwnerReferences = nil
			hub.Put(account)
		}, []string{"patch ServiceAccount ws/fleet-recovery"}},
		"the Role was deleted": {func(t *testing.T, hub *hubtest.Hub) {
			hub.Remove(hubtest.MustGet[*rbacv1.Role](t, hub, "ws", names.Recovery))
		}, []string{"create Role ws/fleet-recovery"}},
		"the workspace was created again": {func(_ *testing.T, hub *hubtest.Hub) {
			hub.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ws", UID: "u-ws-2"}})
		}, []string{"patch ServiceAccount ws/fleet-recovery", "patch Role ws/fleet-recovery", "patch RoleBinding ws/fleet-recovery"}},
	} {
		t.Run(name, func(t *testing.T) {
			hub := settled(t, cluster())
			handle(t, hub)
			hub.Requests()
			test.change(t, hub)
			handle(t, hub)
			hubtest.ExpectRequests(t, hub, test.want...)
			hub.Sync()
			handle(t, hub)
			hubtest.ExpectRequests(t, hub)
		})
	}
}

// The hub replaces an account whose token the API server rejects. Then no agent reports, so that nothing else enqueues a
// Cluster.
func TestDeletedAccount_EnqueuesAClusterThatCreatesItAgain(t *testing.T) {
	hub := settled(t, cluster())
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		hub.Put(cluster(func(c *fleet.Cluster) {
			c.Name, c.UID, c.Labels = name, types.UID("u-"+name), map[string]string{fleet.LabelClusterManagement: "another"}
		}))
	}
	hub.Remove(hubtest.MustGet[*corev1.ServiceAccount](t, hub, "ws", names.Recovery))
	(&handler{app: hub.App}).enqueueOne(types.NamespacedName{Name: "ws"})
	hubtest.ExpectWoken(t, hub, "Cluster ws/c1")
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "create ServiceAccount ws/fleet-recovery")
}
