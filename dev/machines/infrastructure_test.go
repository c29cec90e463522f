package machines_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/labmachine"
)

// quick is the bootstrap data of a machine without Node.
const quick = "#cloud-config\nruncmd:\n- mkdir -p run/cluster-api && touch run/cluster-api/bootstrap-success.complete\n"

// given is a Cluster with infrastructure and one Machine, whose bootstrap data the test provides.
type given struct {
	*rig
	namespace string
}

func newGiven(t *testing.T) *given {
	t.Helper()
	g := &given{rig: newRig(t)}
	made, err := g.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "machines-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	g.namespace = made.Name
	return g
}

func (g *given) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: g.namespace, Name: name}
}

func (g *given) cluster() *clusterv1.Cluster { return &clusterv1.Cluster{ObjectMeta: g.meta("c")} }

func (g *given) labCluster() *api.LabCluster { return &api.LabCluster{ObjectMeta: g.meta("c")} }

func (g *given) machine() *clusterv1.Machine { return &clusterv1.Machine{ObjectMeta: g.meta("m")} }

func (g *given) labMachine() *api.LabMachine { return &api.LabMachine{ObjectMeta: g.meta("m")} }

func reference(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: api.GroupVersion().Group, Kind: kind, Name: name}
}

// createAll creates the Cluster and the Machine.
func (g *given) createAll(t *testing.T, data string) {
	t.Helper()
	g.writeData(t, data)
	cluster, machine, secret := g.cluster(), g.machine(), "m-data"
	cluster.Spec.InfrastructureRef = reference("LabCluster", "c")
	machine.Spec = clusterv1.MachineSpec{ClusterName: "c", InfrastructureRef: reference("LabMachine", "m"), Bootstrap: clusterv1.Bootstrap{DataSecretName: &secret}}
	g.create(t, g.labCluster(), cluster, g.labMachine(), machine)
}

func (g *given) writeData(t *testing.T, data string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: g.meta("m-data"), Data: map[string][]byte{"value": []byte(data)}}
	secrets := g.kube.CoreV1().Secrets(g.namespace)
	_, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (g *given) awaitProvisioned(t *testing.T) {
	t.Helper()
	eventually(t, "the core's view of the Machine's infrastructure", func(ctx context.Context) error {
		machine, lab := g.machine(), g.labMachine()
		if err := g.get(ctx, t, machine); err != nil {
			return err
		}
		if err := g.get(ctx, t, lab); err != nil {
			return err
		}
		provisioned := machine.Status.Initialization.InfrastructureProvisioned
		if provisioned == nil || !*provisioned || machine.Spec.ProviderID == "" || machine.Spec.ProviderID != lab.Spec.ProviderID || len(machine.Status.Addresses) != 1 {
			return notYet("Machine", fmt.Sprintf("%+v; LabMachine %+v", machine.Status.Conditions, lab.Status.Conditions))
		}
		return nil
	})
}

func (g *given) awaitReason(t *testing.T, kind, reason string) {
	t.Helper()
	eventually(t, fmt.Sprintf("condition %s with reason %s", kind, reason), func(ctx context.Context) error {
		lab := g.labMachine()
		if err := g.get(ctx, t, lab); err != nil {
			return err
		}
		if found := meta.FindStatusCondition(lab.Status.Conditions, kind); found == nil || found.Reason != reason {
			return notYet("LabMachine", lab.Status.Conditions)
		}
		return nil
	})
}

// deleteAll deletes the Cluster and waits until neither objects, nor a machine, nor an endpoint of it are left.
func (g *given) deleteAll(t *testing.T) {
	t.Helper()
	lab, labCluster := g.labMachine(), g.labCluster()
	if err := g.get(t.Context(), t, lab); err != nil {
		t.Fatal(err)
	}
	if err := g.get(t.Context(), t, labCluster); err != nil {
		t.Fatal(err)
	}
	g.delete(t, g.cluster())
	eventually(t, "the end of the Cluster", func(ctx context.Context) error {
		if err := g.get(ctx, t, g.cluster()); !apierrors.IsNotFound(err) {
			return notYet("Cluster", err)
		}
		return nil
	})
	g.expectNothingAtHost(t, string(lab.UID), string(labCluster.UID))
}

func (g *given) expectNothingAtHost(t *testing.T, machine, endpoint string) {
	t.Helper()
	ids, err := g.machineIDs(t.Context())
	if err != nil || slices.Contains(ids, machine) {
		t.Errorf("machines %v, %v: %s is left", ids, err, machine)
	}
	endpoints, err := g.host.Endpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range endpoints {
		if e.ID == endpoint {
			t.Errorf("endpoint %v is left", e)
		}
	}
}

