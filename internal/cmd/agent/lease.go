package agent

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// identitySeparator separates the replica's name from the random part in the lease (leader.Lead).
const identitySeparator = "_"

// inherit releases the lease if its holder is this pod's own predecessor.
//
// The holder's name is <pod>_<random>, which is unique for each process. But a pod runs one agent process at a
// time, and kubelet starts the next only when the last has ended. So a holder with this pod's name and another
// random part is dead. Waiting until its lease expires would only keep a killed agent away for half a minute.
// Leases of other holders are not changed, the write is bound to the version that was read, and the election
// decides who leads next.
//
// Outside a pod of the agent's Deployment, whose pods have its name as a prefix, the name does not prove that
// the holder is dead. Two agents may run on one host, and with host networking HOSTNAME is the node's name,
// which the next pod on the node shares.
func inherit(ctx context.Context, own *rest.Config, namespace, pod string) error {
	prefix := predecessors(pod)
	if prefix == "" {
		return nil
	}
	client, err := coordinationv1client.NewForConfig(own)
	if err != nil {
		return err
	}
	return release(ctx, client.Leases(namespace), prefix)
}

// predecessors returns the prefix of the identities of this pod's earlier processes, or "" outside a pod of the Deployment.
func predecessors(pod string) string {
	if !strings.HasPrefix(pod, names.Agent+"-") {
		return ""
	}
	return pod + identitySeparator
}

func release(ctx context.Context, leases coordinationv1client.LeaseInterface, prefix string) error {
	lease, err := leases.Get(ctx, names.Agent, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Lease %s: %w", names.Agent, err)
	}
	holder := lease.Spec.HolderIdentity
	if holder == nil || !strings.HasPrefix(*holder, prefix) {
		return nil
	}
	lease = lease.DeepCopy()
	lease.Spec.HolderIdentity = new(string)
	if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("releasing Lease %s of %s: %w", names.Agent, *holder, err)
	}
	return nil
}
