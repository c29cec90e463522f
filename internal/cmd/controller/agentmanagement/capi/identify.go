package capi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/clusteruids"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/remote"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
)

// identifyTimeout limits the request to another cluster.
const identifyTimeout = 30 * time.Second

// knownIdentity is what a cluster has answered, or that it is being asked.
type knownIdentity struct {
	cluster  types.UID
	address  [sha256.Size]byte
	asking   bool
	identity capirule.Identity
}

// knownRefusal is the last refusal of a cluster. content is that of the refused kubeconfig.
type knownRefusal struct {
	cluster types.UID
	content [sha256.Size]byte
	refusal capirule.Refusal
}

// gatherIdentity adds the identity of the cluster, and the Clusters with this identity.
func (h *handler) gatherIdentity(in *gathered) (err error) {
	h.mu.Lock()
	known := h.identities[in.Key]
	address, content := h.secrets[in.Key].address, h.secrets[in.Key].content
	if refused := h.refusals[in.Key]; refused.cluster == in.Cluster.UID {
		in.Refusal = refused.refusal
		in.Refusal.Renewed = refused.content != content
	}
	h.mu.Unlock()
	if !known.asking && known.cluster == in.Cluster.UID && known.address == address {
		in.Identity = known.identity
	}
	if in.Identity.UID == "" && !capirule.IsOfFormer(in.Input) {
		in.Identity.UID = in.Recorded
	}
	if in.Identity.UID == "" {
		return nil
	}
	if in.SameCluster, err = h.app.Identities.Holders(in.Identity.UID); err != nil {
		return err
	}
	// An agent that has registered by itself names the cluster, which is believed in its own workspace.
	own, err := h.app.Clusters.Cache().GetByIndex(hub.ClustersByClientID, in.Key.Namespace+"/"+string(in.Identity.UID))
	in.SameCluster = slices.Concat(in.SameCluster, own)
	return err
}

// identify asks a cluster which one it is, in the background. The end enqueues the Cluster.
func (h *handler) identify(in gathered) {
	if in.Identity.UID != "" {
		h.identifyUnknown(in)
		return
	}
	asking := knownIdentity{cluster: in.Cluster.UID, asking: true}
	h.mu.Lock()
	before, address := h.identities[in.Key], h.secrets[in.Key].address
	h.identities[in.Key] = asking
	h.mu.Unlock()
	if before.asking {
		return
	}
	h.submit(remote.Job{Workspace: in.Key.Namespace, Kubeconfig: in.kubeconfig, Do: func(ctx context.Context, kubeconfig []byte, err error) {
		known := knownIdentity{cluster: in.Cluster.UID, address: address, identity: capirule.Identity{Tried: true, At: h.app.Clock()}}
		if err == nil {
			known.address = kubeconfigs.AddressHash(kubeconfig) // the Secret may have changed
			known.identity, err = h.ask(ctx, kubeconfig)
		}
		if err != nil {
			h.app.Log.Info("reading the UID of kube-system in a cluster of Cluster API failed", "cluster", in.Key.String(), "error", err)
		}
		h.mu.Lock()
		h.identities[in.Key] = known
		h.mu.Unlock()
		h.enqueue(in.Key)
	}})
}

// ask reads the UID of a cluster.
func (h *handler) ask(ctx context.Context, kubeconfig []byte) (capirule.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	tried := capirule.Identity{Tried: true, At: h.app.Clock()}
	own, err := h.app.Identities.Own(ctx)
	if err != nil {
		return tried, err
	}
	downstream, err := h.app.Dial(ctx, kubeconfig, h.app.Config.Get().AgentTLSMode, false)
	if err != nil {
		return tried, fmt.Errorf("using the kubeconfig: %w", err)
	}
	defer downstream.Close()
	uid, err := clusteruids.Read(ctx, downstream)
	if err != nil {
		return tried, err
	}
	tried.UID, tried.IsHub = uid, uid == own
	return tried, nil
}

// forgetIdentity makes the hub ask again.
func (h *handler) forgetIdentity(key types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.identities[key].asking {
		delete(h.identities, key)
	}
}

// noteRefusal remembers that the import of a Cluster was refused.
func (h *handler) noteRefusal(in capirule.Input, out capirule.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refusals[in.Key] = knownRefusal{in.Cluster.UID, h.secrets[in.Key].content, capirule.Refusal{
		Reason: out.Reason, Message: out.Message, At: in.Now, Times: in.Refusal.Times + 1,
	}}
}
