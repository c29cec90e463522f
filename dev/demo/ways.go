package main

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// joinLocal waits for the hub's own cluster: nobody does anything for it.
func (d *demo) joinLocal(ctx context.Context) error {
	_, err := client.Until(ctx, client.Await{
		From: d.world.Hub.Kube.CoordinationV1().RESTClient(), Resource: "leases", Namespace: names.SystemNamespace, Name: names.ControllerLease,
		For: "a controller that leads", Within: time.Minute,
	}, func(lease *coordinationv1.Lease) bool {
		return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	})
	if err != nil {
		return err
	}
	return d.awaitHeartbeat(ctx, joining{
		cluster: names.LocalCluster, way: "local: the hub registers itself", namespace: framework.LocalWorkspace, since: now(),
		is: func(c *fleet.Cluster) bool { return c.Name == names.LocalCluster },
	})
}

// joinEast does what an admin does who has a kubeconfig of the cluster.
func (d *demo) joinEast(ctx context.Context) error {
	since := now()
	if err := d.world.Import(ctx, east, map[string]string{"env": "dev"}); err != nil {
		return err
	}
	return d.awaitHeartbeat(ctx, joining{
		cluster: east, way: "manager-initiated: a kubeconfig Secret", namespace: framework.Workspace, since: since,
		is: func(c *fleet.Cluster) bool { return c.Name == east },
	})
}

// joinWest does what two admins do: one makes a token on the hub, the other installs the agent's chart
// with the token's values. The hub never reaches west.
func (d *demo) joinWest(ctx context.Context) error {
	values, err := d.world.TokenValues(ctx, west)
	if err != nil {
		return err
	}
	values["labels"] = map[string]any{"env": "prod"}
	since := now()
	if err := d.world.InstallAgent(ctx, west, values); err != nil {
		return err
	}
	return d.awaitHeartbeat(ctx, joining{
		cluster: west, way: "agent-initiated: helm install fleet-agent", namespace: framework.Workspace, since: since,
		is: func(c *fleet.Cluster) bool { return c.Name != east },
	})
}

// joining is a cluster on its way in.
type joining struct {
	cluster, way, namespace string
	since                   time.Time
	is                      func(*fleet.Cluster) bool
}

// awaitHeartbeat waits until the hub has accepted a heartbeat of the cluster, and adds its row.
func (d *demo) awaitHeartbeat(ctx context.Context, j joining) error {
	cluster, err := client.Until(ctx, client.Await{
		From: d.world.Hub.Fleet, Resource: client.Clusters, Namespace: j.namespace, For: "the first heartbeat of " + j.cluster, Within: 2 * time.Minute,
	}, func(c *fleet.Cluster) bool { return j.is(c) && !c.Status.Agent.LastSeen.IsZero() })
	if err != nil {
		return err
	}
	joined := row{Cluster: j.cluster, WayIn: j.way, Seconds: now().Sub(j.since).Seconds(), cluster: cluster}
	pod, err := d.world.AgentPod(ctx, joined.downstream())
	if err != nil {
		return err
	}
	joined.pod = pod.UID
	d.rows = append(d.rows, joined)
	return nil
}

func now() time.Time { return time.Now() } //nolint:forbidigo // the demo's one clock: it measures real time
