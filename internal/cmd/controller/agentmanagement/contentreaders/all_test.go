package contentreaders

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
)

func handleAll(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	if err := hub.Handle(kind, contentreaders.AllBinding); err != nil {
		t.Fatal(err)
	}
}

func TestAllServiceAccounts_ReplaceTheSharedBindingsWithoutAGap(t *testing.T) {
	hub := start(t, cluster(), request("r1"), account("r1"), binding("r1"))
	hub.App.Env.AllReadContents = true
	handle(t, hub)
	hubtest.ExpectRequests(t, hub) // it stays until the other one is in force
	hubtest.ExpectWoken(t, hub, kind+" "+contentreaders.AllBinding)

	handleAll(t, hub)
	hubtest.ExpectRequests(t, hub, "create "+kind+" "+contentreaders.AllBinding)
	hub.Sync()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "delete "+kind+" "+shared)
	hub.Sync()
	handle(t, hub)
	handleAll(t, hub)
	hubtest.ExpectRequests(t, hub)
	got := hubtest.MustGet[*rbacv1.ClusterRoleBinding](t, hub, "", contentreaders.AllBinding)
	if len(got.Subjects) != 1 || got.Subjects[0].Kind != "Group" || got.Subjects[0].Name != "system:serviceaccounts" {
		t.Errorf("subjects %v", got.Subjects)
	}
}

func TestAgentsOnly_TheBindingForAllGoesLast(t *testing.T) {
	hub := start(t, cluster(), request("r1"), request("r2"), account("r1"), account("r2"), binding("r1"), contentreaders.DesiredForAll())
	handleAll(t, hub)
	hubtest.ExpectRequests(t, hub) // one account would lose its right
	hubtest.ExpectWoken(t, hub, kind+" "+shared)

	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "patch "+kind+" "+shared)
	hubtest.ExpectWoken(t, hub, kind+" "+contentreaders.AllBinding)
	hub.Sync()
	handleAll(t, hub)
	hubtest.ExpectRequests(t, hub, "delete "+kind+" "+contentreaders.AllBinding)
	hub.Sync()
	hub.Woken()
	handleAll(t, hub)
	handle(t, hub)
	hubtest.ExpectRequests(t, hub)
	hubtest.ExpectWoken(t, hub)
}

func TestBindingForAll_IsHealed(t *testing.T) {
	widened := contentreaders.DesiredForAll()
	widened.Subjects = append(widened.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:unauthenticated"})
	hub := start(t, widened)
	hub.App.Env.AllReadContents = true
	handleAll(t, hub)
	hubtest.ExpectRequests(t, hub, "patch "+kind+" "+contentreaders.AllBinding)
}
