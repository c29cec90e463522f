package takeover_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// as reaches the hub with an agent's long-lived token.
func (h *hub) as(t *testing.T, a agent) *client.Client {
	t.Helper()
	token, err := h.old.token(t.Context(), a.namespace, a.request)
	if err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(h.Plane.Hub.Config())
	cfg.BearerToken = token
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// beat is a heartbeat as an old agent sends it.
func (h *hub) beat(t *testing.T, a agent) {
	t.Helper()
	value := fmt.Sprintf(`[{"op":"add","path":"/status/agent","value":{"lastSeen":%q,"namespace":%q}}]`, h.old.now.UTC().Format(time.RFC3339), names.SystemNamespace)
	err := h.as(t, a).Fleet.Patch(types.JSONPatchType).Namespace(a.workspace).Resource(client.Clusters).Name(a.cluster).SubResource("status").
		Body([]byte(value)).Do(t.Context()).Error()
	if err != nil {
		t.Errorf("the heartbeat of %s: %v", a.cluster, err)
	}
}

// works looks at an agent's BundleDeployments, and at one of its Contents, with its old token.
func (h *hub) works(t *testing.T, a agent) {
	t.Helper()
	var list fleet.BundleDeploymentList
	agent := h.as(t, a)
	if err := agent.List(t.Context(), client.BundleDeployments, a.namespace, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) == 0 {
		t.Errorf("%s has nothing to do", a.cluster)
	}
	for _, deployment := range list.Items {
		content, _, _ := strings.Cut(deployment.Spec.DeploymentID, ":")
		if err := agent.Fleet.Get().Resource("contents").Name(content).Do(t.Context()).Into(&fleet.Content{}); err != nil {
			t.Errorf("%s reads content %s: %v", a.cluster, content, err)
		}
	}
}

func (h *hub) condition(t *testing.T, a agent, kind string) (none genericcondition.GenericCondition) {
	t.Helper()
	var cluster fleet.Cluster
	if err := h.Hub.Get(t.Context(), client.Clusters, a.workspace, a.cluster, &cluster); err != nil {
		t.Fatal(err)
	}
	if found := conditions.Get(cluster.Status.Conditions, kind); found != nil {
		return *found
	}
	return none
}
