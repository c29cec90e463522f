package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// errRestarted means that taking itself over has cost an agent its pod.
var errRestarted = errors.New("the agent was restarted when it took itself over")

// adopt waits until each agent is managed by its Bundle, and looks whether it is the same pod still.
func (d *demo) adopt(ctx context.Context) error {
	for i := range d.rows {
		r := &d.rows[i]
		managed, deployment, err := d.world.Managed(ctx, r.downstream(), r.cluster)
		if err != nil {
			return err
		}
		if owner := deployment.Annotations[framework.ReleaseAnnotation]; owner != names.HelmReleaseName(managed.Name) {
			return fmt.Errorf("the agent of %s belongs to release %q", r.Cluster, owner)
		}
		pod, err := d.world.AgentPod(ctx, r.downstream())
		if err != nil {
			return err
		}
		if revision := deployment.Annotations[framework.RevisionAnnotation]; pod.UID != r.pod || revision != "1" {
			return fmt.Errorf("%s: %w: pod %s, then %s; pod template %s", r.Cluster, errRestarted, r.pod, pod.UID, revision)
		}
		r.Agent = "managed by its Bundle, same pod"
	}
	return nil
}

// downstream is the name of the control plane that the row's Cluster is about.
func (r *row) downstream() string {
	if r.Cluster == names.LocalCluster {
		return framework.HubName
	}
	return r.Cluster
}
