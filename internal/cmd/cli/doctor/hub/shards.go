package hub

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/leases"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// checkShards finds objects with the label of a shard that has no active controller. No other controller reconciles them, so
// nothing else reports them.
func checkShards(f *Facts) (rows []check.Row) {
	add := func(kind, resource, effect string, object metav1.Object) {
		shard := object.GetLabels()[fleet.LabelShardRef]
		if shard == "" || f.shardRuns(shard) {
			return
		}
		cause := fmt.Sprintf("label %s names shard %s, which has no active controller: %s", fleet.LabelShardRef, shard, effect)
		rows = check.Group(rows, kind+"/"+shard, check.Fail(check.OfFleet(kind, object), cause, f.fixShard(shard, resource, object)))
	}
	for _, bundle := range f.Bundles {
		add("Bundle", "bundles", "the Bundle is not delivered, and its deletion waits", bundle)
	}
	for _, cluster := range f.Clusters {
		add("Cluster", "clusters", "the summary of its Bundles is not updated", cluster)
	}
	for _, group := range f.Groups {
		add("ClusterGroup", "clustergroups", "its summary is not updated", group)
	}
	return rows
}

// shardRuns reports whether a controller of a shard is active.
func (f *Facts) shardRuns(shard string) bool {
	return slices.ContainsFunc(f.Leases, func(l *coordinationv1.Lease) bool {
		return l.Name == names.ShardLease(shard) && leases.Of(l, f.Now).Active
	})
}

// fixShard returns the command that shows the pods of a shard that the chart has installed. Without such a shard, it removes the
// label, so that the controllers without a shard reconcile the object.
func (f *Facts) fixShard(shard, resource string, object metav1.Object) string {
	name := names.ControllerConfig + "-shard-" + shard
	if slices.ContainsFunc(f.Deployments, func(d *appsv1.Deployment) bool { return d.Name == name }) {
		return remedy.Command("kubectl", "describe", "pods", "-n", f.System, "-l", "app="+name)
	}
	return remedy.Command("kubectl", "label", resource+"."+fleet.GroupName, "-n", object.GetNamespace(), object.GetName(), fleet.LabelShardRef+"-")
}
