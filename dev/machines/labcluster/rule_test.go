package labcluster

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
)

func TestDecide(t *testing.T) {
	yes := true
	deleted := &metav1.Time{Time: time.Unix(0, 0)}
	owner := &clusterv1.Cluster{}
	pausedOwner := &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: &yes}}
	finalizers := []string{api.EndpointFinalizer}
	paused := map[string]string{clusterv1.PausedAnnotation: ""}
	external := map[string]string{clusterv1.ManagedByAnnotation: "other"}
	provisioned := api.LabClusterStatus{Initialization: api.Provisioning{Provisioned: &yes}}
	for _, c := range []struct {
		name       string
		labCluster api.LabCluster
		cluster    *clusterv1.Cluster
		want       Stage
	}{
		{"no owner yet: skipped", api.LabCluster{}, nil, Skipping},
		{"new: reserved", api.LabCluster{}, owner, Reserving},
		{"provisioned: kept", api.LabCluster{Status: provisioned}, owner, Keeping},
		{"Cluster paused: skipped", api.LabCluster{}, pausedOwner, Skipping},
		{"paused: skipped", api.LabCluster{ObjectMeta: metav1.ObjectMeta{Annotations: paused}}, owner, Skipping},
		{"externally managed: skipped", api.LabCluster{ObjectMeta: metav1.ObjectMeta{Annotations: external}}, owner, Skipping},
		{"deleted: freed", api.LabCluster{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: deleted, Finalizers: finalizers}}, owner, Freeing},
		{"deleted, Cluster is gone: freed", api.LabCluster{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: deleted, Finalizers: finalizers}}, nil, Freeing},
		{"deleted, freed before: skipped", api.LabCluster{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: deleted, Finalizers: []string{"other"}}}, owner, Skipping},
		{"deleted while paused: skipped", api.LabCluster{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: deleted, Finalizers: finalizers}}, pausedOwner, Skipping},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Decide(&c.labCluster, c.cluster); got != c.want {
				t.Errorf("stage %s, want %s", got, c.want)
			}
		})
	}
}

func TestCheckEndpoint(t *testing.T) {
	reserved := clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1234}
	for _, c := range []struct {
		name string
		has  clusterv1.APIEndpoint
		want bool
	}{
		{"none: accepted", clusterv1.APIEndpoint{}, true},
		{"the same: accepted", reserved, true},
		{"another port: refused", clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}, false},
		{"only a host: refused", clusterv1.APIEndpoint{Host: "example.com"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := CheckEndpoint(&api.LabCluster{Spec: api.LabClusterSpec{ControlPlaneEndpoint: c.has}}, reserved)
			if (err == nil) != c.want {
				t.Errorf("error %v, want accepted: %v", err, c.want)
			}
		})
	}
}
