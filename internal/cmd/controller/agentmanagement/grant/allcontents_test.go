package grant

import (
	"testing"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestAllServiceAccountsReadContents_CredentialWaitsForThatBindingOnly(t *testing.T) {
	hub := start(t, request(), cluster(), asked())
	hub.App.Env.AllReadContents = true
	handle(t, hub)
	hub.Sync()
	hub.Requests()
	hub.Woken()
	hub.Put(readersOfContents(account))
	handle(t, hub)
	expectNothingHandedOut(t, hub)
	hubtest.ExpectWoken(t, hub, "ClusterRoleBinding "+contentreaders.AllBinding+" in 100ms", kindRequest+" ws/r1 in 10s")

	hub.Put(contentreaders.DesiredForAll())
	handle(t, hub)
	expectCredential(t, hub)
}

func TestBindingForAllAppears_WakesWaitingRequests(t *testing.T) {
	granted := request(named("r2"), func(r *fleet.ClusterRegistration) { r.Status.Granted = true })
	hub := start(t, request(), granted)
	for _, account := range contentReaders(contentreaders.DesiredForAll()) {
		(&handler{app: hub.App}).enqueueRequestOfReader(account)
	}
	hubtest.ExpectWoken(t, hub, kindRequest+" ws/r1")
}
