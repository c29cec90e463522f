package agentmanagement_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// An API server that answers 429 makes the client wait and try eleven times. Then the handler fails, and its queue
// tries again later. Both happen here.
func TestBusyServer_DelaysRegistrationsAndLosesNone(t *testing.T) {
	const (
		clusters = 5
		tries    = 11
	)
	g, hub := NewWithT(t), hub(t)
	ws := workspace(t, hub, "ws-busy")
	newToken(t, hub, ws, "t1", 0)
	holder := bearer(t, valuesOf(t, hub, ws, "t1"))
	refuse := func(resource string) *faults.Active {
		return upset.Add(faults.Rule{Match: faults.Match{Verb: "write", Resource: resource, Namespace: ws}, Fault: faults.Answer(http.StatusTooManyRequests)})
	}
	busy, others := refuse("clusters"), refuse("")
	defer busy.End()
	defer others.End()
	for i := range clusters {
		g.Expect(holder.Create(t.Context(), client.ClusterRegistrations, newRequest(ws, clientOf(i), "random", "t1"))).To(Succeed())
	}
	patient, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	g.Expect(busy.Await(patient, clusters*tries+1)).To(Succeed(), "no request used up its tries")
	g.Expect(clustersIn(t, hub, ws)).To(BeEmpty())

	busy.End()
	others.End()
	for i := range clusters {
		eventually(t, func(g Gomega) {
			_, err := secret(t.Context(), holder, registration, names.CredentialSecret(clientOf(i), "random"))
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
	g.Expect(clustersIn(t, hub, ws)).To(HaveLen(clusters), "one for each request")
}

func clientOf(i int) string { return fmt.Sprintf("busy-%d", i) }

func clustersIn(t *testing.T, hub *client.Client, workspace string) []fleet.Cluster {
	t.Helper()
	var found fleet.ClusterList
	if err := hub.List(t.Context(), client.Clusters, workspace, &found); err != nil {
		t.Fatal(err)
	}
	return found.Items
}
