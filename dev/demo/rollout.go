package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// members is the name of the ClusterGroup that selects all clusters with a label env.
const members = "members"

// The greetings of Bundle chart: customised on cluster east, common on all others.
const (
	customised = "good morning"
	common     = "hello"
)

// customise targets Bundle chart at a ClusterGroup and sets another greeting for cluster east.
func (d *demo) customise(ctx context.Context) error {
	group := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: framework.Workspace, Name: members}}
	group.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpExists}}}
	if err := d.world.Hub.Create(ctx, client.ClusterGroups, group); err != nil {
		return err
	}
	if err := d.patchChart(ctx, map[string]any{"targets": byGroup(), "targetRestrictions": []fleet.BundleTargetRestriction{{ClusterGroup: members}}}); err != nil {
		return err
	}
	for cluster, greeting := range map[string]string{east: customised, west: common} {
		_, err := d.world.ConfigMap(ctx, cluster, "demo-chart", "greeting", func(c *corev1.ConfigMap) bool { return c.Data["greeting"] == greeting })
		if err != nil {
			return err
		}
	}
	return nil
}

// byGroup returns two targets: a customisation for east, and the group. A target that repeats a restriction
// selects clusters. The targets before it only customise.
func byGroup() []fleet.BundleTarget {
	own := fleet.BundleTarget{Name: "greet-east", ClusterName: east}
	own.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"greeting": customised}}}
	return []fleet.BundleTarget{own, {Name: members, ClusterGroup: members}}
}

// stages returns a rollout strategy with two partitions, dev before prod, and at most one unavailable cluster.
func stages() *fleet.RolloutStrategy {
	one := intstr.FromInt32(1)
	partition := func(env string) fleet.Partition {
		return fleet.Partition{Name: env, ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": env}}}
	}
	return &fleet.RolloutStrategy{MaxUnavailable: &one, Partitions: []fleet.Partition{partition("dev"), partition("prod")}}
}

// rollOut changes the chart, reports the progress of each partition, and waits until all Clusters are ready.
func (d *demo) rollOut(ctx context.Context) error {
	stage := map[string]string{} // the partition of each Cluster
	for _, r := range d.rows {
		if env := r.cluster.Labels["env"]; r.cluster.Namespace == framework.Workspace && env != "" {
			stage[r.Cluster] = env
		}
	}
	next := chartBundle(framework.Workspace, "0.2.0")
	told := newStory(content.Manifest{Resources: next.Spec.Resources}.ID(), []string{"dev", "prod"}, stage)
	failed, watching := make(chan error, 1), make(chan struct{})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, err := client.Until(ctx, client.Await{
			From: d.world.Hub.Fleet, Resource: client.BundleDeployments, For: "the end of the rollout", Within: time.Minute,
		}, func(bd *fleet.BundleDeployment) bool {
			first := !told.begun()
			for _, line := range told.see(bd) {
				d.report.note("%s", line)
			}
			if first && told.begun() {
				close(watching)
			}
			return told.over()
		})
		failed <- err
	}()
	select {
	case <-watching:
	case err := <-failed:
		return err
	}
	if err := d.patchChart(ctx, map[string]any{"resources": next.Spec.Resources, "rolloutStrategy": stages()}); err != nil {
		return err
	}
	if err := errors.Join(<-failed, told.wrong); err != nil {
		return err
	}
	return d.clustersReady(ctx)
}

// clustersReady waits until the hub has counted the bundles of each Cluster as ready, which is a little later than each bundle is.
func (d *demo) clustersReady(ctx context.Context) error {
	for _, r := range d.rows {
		if _, err := d.world.Ready(ctx, r.cluster, 2); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) patchChart(ctx context.Context, spec map[string]any) error {
	body, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	return d.world.Hub.Patch(ctx, client.Bundles, framework.Workspace, chartName, body)
}

// errEarly means that a cluster got the change before all clusters of the earlier partitions were ready.
var errEarly = errors.New("a cluster got the change before the earlier partitions were ready")

// story tracks a rollout by the states of its BundleDeployments, in the order in which they were written.
type story struct {
	manifestID string
	order      []string          // partitions, in rollout order
	of         map[string]string // the partition of each Cluster
	// Clusters with a known BundleDeployment, with the change in its spec, and with the change ready.
	seen, told, ready map[string]bool
	wrong             error
}

func newStory(manifestID string, order []string, of map[string]string) *story {
	return &story{
		manifestID: manifestID, order: order, of: of,
		seen: map[string]bool{}, told: map[string]bool{}, ready: map[string]bool{},
	}
}

// see records one state of a BundleDeployment and returns the lines to print for it.
func (s *story) see(bd *fleet.BundleDeployment) (lines []string) {
	cluster := bd.Labels[fleet.LabelCluster]
	partition, ours := s.of[cluster]
	if !ours || bd.Labels[fleet.LabelBundleName] != chartName {
		return nil
	}
	s.seen[cluster] = true
	if id, _ := content.SplitDeploymentID(bd.Spec.DeploymentID); id != s.manifestID {
		return nil
	}
	if !s.told[cluster] {
		s.told[cluster] = true
		lines = append(lines, fmt.Sprintf("partition %s: %s gets the change", partition, cluster))
		for _, before := range s.order {
			if before == partition {
				break
			}
			if ready, all := s.count(before); ready < all {
				s.wrong = fmt.Errorf("%w: cluster %s of partition %s, while %d of %d clusters of partition %s were ready", errEarly, cluster, partition, ready, all, before)
			}
		}
	}
	if !s.ready[cluster] && state.Of(bd) == fleet.Ready {
		s.ready[cluster] = true
		ready, all := s.count(partition)
		lines = append(lines, fmt.Sprintf("partition %s: %d of %d clusters ready", partition, ready, all))
	}
	return lines
}

// count returns how many clusters of a partition are ready, and how many clusters it has.
func (s *story) count(partition string) (ready, all int) {
	for cluster, in := range maps.All(s.of) {
		if in == partition {
			all++
			if s.ready[cluster] {
				ready++
			}
		}
	}
	return ready, all
}

func (s *story) begun() bool { return len(s.seen) == len(s.of) }

func (s *story) over() bool { return s.wrong != nil || len(s.ready) == len(s.of) }
