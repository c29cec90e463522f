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

// joinLocal waits until the hub has registered its own cluster. No action is needed.
func (d *demo) joinLocal(ctx context.Context) error {
	_, err := client.Until(ctx, client.Await{
		From: d.world.Hub.Kube.CoordinationV1().RESTClient(), Resource: "leases", Namespace: names.SystemNamespace, Name: names.ControllerLease,
		For: "a controller that holds the lease", Within: time.Minute,
	}, func(lease *coordinationv1.Lease) bool {
		return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	})
	if err != nil {
		return err
	}
	return d.awaitHeartbeat(ctx, joining{
		cluster: names.LocalCluster, way: "local: registered by the hub itself", namespace: framework.LocalWorkspace, since: now(),
		is: func(c *fleet.Cluster) bool { return c.Name == names.LocalCluster },
	})
}

// joinEast registers east manager-initiated: the admin gives the hub a kubeconfig of the cluster.
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

// joinWest registers west agent-initiated. One admin creates a token on the hub, the other installs the agent's
// chart with the token's values. The hub never connects to west.
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

// joining describes a cluster that is being registered.
type joining struct {
	cluster, way, namespace string
	since                   time.Time
	is                      func(*fleet.Cluster) bool
}

// awaitHeartbeat waits until the hub has recorded the cluster's first heartbeat, and adds the cluster's row.
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
