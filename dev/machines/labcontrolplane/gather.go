package labcontrolplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/clustersecrets"
	"github.com/fleet-hub/fleet/dev/machines/contract"
	"github.com/fleet-hub/fleet/dev/machines/workload"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// watch enqueues LabControlPlanes when something changes that they depend on.
func (h *handler) watch() error {
	enqueue := reconcile.Enqueue(h.LabControlPlanes)
	if err := reconcile.Watch(h.Clusters.Informer(), controlPlaneOf, enqueue); err != nil {
		return err
	}
	if err := reconcile.Watch(h.Machines.Informer(), ownerOf[*clusterv1.Machine], enqueue); err != nil {
		return err
	}
	if err := reconcile.Watch(h.LabMachineTemplates.Informer(), h.usersOf, enqueue); err != nil {
		return err
	}
	return reconcile.Watch(h.Secrets.Informer(), h.controlPlaneOfSecret, enqueue)
}

// usersOf returns the LabControlPlanes that refer to a template.
func (h *handler) usersOf(template *api.LabMachineTemplate) []types.NamespacedName {
	all, err := h.LabControlPlanes.Cache().List(template.Namespace, labels.Everything())
	if err != nil {
		return nil // the cache cannot fail; each LabControlPlane is reconciled when it is listed
	}
	var keys []types.NamespacedName
	for _, each := range all {
		if each.Spec.MachineTemplate.Spec.InfrastructureRef.Name == template.Name {
			keys = append(keys, types.NamespacedName{Namespace: each.Namespace, Name: each.Name})
		}
	}
	return keys
}

// controlPlaneOf returns the LabControlPlane that a Cluster refers to.
func controlPlaneOf(cluster *clusterv1.Cluster) []types.NamespacedName {
	ref := cluster.Spec.ControlPlaneRef
	if ref.APIGroup != api.GroupVersion().Group || ref.Kind != "LabControlPlane" {
		return nil
	}
	return []types.NamespacedName{{Namespace: cluster.Namespace, Name: ref.Name}}
}

// ownerOf returns the LabControlPlane that controls an object.
func ownerOf[T metav1.Object](object T) []types.NamespacedName {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != "LabControlPlane" {
		return nil
	}
	return []types.NamespacedName{{Namespace: object.GetNamespace(), Name: owner.Name}}
}

// controlPlaneOfSecret returns the LabControlPlane of a Secret's cluster. The Secret may belong to the user.
func (h *handler) controlPlaneOfSecret(secret *corev1.Secret) []types.NamespacedName {
	cluster, err := h.Clusters.Cache().Get(secret.Namespace, secret.Labels[clusterv1.ClusterNameLabel])
	if err != nil {
		return ownerOf(secret) // the Cluster does not exist
	}
	return controlPlaneOf(cluster)
}

func (h *handler) gather(controlPlane *api.LabControlPlane) (Input, error) {
	in := Input{ControlPlane: controlPlane, Now: h.Clock()}
	if err := h.gatherCluster(&in); err != nil {
		return in, err
	}
	if err := h.gatherMachine(&in); err != nil {
		return in, err
	}
	if in.Machine == nil && controlPlane.DeletionTimestamp == nil {
		in.Template, in.TemplateErr = h.template(controlPlane)
	}
	if ShouldAsk(in) {
		in.Server = h.ask(h.ctx, in.Kubeconfig.Data[clustersecrets.KeyValue])
	}
	return in, nil
}

func (h *handler) gatherCluster(in *Input) error {
	namespace := in.ControlPlane.Namespace
	cluster, err := contract.OwnerOf(in.ControlPlane, "Cluster", h.Clusters.Cache().Get)
	if err != nil || cluster == nil {
		return err
	}
	in.Cluster = cluster
	for purpose, into := range map[clustersecrets.Purpose]**corev1.Secret{
		clustersecrets.CA: &in.CA, clustersecrets.Accounts: &in.Accounts, clustersecrets.Kubeconfig: &in.Kubeconfig,
	} {
		if *into, err = reconcile.Optional(h.Secrets.Cache().Get(namespace, clustersecrets.Name(cluster.Name, purpose))); err != nil {
			return fmt.Errorf("reading the Secrets of Cluster %s: %w", cluster.Name, err)
		}
	}
	return nil
}

func (h *handler) gatherMachine(in *Input) error {
	namespace, name := in.ControlPlane.Namespace, MachineName(in.ControlPlane)
	var err error
	if in.Machine, err = reconcile.Optional(h.Machines.Cache().Get(namespace, name)); err != nil {
		return fmt.Errorf("reading Machine %s: %w", name, err)
	}
	if in.LabMachine, err = reconcile.Optional(h.LabMachines.Cache().Get(namespace, name)); err != nil {
		return fmt.Errorf("reading LabMachine %s: %w", name, err)
	}
	if in.LabConfig, err = reconcile.Optional(h.LabConfigs.Cache().Get(namespace, name)); err != nil {
		return fmt.Errorf("reading LabConfig %s: %w", name, err)
	}
	return nil
}

// template reads the LabMachineTemplate, or returns why it cannot be used.
func (h *handler) template(controlPlane *api.LabControlPlane) (*api.LabMachineTemplate, error) {
	if err := CheckTemplate(controlPlane); err != nil {
		return nil, err
	}
	return reconcile.Optional(h.LabMachineTemplates.Cache().Get(controlPlane.Namespace, controlPlane.Spec.MachineTemplate.Spec.InfrastructureRef.Name))
}

// ask asks the API server for its version. An API server that answers also gets the rights of machines that join, because
// nothing can join a control plane before, and initialized means that it can.
func ask(ctx context.Context, kubeconfig []byte) Server {
	client, err := workload.New(kubeconfig)
	if err != nil {
		return Server{Asked: true, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	version, err := client.Version(ctx)
	if err == nil {
		err = client.EnsureBindings(ctx)
	}
	return Server{Asked: true, Version: version, Err: err}
}
