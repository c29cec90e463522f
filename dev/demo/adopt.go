package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// errRestarted means that an agent's pod was replaced when the agent's Bundle took over the agent's release.
var errRestarted = errors.New("the agent's pod was replaced when the agent's Bundle took it over")

// adopt waits until each agent is managed by its Bundle, and fails if an agent's pod was replaced meanwhile.
func (d *demo) adopt(ctx context.Context) error {
	for i := range d.rows {
		r := &d.rows[i]
		managed, deployment, err := d.world.Managed(ctx, r.downstream(), r.cluster)
		if err != nil {
			return err
		}
		if owner := deployment.Annotations[framework.ReleaseAnnotation]; owner != names.HelmReleaseName(managed.Name) {
			return fmt.Errorf("checking the agent of %s: its Deployment belongs to Helm release %q", r.Cluster, owner)
		}
		pod, err := d.world.AgentPod(ctx, r.downstream())
		if err != nil {
			return err
		}
		if revision := deployment.Annotations[framework.RevisionAnnotation]; pod.UID != r.pod || revision != "1" {
			return fmt.Errorf("checking the agent of %s: %w: pod UID %s, then %s; Deployment revision %s", r.Cluster, errRestarted, r.pod, pod.UID, revision)
		}
		r.Agent = "managed by its Bundle, same pod"
	}
	return nil
}

// downstream returns the name of the row's control plane.
func (r *row) downstream() string {
	if r.Cluster == names.LocalCluster {
		return framework.HubName
	}
	return r.Cluster
}
