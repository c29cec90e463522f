package clusterimport

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/kubetest"
	"github.com/fleet-hub/fleet/internal/rules/hubaddress"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// The life of an agent that came by itself, while the hub's CA changes.
func TestAddressUnknownToTheAgent_IsReported(t *testing.T) {
	byItself := func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "" }
	hub, _ := start(t, cluster(byItself), &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "request-1", Annotations: map[string]string{
			annotation.HubAddressAtGrant: hubaddress.Hash(hubConfig()),
		}},
		Status: fleet.ClusterRegistrationStatus{ClusterName: "c1", Granted: true},
	})
	known := func() string {
		handle(t, hub)
		hub.Sync()
		condition := conditions.Get(current(t, hub).Status.Conditions, conditions.AddressKnown)
		switch {
		case condition == nil:
			return "never in doubt"
		case condition.Reason == "":
			return string(condition.Status)
		}
		want := "run: kubectl annotate --overwrite clusters.fleet.cattle.io -n ws c1 fleet.cattle.io/hub-address=" + hubaddress.Hash(hub.App.Config.Get())
		if !strings.Contains(condition.Message, "run: fleet repair c1 -n ws.") || !strings.HasSuffix(condition.Message, want) {
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

	change(hub, func(c *config.Config) { c.APIServerCA = []byte(rulestest.OtherCA) })
	expect("with another CA", conditions.ReasonHubAddressChanged)
	hub.Requests()
	expect("looked at again", conditions.ReasonHubAddressChanged)
	expectAll(t, hub) // and written nothing

	c := current(t, hub)
	c.Annotations = map[string]string{annotation.HubAddress: hubaddress.Hash(hub.App.Config.Get())}
	hub.Put(c)
	expect("once the operator says that it was told", "True")

	change(hub, func(c *config.Config) { c.APIServerURL = "https://elsewhere" })
	expect("with another URL then", conditions.ReasonHubAddressChanged)
	change(hub, func(*config.Config) {})
	expect("with the first address again", "True")
}

func TestHubAddressChanges_EnqueuesEveryCluster(t *testing.T) {
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
		if condition := conditions.Get(current(t, hub).Status.Conditions, conditions.AddressKnown); condition != nil {
			got = string(condition.Status) + condition.Reason
		}
		if got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	expect("nothing is published", "not set")
	publish := func(serial int64) {
		hub.App.SetPublishedAddress(hubaddress.Published{Hash: hubaddress.Hash(hub.App.Config.Get()), Serial: serial})
	}
	hub.Woken()
	publish(90)
	hubtest.ExpectWoken(t, hub, "Cluster ws/c1")
	expect("the agent has a document with this address", "True")
	publish(90)
	hubtest.ExpectWoken(t, hub)
	change(hub, func(c *config.Config) { c.APIServerCA = []byte(rulestest.HubCA + rulestest.OtherCA) })
	expect("the new address is not published yet", "False"+conditions.ReasonHubAddressChanged)
	publish(110)
	expect("the agent has an older document", "False"+conditions.ReasonHubAddressChanged)
	c := current(t, hub)
	c.Status.Agent.HubSerial = 115
	hub.Put(c)
	expect("the agent has the new document", "True")
}

// A user writes another URL of the hub into the kubeconfig Secret. The controller would connect to it to find out which CA
// the agent has to trust.
func TestHubAddressInTheSecret_FollowsTheRulesForKubeconfigs(t *testing.T) {
	var connections atomic.Int32
	victim := httptest.NewUnstartedServer(http.NotFoundHandler())
	victim.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	victim.StartTLS()
	t.Cleanup(victim.Close)
	ca := kubetest.CAOf(victim)
	inSecret := func(hub *hubtest.Hub, url string) {
		secret := kubeconfig()
		secret.Data["apiServerURL"], secret.Data["apiServerCA"] = []byte(url), ca
		hub.Put(secret)
		hub.Requests()
	}
	tests := map[string]struct {
		change func(*hubtest.Hub)
		url    string
		reason string
		dials  bool
	}{
		"loopback: refused":            {func(*hubtest.Hub) {}, victim.URL, conditions.ReasonKubeconfigRefused, false},
		"metadata of a cloud: refused": {func(*hubtest.Hub) {}, "https://169.254.169.254/latest", conditions.ReasonKubeconfigRefused, false},
		"operator allows it: connected": {func(hub *hubtest.Hub) {
			change(hub, func(c *config.Config) { c.AllowLocalKubeconfigs = true })
		}, victim.URL, "", true},
		"operator configures the same URL: connected": {func(hub *hubtest.Hub) {
			change(hub, func(c *config.Config) { c.APIServerURL = victim.URL })
		}, victim.URL, "", true},
		"mode strict: not connected": {func(hub *hubtest.Hub) {
			change(hub, func(c *config.Config) { c.AgentTLSMode = config.TLSModeStrict })
		}, victim.URL, "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			connections.Store(0)
			hub, behind := imported(t)
			hub.Put(agentBundle())
			handle(t, hub)
			test.change(hub)
			inSecret(hub, test.url)
			work(t, hub)
			expectImported(t, hub, test.reason)
			if n := connections.Load(); (n > 0) != test.dials {
				t.Errorf("%d connections", n)
			}
			stored := string(behind.there[0].(*corev1.Secret).Data["kubeconfig"])
			if test.reason == "" {
				if stored != storedKubeconfig(test.url, string(ca)) {
					t.Errorf("the agent has %s", stored)
				}
				return
			}
			if stored != storedKubeconfig("https://hub", rulestest.HubCA) {
				t.Errorf("the agent has another address: %s", stored)
			}
			message := conditions.Get(current(t, hub).Status.Conditions, conditions.Imported).Message
			for _, part := range []string{"Secret", "apiServerURL", "allowLocalKubeconfigs"} {
				if !strings.Contains(message, part) {
					t.Errorf("the message does not name %s: %s", part, message)
				}
			}
		})
	}
}
