package main

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/transcript"
	"github.com/fleet-hub/fleet/internal/protocol/names"
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
	return d.awaitHeartbeat(ctx, framework.LocalWorkspace, row{Cluster: names.LocalCluster, WayIn: "local: registered by the hub itself", since: now()})
}

// joinEast registers east manager-initiated: the hub gets the token of a service account on the cluster.
func (d *demo) joinEast(ctx context.Context) error {
	since := now()
	if _, err := d.commands.run(ctx, "", fleetProgram, "import", east, "--cluster-context", east, "--label", "env=dev"); err != nil {
		return err
	}
	return d.awaitHeartbeat(ctx, framework.Workspace, row{Cluster: east, WayIn: "manager-initiated: fleet import", since: since})
}

// joinWest registers west agent-initiated. One admin creates a token on the hub, the other one pastes the command that was
// printed. The hub never connects to west.
func (d *demo) joinWest(ctx context.Context) error {
	created, err := d.commands.run(ctx, "", fleetProgram, "token", "create", west, "--cluster", west, "--label", "env=prod")
	if err != nil {
		return err
	}
	text, err := transcript.JoinText(created)
	if err != nil {
		return err
	}
	since := now()
	if _, err := d.commands.run(ctx, text, fleetProgram, "join", "--context", west); err != nil {
		return err
	}
	return d.awaitHeartbeat(ctx, framework.Workspace, row{Cluster: west, WayIn: "agent-initiated: fleet join", since: since})
}

// awaitHeartbeat waits until the hub has recorded the cluster's first heartbeat, and adds the cluster's row.
func (d *demo) awaitHeartbeat(ctx context.Context, workspace string, joined row) (err error) {
	if joined.cluster, err = d.world.Joined(ctx, workspace, joined.Cluster, framework.Named(joined.Cluster)); err != nil {
		return err
	}
	joined.Seconds = now().Sub(joined.since).Seconds()
	pod, err := d.world.AgentPod(ctx, joined.downstream())
	if err != nil {
		return err
	}
	joined.pod = pod.UID
	d.rows = append(d.rows, joined)
	return nil
}

func now() time.Time { return time.Now() } //nolint:forbidigo // the demo's one clock: it measures real time
