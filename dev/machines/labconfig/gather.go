package labconfig

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
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// watch enqueues LabConfigs when something changes that they depend on.
func (h *handler) watch() error {
	enqueue := reconcile.Enqueue(h.LabConfigs)
	if err := reconcile.Watch(h.Machines.Informer(), configOf, enqueue); err != nil {
		return err
	}
	if err := reconcile.Watch(h.Clusters.Informer(), h.configsOf, enqueue); err != nil {
		return err
	}
	return reconcile.Watch(h.Secrets.Informer(), h.configsOfSecret, enqueue)
}

// configOf returns the LabConfig that a Machine refers to.
func configOf(machine *clusterv1.Machine) []types.NamespacedName {
	ref := machine.Spec.Bootstrap.ConfigRef
	if ref.APIGroup != api.GroupVersion().Group || ref.Kind != "LabConfig" {
		return nil
	}
	return []types.NamespacedName{{Namespace: machine.Namespace, Name: ref.Name}}
}

// configsOf returns the LabConfigs of a Cluster's Machines.
func (h *handler) configsOf(cluster *clusterv1.Cluster) []types.NamespacedName {
	return h.configsIn(cluster.Namespace, cluster.Name)
}

// configsOfSecret returns the LabConfigs that depend on a Secret: its owner, or all of the cluster.
func (h *handler) configsOfSecret(secret *corev1.Secret) []types.NamespacedName {
	if owner := metav1.GetControllerOf(secret); owner != nil && owner.Kind == "LabConfig" {
		return []types.NamespacedName{{Namespace: secret.Namespace, Name: owner.Name}}
	}
	return h.configsIn(secret.Namespace, secret.Labels[clusterv1.ClusterNameLabel])
}

func (h *handler) configsIn(namespace, cluster string) []types.NamespacedName {
	machines, err := h.Machines.Cache().List(namespace, labels.Everything())
	if err != nil {
		return nil // the cache cannot fail; each LabConfig is reconciled when its Machine is listed
	}
	var keys []types.NamespacedName
	for _, machine := range machines {
		if machine.Spec.ClusterName == cluster {
			keys = append(keys, configOf(machine)...)
		}
	}
	return keys
}

func (h *handler) gather(config *api.LabConfig) (Input, error) {
	in := Input{Config: config, Now: h.Clock()}
	var err error
	if in.Machine, err = contract.OwnerOf(config, "Machine", h.Machines.Cache().Get); err != nil || in.Machine == nil {
		return in, err
	}
	cluster := types.NamespacedName{Namespace: config.Namespace, Name: in.Machine.Spec.ClusterName}
	if in.Cluster, err = reconcile.Optional(h.Clusters.Cache().Get(cluster.Namespace, cluster.Name)); err != nil || in.Cluster == nil {
		return in, err
	}
	if ref := in.Cluster.Spec.ControlPlaneRef; ref.APIGroup == api.GroupVersion().Group && ref.Kind == "LabControlPlane" {
		if in.ControlPlane, err = reconcile.Optional(h.LabControlPlanes.Cache().Get(config.Namespace, ref.Name)); err != nil {
			return in, err
		}
	}
	for name, into := range map[string]**corev1.Secret{
		DataSecret(config): &in.Data,
		clustersecrets.Name(cluster.Name, clustersecrets.CA):         &in.CA,
		clustersecrets.Name(cluster.Name, clustersecrets.Accounts):   &in.Accounts,
		clustersecrets.Name(cluster.Name, clustersecrets.Kubeconfig): &in.Kubeconfig,
	} {
		if *into, err = reconcile.Optional(h.Secrets.Cache().Get(config.Namespace, name)); err != nil {
			return in, fmt.Errorf("reading Secret %s: %w", name, err)
		}
	}
	return in, nil
}

// files reads the Secrets of a LabConfig's files from the API server, because the cache does not contain them.
func (h *handler) files(in Input) (map[string]*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(h.ctx, requestTimeout)
	defer cancel()
	found := map[string]*corev1.Secret{}
	for _, name := range secretsOf(in.Config.Spec) {
		if _, known := found[name]; known {
			continue
		}
		secret, err := reconcile.Optional(h.Kube.CoreV1().Secrets(in.Config.Namespace).Get(ctx, name, metav1.GetOptions{}))
		if err != nil {
			return nil, fmt.Errorf("reading Secret %s: %w", name, err)
		}
		found[name] = secret
	}
	return found, nil
}
