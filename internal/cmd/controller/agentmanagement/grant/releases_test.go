package grant

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// Agents of earlier releases, and of Rancher Fleet, send less in their requests and heartbeats.
func TestAgentOfAnyRelease_RegistersAndItsCredentialIsDeleted(t *testing.T) {
	type release struct{ hasKey, renews, namesItsAccount, hasTicket bool }
	for name, agent := range map[string]release{
		"agent of Rancher Fleet":      {},
		"heartbeats name the account": {namesItsAccount: true},
		"renews its token":            {renews: true, namesItsAccount: true},
		"has a key":                   {hasKey: true, renews: true, namesItsAccount: true},
		"reports its ticket":          {hasKey: true, renews: true, namesItsAccount: true, hasTicket: true},
	} {
		t.Run(name, func(t *testing.T) {
			asks, key := request(), ""
			if agent.hasKey {
				asks, key = signed(t, "u-import")
			}
			if agent.renews {
				metav1.SetMetaDataAnnotation(&asks.ObjectMeta, annotation.AgentRenews, "true")
			}
			hub := start(t, asks, cluster(), asked(), importAccount())
			settle(t, hub, 2)
			hub.Put(cluster(seen(hub.Now().Add(time.Second)), func(c *fleet.Cluster) {
				if agent.namesItsAccount {
					spoke(string(hubtest.MustGet[*corev1.ServiceAccount](t, hub, clusterNamespace, account).UID))(c)
				}
				if agent.hasTicket {
					c.Status.Agent.RecoveryKey, c.Status.Agent.RecoveryTicket = key, "ticket"
				}
			}))
			handle(t, hub)
			if err := endCredential(hub); err != nil {
				t.Fatal(err)
			}
			expectAnswerGone(t, hub)
			catchUp(t, hub)
			settle(t, hub, 1)
			hub.Requests()
			settle(t, hub, 1)
			expectRequests(t, hub)
			if !current(t, hub).Status.Granted {
				t.Errorf("status %+v", current(t, hub).Status)
			}
		})
	}
}
