package clusterimport

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controllers "github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/hubaddress"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The life of an agent that came by itself, while the hub's CA changes.
func TestAddressUnknownToTheAgent_IsReported(t *testing.T) {
	byItself := func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "" }
	hub, _ := start(t, cluster(byItself), &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "request-1", Annotations: map[string]string{
			fleet.AnnotationHubAddressAtGrant: hubaddress.Hash(hubConfig()),
		}},
		Status: fleet.ClusterRegistrationStatus{ClusterName: "c1", Granted: true},
	})
	known := func() string {
		handle(t, hub)
		hub.Sync()
		condition := fleet.GetCondition(current(t, hub).Status.Conditions, fleet.ConditionAddressKnown)
		switch {
		case condition == nil:
			return "never in doubt"
		case condition.Reason == "":
			return string(condition.Status)
		}
		if !strings.Contains(condition.Message, hubaddress.Hash(hub.App.Config.Get())) {
			t.Errorf("the message does not say with what to confirm: %s", condition.Message)
		}
		return condition.Reason
	}
	expect := func(when, want string) {
		t.Helper()
		if got := known(); got != want {
			t.Errorf("%s: %s; want %s", when, got, want)
		}
	}
	expect("as it was granted", "never in doubt")

	change(hub, func(c *config.Config) { c.APIServerCA = []byte("another") })
	expect("with another CA", fleet.ReasonHubAddressChanged)
	hub.Requests()
	expect("looked at again", fleet.ReasonHubAddressChanged)
	expectAll(t, hub) // and written nothing

	c := current(t, hub)
	c.Annotations = map[string]string{fleet.AnnotationHubAddress: hubaddress.Hash(hub.App.Config.Get())}
	hub.Put(c)
	expect("once the operator says that it was told", "True")

	change(hub, func(c *config.Config) { c.APIServerURL = "https://elsewhere" })
	expect("with another URL then", fleet.ReasonHubAddressChanged)
	change(hub, func(*config.Config) {})
	expect("with the first address again", "True")
}

func TestAnotherAddressWakesEveryCluster(t *testing.T) {
	hub, _ := start(t, cluster(func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "" }))
	c := hubConfig()
	c.AgentImage = "another"
	hub.App.Config.Set(c)
	hubtest.ExpectWoken(t, hub) // concerns imported ones
	c.APIServerURL = "https://elsewhere"
	hub.App.Config.Set(c)
	hubtest.ExpectWoken(t, hub, "Cluster ws/c1")
}

// A planned change of the hub's address, for an agent that reads the hub document.
func TestAddressInTheHubDocument_IsKnownOnceTheAgentHasTheDocument(t *testing.T) {
	hub, _ := start(t, cluster(func(c *fleet.Cluster) { c.Spec.KubeConfigSecret, c.Status.Agent.HubSerial = "", 100 }))
	expect := func(when, want string) {
		t.Helper()
		handle(t, hub)
		hub.Sync()
		got := "not set"
		if condition := fleet.GetCondition(current(t, hub).Status.Conditions, fleet.ConditionAddressKnown); condition != nil {
			got = string(condition.Status) + condition.Reason
		}
		if got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	expect("nothing is published", "not set")
	publish := func(serial int64) {
		hub.App.SetPublishedAddress(controllers.PublishedAddress{Hash: hubaddress.Hash(hub.App.Config.Get()), Serial: serial})
	}
	hub.Woken()
	publish(90)
	hubtest.ExpectWoken(t, hub, "Cluster ws/c1")
	expect("the agent has a document with this address", "True")
	publish(90)
	hubtest.ExpectWoken(t, hub)
	change(hub, func(c *config.Config) { c.APIServerCA = []byte("both") })
	expect("the new address is not published yet", "False"+fleet.ReasonHubAddressChanged)
	publish(110)
	expect("the agent has an older document", "False"+fleet.ReasonHubAddressChanged)
	c := current(t, hub)
	c.Status.Agent.HubSerial = 115
	hub.Put(c)
	expect("the agent has the new document", "True")
}
