package labmachine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/manager"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// requestTimeout limits each request to the machine host. A deletion ends processes.
const requestTimeout = 30 * time.Second

// Host is the part of the machine host's client that the controller needs.
type Host interface {
	CreateMachine(ctx context.Context, id string, wanted host.Machine) (host.Status, error)
	Machine(ctx context.Context, id string) (host.Status, error)
	DeleteMachine(ctx context.Context, id string) error
}

// Options are the controller's access to other processes.
type Options struct {
	Host Host
	// Socket is the path of the machine host's socket, for messages.
	Socket string
	// Nodes reads and patches Nodes. Nil uses the kubeconfigs of the clusters.
	Nodes Nodes
}

type handler struct {
	*manager.Context
	Options
	ctx context.Context //nolint:containedctx // lasso's handlers get no context
}

// Register adds the controller of LabMachines. It works until ctx ends.
func Register(ctx context.Context, m *manager.Context, options Options) error {
	if options.Nodes == nil {
		options.Nodes = workload{secret: m.Secrets.Cache().Get}
	}
	h := &handler{Context: m, Options: options, ctx: ctx}
	m.LabMachines.OnChange(context.WithoutCancel(ctx), "labmachine", h.reconcile)
	if err := reconcile.Watch(m.Machines.Informer(), labMachineOf, reconcile.Enqueue(m.LabMachines)); err != nil {
		return err
	}
	return reconcile.Watch(m.Clusters.Informer(), h.labMachinesOf, reconcile.Enqueue(m.LabMachines))
}

// labMachineOf returns the LabMachine that a Machine refers to.
func labMachineOf(machine *clusterv1.Machine) []types.NamespacedName {
	ref := machine.Spec.InfrastructureRef
	if ref.APIGroup != api.GroupVersion().Group || ref.Kind != "LabMachine" {
		return nil
	}
	return []types.NamespacedName{{Namespace: machine.Namespace, Name: ref.Name}}
}

// labMachinesOf returns the LabMachines of a Cluster.
func (h *handler) labMachinesOf(cluster *clusterv1.Cluster) (keys []types.NamespacedName) {
	machines, err := h.Machines.Cache().List(cluster.Namespace, labels.Everything())
	if err != nil {
		return nil // cannot happen: the cache is in memory
	}
	for _, machine := range machines {
		if machine.Spec.ClusterName == cluster.Name {
			keys = append(keys, labMachineOf(machine)...)
		}
	}
	return keys
}

func (h *handler) reconcile(_ string, labMachine *api.LabMachine) (*api.LabMachine, error) {
	if labMachine == nil {
		return nil, nil
	}
	in, err := h.gather(labMachine)
	if err == nil {
		out := Decide(in)
		if err = h.act(in, out); err == nil && out.After > 0 {
			h.LabMachines.EnqueueAfter(labMachine.Namespace, labMachine.Name, out.After)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("LabMachine %s/%s: %w", labMachine.Namespace, labMachine.Name, err)
	}
	return labMachine, nil
}

// act carries out the outcome. What a step needs is written before it, what it achieves after it.
func (h *handler) act(in Input, out Outcome) error {
	switch out.Stage {
	case Skipping:
		return nil
	case Creating:
		return h.create(in, out)
	case Retrying:
		return h.retry(in, out)
	case Provisioning:
		return h.provision(in, out)
	case Deleting:
		return h.delete(in, out)
	}
	if _, err := h.report(in.LabMachine, out.Report); err != nil {
		return err
	}
	return out.Err
}

// report writes the status.
func (h *handler) report(labMachine *api.LabMachine, report Report) (*api.LabMachine, error) {
	return reconcile.WriteStatus(h.LabMachines, labMachine, func(m *api.LabMachine) { report.Apply(m, h.Clock()) })
}

// bootstrapData returns the Machine's bootstrap data. It is read from the API server, because other providers' Secrets
// may have no label.
func (h *handler) bootstrapData(ctx context.Context, machine *clusterv1.Machine) ([]byte, error) {
	name := *machine.Spec.Bootstrap.DataSecretName
	secret, err := reconcile.Optional(h.Kube.CoreV1().Secrets(machine.Namespace).Get(ctx, name, metav1.GetOptions{}))
	if err != nil {
		return nil, fmt.Errorf("reading bootstrap data: %w", err)
	}
	if secret == nil || len(secret.Data["value"]) == 0 {
		return nil, fmt.Errorf("the bootstrap data of Machine %s is missing: Secret %s/%s does not exist, or has no key value", machine.Name, machine.Namespace, name)
	}
	return secret.Data["value"], nil
}

// nodeOf asks for the Machine's Node.
func (h *handler) nodeOf(ctx context.Context, cluster *clusterv1.Cluster, machine *clusterv1.Machine) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	return h.Nodes.Node(ctx, cluster, machine.Name)
}