func TestClusterAndMachine_AreProvisionedForTheCore(t *testing.T) {
	t.Parallel()
	g := newGiven(t)
	g.createAll(t, quick)
	eventually(t, "the core's view of the Cluster's infrastructure", func(ctx context.Context) error {
		cluster, lab := g.cluster(), g.labCluster()
		if err := g.get(ctx, t, cluster); err != nil {
			return err
		}
		if err := g.get(ctx, t, lab); err != nil {
			return err
		}
		provisioned := cluster.Status.Initialization.InfrastructureProvisioned
		if provisioned == nil || !*provisioned || cluster.Spec.ControlPlaneEndpoint != lab.Spec.ControlPlaneEndpoint || cluster.Spec.ControlPlaneEndpoint.IsZero() {
			return notYet("Cluster", cluster.Status.Conditions)
		}
		return nil
	})
	g.awaitProvisioned(t)
	g.deleteAll(t)
}

func TestClusterRecreatedAtOnce_GetsAnotherMachine(t *testing.T) {
	t.Parallel()
	g := newGiven(t)
	g.createAll(t, quick)
	g.awaitProvisioned(t)
	first := g.machine()
	if err := g.get(t.Context(), t, first); err != nil {
		t.Fatal(err)
	}
	g.deleteAll(t)
	g.createAll(t, quick)
	g.awaitProvisioned(t)
	second := g.machine()
	if err := g.get(t.Context(), t, second); err != nil {
		t.Fatal(err)
	}
	if first.Spec.ProviderID == second.Spec.ProviderID {
		t.Errorf("both machines have provider ID %s", first.Spec.ProviderID)
	}
	g.deleteAll(t)
}

func TestFailedBootstrapping_IsRetriedWithTheCurrentData(t *testing.T) {
	t.Parallel()
	g := newGiven(t)
	g.createAll(t, "#cloud-config\nruncmd:\n- exit 7\n")
	g.awaitReason(t, api.ConditionBootstrapSucceeded, labmachine.ReasonBootstrapFailed)
	lab := g.labMachine()
	if err := g.get(t.Context(), t, lab); err != nil {
		t.Fatal(err)
	}
	if said := meta.FindStatusCondition(lab.Status.Conditions, api.ConditionBootstrapSucceeded).Message; !strings.Contains(said, "line 3") || !strings.Contains(said, "/log") {
		t.Errorf("message %q, want the line of the failed command and how to see its output", said)
	}
	g.writeData(t, quick)
	g.awaitProvisioned(t)
	g.deleteAll(t)
}

func TestHostDown_IsReportedAndRepeated(t *testing.T) {
	g := newGiven(t)
	if err := g.host.Kill(); err != nil {
		t.Fatal(err)
	}
	g.createAll(t, quick)
	eventually(t, "the reason of the LabCluster", func(ctx context.Context) error {
		lab := g.labCluster()
		if err := g.get(ctx, t, lab); err != nil {
			return err
		}
		if found := meta.FindStatusCondition(lab.Status.Conditions, clusterv1.ReadyCondition); found == nil || found.Reason != "HostUnavailable" {
			return notYet("LabCluster", lab.Status.Conditions)
		}
		return nil
	})
	if err := g.host.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.awaitProvisioned(t)
	g.deleteAll(t)
}

func TestPausedCluster_IsNotTouched(t *testing.T) {
	t.Parallel()
	g := newGiven(t)
	paused := true
	cluster, lab := g.cluster(), g.labCluster()
	cluster.Spec = clusterv1.ClusterSpec{InfrastructureRef: reference("LabCluster", "c"), Paused: &paused}
	// The core sets no owner while the Cluster is paused.
	g.create(t, cluster)
	if err := g.get(t.Context(), t, cluster); err != nil {
		t.Fatal(err)
	}
	lab.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: cluster.UID}}
	g.create(t, lab)
	// The provider handles this Cluster after the paused one.
	other := newGiven(t)
	other.createAll(t, quick)
	other.awaitProvisioned(t)
	if err := g.get(t.Context(), t, lab); err != nil {
		t.Fatal(err)
	}
	if len(lab.Finalizers) > 0 || len(lab.Status.Conditions) > 0 || !lab.Spec.ControlPlaneEndpoint.IsZero() {
		t.Errorf("the LabCluster of a paused Cluster was touched: %+v", lab)
	}
	patch := []byte(`{"spec":{"paused":false}}`)
	wanted := encode(t, g.cluster())
	if _, err := g.resource(wanted).Patch(t.Context(), "c", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the endpoint after the pause", func(ctx context.Context) error {
		if err := g.get(ctx, t, lab); err != nil {
			return err
		}
		if lab.Spec.ControlPlaneEndpoint.IsZero() {
			return notYet("LabCluster", lab.Status)
		}
		return nil
	})
	other.deleteAll(t)
}

func TestDeletionWhileBootstrapping_LeavesNothing(t *testing.T) {
	t.Parallel()
	g := newGiven(t)
	g.createAll(t, "#cloud-config\nruncmd:\n- sleep 3600\n")
	g.awaitReason(t, api.ConditionBootstrapSucceeded, labmachine.ReasonBootstrapping)
	g.deleteAll(t)
}
