package register

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

// errInterrupted means that nothing was written, because a change must be read first. The write is still due.
var errInterrupted = errors.New("something has changed, looking again before the identity is stored")

// write stores the identity with this access. It replaces only the version seen of the Secret, or any version if seen is nil.
func (a *agent) write(ctx context.Context, seen *corev1.Secret, access hubclient.Access, identity protocol.Identity) error {
	if !a.pause(ctx, a.writes.Until(a.now())) {
		return errInterrupted
	}
	var err error
	var written *corev1.Secret
	if identity.Kubeconfig, err = access.Kubeconfig(); err == nil {
		written, err = a.store.Write(context.WithoutCancel(ctx), seen, identity)
	}
	if a.writes.Settle(a.now(), err); err != nil {
		a.current = a.current && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err)
		a.log.Error("storing the agent's identity failed, trying again", "error", err)
		return err
	}
	a.found.SetIdentity(written, identity, access)
	a.answer = registering.LastAnswer{Answer: registering.Accepted, Since: a.now()}
	a.moved, a.outdated = registering.LastAnswer{}, ""
	return nil
}

// storeMove rewrites the stored kubeconfig with the access at which the identity was proven.
func (a *agent) storeMove(ctx context.Context) bool {
	a.newAddress.Token = a.found.Access.Token // it may have been renewed since the test
	if err := a.write(ctx, a.found.IdentitySecret, a.newAddress, *a.found.Identity); err != nil {
		return false
	}
	a.used = true
	a.log.Info("using the hub address and CA of the bootstrap secret from now on; the identity stays the same", "hub", a.newAddress.Server)
	if a.newAddressSerial > 0 { // the hub sees in the serial that the agent knows its address
		data := a.kept.Data
		data.APIServerURL, data.APIServerCA, data.Serial = a.newAddress.Server, a.newAddress.CA, a.newAddressSerial
		a.warnUnlessKept(a.keep(ctx, data))
	}
	return true
}

// clearBootstrap deletes the bootstrap secret of the last look, if there was one. It reports whether none is left.
func (a *agent) clearBootstrap(ctx context.Context) bool {
	seen := a.found.BootstrapSecret
	if seen == nil {
		return true
	}
	if !a.pause(ctx, max(a.deletions.Until(a.now()), a.deleteDelay())) {
		return false
	}
	err := a.store.DropBootstrap(ctx, seen)
	if a.deletions.Settle(a.now(), err); err != nil {
		a.log.Warn("deleting the bootstrap secret, which is no longer needed, failed; trying again", "error", err)
		return false
	}
	a.log.Info("bootstrap secret deleted", "secret", seen.Namespace+"/"+seen.Name, "used", a.used)
	a.used = false
	return true
}

// bootstrapGrace is how long the agent keeps a bootstrap secret that may be needed in a moment, and how long it waits for the client
// ID that belongs to one. The chart delivers the secret before the configuration, and the new configuration may require a CA or
// no longer require one.
const bootstrapGrace = 5 * time.Second

// deleteDelay returns how long to keep the bootstrap secret before its deletion. It is not positive unless the configuration may be
// about to change: the secret has a CA that the identity lacks because the mode needs none, or the configuration is invalid.
func (a *agent) deleteDelay() time.Duration {
	f := a.found
	needless := f.Config.AgentTLSMode == config.TLSModeSystemStore && len(f.Access.CA) == 0 && f.Bootstrap != nil && len(f.Bootstrap.APIServerCA) > 0
	if a.used || f.Bootstrap == nil || !needless && f.ConfigErr == nil {
		return 0
	}
	return a.delivered.Add(bootstrapGrace).Sub(a.now())
}
