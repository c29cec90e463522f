package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// ErrNoIdentity means that no Secret downstream belongs to an agent of the Cluster.
var ErrNoIdentity = errors.New("the cluster has no agent of this Cluster")

// A TrustFunc returns the CA that an agent has to trust for an address, or none if the TLS mode allows the system's
// roots. rooted means that the system's roots were sufficient for this agent so far.
type TrustFunc func(ctx context.Context, address importing.HubAddress, tlsMode string, rooted bool) ([]byte, error)

// Trust returns a function that connects to the hub's address to find the CA. A URL from a kubeconfig Secret may lead
// only where options permits the kubeconfig to lead.
func Trust(options foreign.Options) TrustFunc {
	return func(ctx context.Context, address importing.HubAddress, tlsMode string, rooted bool) ([]byte, error) {
		cfg := &rest.Config{Host: address.URL, TLSClientConfig: rest.TLSClientConfig{CAData: address.CA}}
		find := kube.CAFor
		if address.FromSecret {
			find = options.HubCA
		}
		ca, err := find(ctx, cfg, tlsMode, rooted)
		if err != nil {
			return nil, fmt.Errorf("finding the CA that the agent has to trust: %w", err)
		}
		return ca, nil
	}
}

// identity holds the agent's Secrets in its namespace. A Secret that does not exist or belongs to another Cluster is
// nil.
type identity struct {
	stored, bootstrap *corev1.Secret
}

func (i identity) any() bool { return i.stored != nil || i.bootstrap != nil }

// findIdentity looks for the Secret with the agent's identity, or else for the bootstrap Secret. An agent that is
// just registering writes the first before it deletes the second.
func (d *Agent) findIdentity(ctx context.Context) (identity, error) {
	if stored, err := d.findStored(ctx); err != nil || stored != nil {
		return identity{stored: stored}, err
	}
	bootstrap, err := d.secret(ctx, names.AgentBootstrap)
	if err != nil {
		return identity{}, err
	}
	if bootstrap == nil {
		stored, err := d.findStored(ctx)
		return identity{stored: stored}, err
	}
	given, err := protocol.ParseBootstrap(bootstrap.Data)
	if err == nil && given.ClusterNamespace == d.Identity.ClusterNamespace && given.TokenName == d.Identity.TokenName {
		return identity{bootstrap: bootstrap}, nil
	}
	return identity{}, nil
}

// findStored returns the Secret with the agent's identity. It returns nil if the Secret is missing or belongs to
// another Cluster.
func (d *Agent) findStored(ctx context.Context) (*corev1.Secret, error) {
	stored, err := d.secret(ctx, names.Agent)
	if err != nil || stored == nil {
		return nil, err
	}
	kept, err := protocol.ParseIdentity(stored.Data)
	if err != nil || kept.ClusterNamespace != d.Identity.ClusterNamespace || kept.ClusterName != d.Identity.ClusterName {
		return nil, nil //nolint:nilerr,nilnil // an unreadable identity belongs to no agent
	}
	return stored, nil
}

// Owner names the Cluster of an agent. Bearer is the token of its account. An agent that has not registered yet has the name of an
// import token instead of that of a Cluster, and the bearer token of that one. The other cluster may have invented all of it.
type Owner struct{ Workspace, Cluster, ImportToken, Bearer string }

// checkOwner calls check with each Cluster that the data of the Secrets of an agent name, until it returns an error.
func checkOwner(stored, bootstrap map[string][]byte, check func(Owner) error) error {
	if kept, err := protocol.ParseIdentity(stored); err == nil {
		if err := check(Owner{Workspace: kept.ClusterNamespace, Cluster: kept.ClusterName, Bearer: kubeconfigs.TokenOf(kept.Kubeconfig)}); err != nil {
			return err
		}
	}
	given, err := protocol.ParseBootstrap(bootstrap)
	if err != nil {
		return nil //nolint:nilerr // it is missing, or no agent can use it
	}
	return check(Owner{Workspace: given.ClusterNamespace, ImportToken: given.TokenName, Bearer: given.Token})
}

// checkOwner returns an error if the agent there belongs to another Cluster of the hub.
func (d *Agent) checkOwner(ctx context.Context) error {
	found, err := d.meansIn(ctx, d.Values.Namespace)
	if err != nil {
		return err
	}
	return checkOwner(found.stored, found.bootstrap, d.CheckOwner)
}

// means are the data of the Secrets with which an agent reports and registers. That of a missing Secret is nil.
type means struct{ stored, bootstrap map[string][]byte }

func (d *Agent) meansIn(ctx context.Context, namespace string) (found means, err error) {
	if found.stored, err = d.data(ctx, namespace, names.Agent); err != nil {
		return found, err
	}
	found.bootstrap, err = d.data(ctx, namespace, names.AgentBootstrap)
	return found, err
}

