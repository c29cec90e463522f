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

// members is the ClusterGroup of all clusters that have a label env.
const members = "members"

// What the chart says where, from the customisation on.
const (
	customised = "good morning"
	common     = "hello"
)

// customise has Bundle chart go to a ClusterGroup, and greet east in another way than its other members.
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

// byGroup are a customisation for east, and the group as the target: of the targets, those that repeat the
// restrictions say where a Bundle goes, and those before them what differs there.
func byGroup() []fleet.BundleTarget {
	own := fleet.BundleTarget{Name: "greet-east", ClusterName: east}
	own.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"greeting": customised}}}
	return []fleet.BundleTarget{own, {Name: members, ClusterGroup: members}}
}

// stages are the partitions of the rollout: one cluster may be unavailable at a time, those of dev first.
func stages() *fleet.RolloutStrategy {
	one := intstr.FromInt32(1)
	partition := func(env string) fleet.Partition {
		return fleet.Partition{Name: env, ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": env}}}
	}
	return &fleet.RolloutStrategy{MaxUnavailable: &one, Partitions: []fleet.Partition{partition("dev"), partition("prod")}}
}

// rollOut changes the chart, and tells how the change goes from partition to partition.
func (d *demo) rollOut(ctx context.Context) error {
	stage, called := map[string]string{}, map[string]string{} // of each cluster, as the hub calls it
	for _, r := range d.rows {
		if env := r.cluster.Labels["env"]; r.cluster.Namespace == framework.Workspace && env != "" {
			stage[r.cluster.Name], called[r.cluster.Name] = env, r.Cluster
		}
	}
	next := chartBundle(framework.Workspace, "0.2.0")
	told := newStory(content.Manifest{Resources: next.Spec.Resources}.ID(), []string{"dev", "prod"}, stage, called)
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
	return errors.Join(<-failed, told.wrong)
}

func (d *demo) patchChart(ctx context.Context, spec map[string]any) error {
	body, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	return d.world.Hub.Patch(ctx, client.Bundles, framework.Workspace, chartName, body)
}

// errEarly means that a partition was rolled out before the one before it was ready.
var errEarly = errors.New("a cluster was told before the partition before its own was ready")

// story is a rollout as its BundleDeployments tell it, in the order in which they were written.
type story struct {
	manifestID string
	order      []string          // partitions
	of, called map[string]string // the partition of each cluster, and its name in lines
	// clusters that were seen at all, told of the change, and ready with it
	seen, told, ready map[string]bool
	wrong             error
}

func newStory(manifestID string, order []string, of, called map[string]string) *story {
	return &story{
		manifestID: manifestID, order: order, of: of, called: called,
		seen: map[string]bool{}, told: map[string]bool{}, ready: map[string]bool{},
	}
}

// see takes in one state of a BundleDeployment, and returns what is new.
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
		lines = append(lines, fmt.Sprintf("partition %s: %s is told of the change", partition, s.called[cluster]))
		for _, before := range s.order {
			if before == partition {
				break
			}
			if ready, all := s.count(before); ready < all {
				s.wrong = fmt.Errorf("%w: %s in partition %s, with %d of %d ready in %s", errEarly, s.called[cluster], partition, ready, all, before)
			}
		}
	}
	if !s.ready[cluster] && state.Of(bd) == fleet.Ready {
		s.ready[cluster] = true
		ready, all := s.count(partition)
		lines = append(lines, fmt.Sprintf("partition %s: %d of %d ready", partition, ready, all))
	}
	return lines
}

// count is how many clusters of a partition are ready, and how many there are.
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
