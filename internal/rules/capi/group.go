package capi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// GroupStage is what the hub does about the ClusterGroup of a ClusterClass.
type GroupStage string

const (
	// GroupFine means that there is nothing to do.
	GroupFine GroupStage = "Fine"
	// GroupMissing means that the ClusterGroup is created.
	GroupMissing GroupStage = "Missing"
	// GroupChanged means that it selects other Clusters than those of the ClusterClass, which is corrected.
	GroupChanged GroupStage = "Changed"
	// GroupUnused means that it is deleted.
	GroupUnused GroupStage = "Unused"
	// GroupTaken means that a user created one with the name. It is not changed.
	GroupTaken GroupStage = "Taken"
)

// DecideGroup returns what the hub does about the ClusterGroup of a ClusterClass, which may be nil. inUse means that there
// are Clusters of the ClusterClass.
func DecideGroup(inUse bool, group *fleet.ClusterGroup) GroupStage {
	switch {
	case group == nil && inUse:
		return GroupMissing
	case group == nil || group.DeletionTimestamp != nil:
		return GroupFine // its end is an event
	case !IsGroupOfClass(group) && inUse:
		return GroupTaken
	case !IsGroupOfClass(group):
		return GroupFine
	case !inUse:
		return GroupUnused
	case !selectsClass(group):
		return GroupChanged
	}
	return GroupFine
}

// ClassOf returns the ID of the ClusterClass that a Cluster of Fleet uses, or "". Only the hub's own Clusters count.
func ClassOf(cluster *fleet.Cluster) string {
	if !IsMarked(cluster) || cluster.DeletionTimestamp != nil {
		return ""
	}
	return cluster.Labels[fleet.LabelCAPIClass]
}

// NewGroup returns the ClusterGroup to create for a ClusterClass.
func NewGroup(workspace, id string) *fleet.ClusterGroup {
	created := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: workspace, Name: id, Labels: map[string]string{fleet.LabelCAPIClass: id},
	}}
	SelectClass(created)
	return created
}

// IsGroupOfClass reports whether the hub created a ClusterGroup for a ClusterClass.
func IsGroupOfClass(group *fleet.ClusterGroup) bool {
	return group.Labels[fleet.LabelCAPIClass] == group.Name
}

// SelectClass makes a ClusterGroup select the Clusters of its ClusterClass.
func SelectClass(group *fleet.ClusterGroup) {
	group.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{fleet.LabelCAPIClass: group.Name}}
}

func selectsClass(group *fleet.ClusterGroup) bool {
	selector := group.Spec.Selector
	return selector != nil && len(selector.MatchExpressions) == 0 && len(selector.MatchLabels) == 1 &&
		selector.MatchLabels[fleet.LabelCAPIClass] == group.Name
}
