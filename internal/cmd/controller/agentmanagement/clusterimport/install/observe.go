package install

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
)

// Observe reads the agent's namespace, its Secrets, its Deployment, ReplicaSets and pods. check returns an error for an agent of
// another Cluster of the hub.
func Observe(ctx context.Context, downstream hub.Downstream, accounts []types.UID, check func(Owner) error, in *supervisionrule.Input) error {
	here := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: in.Namespace, Name: name} }
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in.Namespace}}
	if _, err := downstream.Find(ctx, namespace); err != nil {
		return err
	}
	in.Terminating = namespace.DeletionTimestamp != nil
	var err error
	stored := &corev1.Secret{ObjectMeta: here(names.Agent)}
	if in.Identity, err = downstream.Find(ctx, stored); err != nil {
		return err
	}
	in.Stored = kubeconfigs.TokenOf(stored.Data[protocol.KubeconfigKey])
	in.Known = supervisionrule.KnowsIdentity(in.Stored, accounts)
	bootstrap := &corev1.Secret{ObjectMeta: here(names.AgentBootstrap)}
	if _, err := downstream.Find(ctx, bootstrap); err != nil {
		return err
	}
	if given, err := protocol.ParseBootstrap(bootstrap.Data); err == nil { // an invalid one counts as missing
		in.Delivered = given.Token
	}
	if !in.Known {
		if err := checkOwner(stored.Data, bootstrap.Data, check); err != nil {
			return err
		}
	}
	deployment := &appsv1.Deployment{ObjectMeta: here(names.Agent)}
	found, err := downstream.Find(ctx, deployment)
	if err != nil || !found {
		return err
	}
	in.Deployment = deployment
	sets, pods := &appsv1.ReplicaSetList{}, &corev1.PodList{}
	if err := downstream.List(ctx, in.Namespace, agentPods, sets); err != nil {
		return err
	}
	if err := downstream.List(ctx, in.Namespace, agentPods, pods); err != nil {
		return err
	}
	in.ReplicaSets, in.Pods = sets.Items, pods.Items
	return nil
}