// data returns the data of a Secret, which is nil if the Secret does not exist.
func (d *Agent) data(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	secret, err := d.secretIn(ctx, namespace, name)
	if err != nil || secret == nil {
		return nil, err
	}
	return secret.Data, nil
}

// secret returns a Secret in the namespace of the agent, or nil if it does not exist.
func (d *Agent) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	return d.secretIn(ctx, d.Values.Namespace, name)
}

func (d *Agent) secretIn(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	found, err := d.Downstream.Find(ctx, secret)
	if err != nil || !found {
		return nil, err
	}
	return secret, nil
}

// isKnown reports whether a stored identity belongs to a live account of the Cluster's registrations.
func (d *Agent) isKnown(stored *corev1.Secret) bool {
	return stored != nil && supervisionrule.KnowsIdentity(kubeconfigs.TokenOf(stored.Data[protocol.KubeconfigKey]), d.Accounts)
}

// leadsHere reports whether what an agent reports or registers with leads to this hub: it has the hub's address, or its token has the
// signing key of the hub's own token. It returns unknown if it leads nowhere.
func (d *Agent) leadsHere(of means) (here, unknown bool) {
	for _, data := range []map[string][]byte{of.stored, of.bootstrap} {
		if server, token := leadsTo(data); server != "" {
			return d.isHere(server, token), false
		}
	}
	return false, true
}

// leadsTo returns the address and the token in the data of an agent's Secret, or empty texts if no agent can use it.
func leadsTo(data map[string][]byte) (server, token string) {
	if given, err := protocol.ParseBootstrap(data); err == nil {
		return given.APIServerURL, given.Token
	}
	server, _, err := kubeconfigs.AddressOf(data[protocol.KubeconfigKey])
	if err != nil {
		return "", ""
	}
	return server, kubeconfigs.TokenOf(data[protocol.KubeconfigKey])
}

func (d *Agent) isHere(server, token string) bool {
	own := d.Values.Bootstrap
	if own == nil {
		return false
	}
	signer := protocol.SigningKeyOf(token)
	return server == own.APIServerURL || signer != "" && signer == protocol.SigningKeyOf(own.Token)
}

// keptByAnother reports whether there is an identity that its agent reads only at startup, as agents of Rancher Fleet
// do.
func (d *Agent) keptByAnother(ctx context.Context) (bool, error) {
	stored, err := d.secret(ctx, names.Agent)
	return stored != nil && len(stored.Data[protocol.KubeconfigKey]) > 0 && !isWatched(stored), err
}

func isWatched(stored *corev1.Secret) bool {
	return stored.Annotations[annotation.Watched] == "true"
}

// readdress writes the hub's address into the agent's Secret. unwatched means that the agent does not notice the
// change by itself.
func (d *Agent) readdress(ctx context.Context, found identity) (unwatched bool, err error) {
	switch {
	case d.Readdress == nil:
		return false, nil
	case found.stored == nil:
		return false, d.readdressBootstrap(ctx, found.bootstrap) // the agent reads it at each attempt
	}
	kubeconfig := found.stored.Data[protocol.KubeconfigKey]
	ca, err := d.trusted(ctx, kubeconfig)
	if err != nil {
		return false, err
	}
	changed, err := kubeconfigs.Readdress(kubeconfig, d.Readdress.URL, ca)
	switch {
	case err != nil:
		return false, fmt.Errorf("the agent's own kubeconfig: %w", err)
	case bytes.Equal(changed, kubeconfig):
		return false, nil
	}
	secret := found.stored.DeepCopy()
	secret.Data[protocol.KubeconfigKey] = changed
	return !isWatched(secret), d.Downstream.Replace(ctx, secret)
}

// trusted returns the CA for the agent's kubeconfig. An agent that uses the system's roots for this address keeps
// using them.
func (d *Agent) trusted(ctx context.Context, kubeconfig []byte) ([]byte, error) {
	server, ca, err := kubeconfigs.AddressOf(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("the agent's own kubeconfig: %w", err)
	}
	rooted := len(ca) == 0
	if d.TLSMode == config.TLSModeSystemStore && rooted && server == d.Readdress.URL {
		return nil, nil
	}
	return d.Trust(ctx, *d.Readdress, d.TLSMode, rooted)
}

// readdressBootstrap writes the hub's address into the bootstrap Secret of an agent that has not registered yet.
func (d *Agent) readdressBootstrap(ctx context.Context, bootstrap *corev1.Secret) error {
	if string(bootstrap.Data[protocol.APIServerURLKey]) == d.Readdress.URL && bytes.Equal(bootstrap.Data[protocol.APIServerCAKey], d.Readdress.CA) {
		return nil
	}
	secret := bootstrap.DeepCopy()
	secret.Data[protocol.APIServerURLKey] = []byte(d.Readdress.URL)
	secret.Data[protocol.APIServerCAKey] = d.Readdress.CA
	return d.Downstream.Replace(ctx, secret)
}
