package register

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	"github.com/fleet-hub/fleet/internal/register/recovery"
	"github.com/fleet-hub/fleet/internal/register/stored"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Options configures Run.
type Options struct {
	// Local are the clients for the agent's own cluster, without a timeout, because watches use them.
	Local stored.Clients
	// Namespace is the agent's namespace. It contains Secrets fleet-agent and fleet-agent-bootstrap and
	// ConfigMap fleet-agent.
	Namespace string
	// Pod is the host name of the agent. It becomes a label of the requests. Empty means no such label.
	Pod string
	// Clock returns the current time. Required.
	Clock func() time.Time
	// Random is the source of request names and of jitter. It is crypto/rand.Reader except in tests.
	Random io.Reader
	// Log receives the log lines. Nil disables logging.
	Log *slog.Logger
	// Connect creates the client for one identity. Nil means hubclient.Connect.
	Connect func(*rest.Config) (hubclient.Hub, error)
	// FetchDocument reads the hub document at an address without a credential. Nil means recovery.Fetch.
	FetchDocument func(ctx context.Context, server string) (string, error)
	// OnStage is called when the stage or its reason changes. The reason is empty for Use. Nil disables the callback.
	OnStage func(stage registering.Stage, reason string)
	// OnRenew is called with each renewed token of the identity in use. Nil disables the callback.
	OnRenew func(token string)
}

// Session is a proven identity and the data that belongs to it.
type Session struct {
	// Hub is the client configuration for this identity, without rate limit and timeout. Run watches the responses
	// to it: after a 401, a 403 or an untrusted CA it tests whether the identity still works.
	Hub *rest.Config
	// Token returns the current token of the identity. Requests of Hub use it, too.
	Token func() string
	// Status returns what the heartbeats report of the identity: when its token expires, and what the agent has for a
	// recovery.
	Status func() fleet.AgentStatus
	// ClusterNamespace and ClusterName identify the Cluster of this agent.
	ClusterNamespace, ClusterName string
	// DeploymentNamespace is the namespace of its BundleDeployments on the hub.
	DeploymentNamespace string
	// Config is ConfigMap fleet-agent, the last valid content while it is malformed, or the zero value if it is missing.
	Config config.Agent
}

// agent is the state that Run keeps between two looks.
type agent struct {
	Options
	log *slog.Logger
	use func(context.Context, Session) error

	changed  chan struct{}           // one of the agent's Secrets, or its configuration, may have changed
	seen     *stored.WatchedVersions // what the watches have reported of them
	rejected chan struct{}           // the hub rejected a request of the identity in use

	retries

	store  stored.Store   // of the three objects
	keeper recovery.Store // of the recovery Secret

	// The objects in the agent's own cluster.
	found     stored.Objects // result of the last read
	current   bool           // no object has changed since that read, so that another one is not needed
	used      bool           // the current bootstrap secret was used
	delivered time.Time      // when the current bootstrap secret was first seen

	// Tests of the stored identity.
	answer           registering.LastAnswer // at the address in the identity
	moved            registering.LastAnswer // at the address in the bootstrap secret
	newAddress       hubclient.Access       // the access with the address in the bootstrap secret
	newAddressSerial int64                  // serial of a hub document that names the address in the bootstrap secret, or 0

	// Registration and the use of an identity.
	attempt  *attempt          // with the current bootstrap secret; nil before the first
	obtained string            // the last token that this process was granted
	outdated string            // key of the stored identity whose token was replaced by obtained; empty once that is stored
	renewal  renewal           // of the token in use
	serving  *serving          // nil if no identity is in use
	running  bool              // an identity has been used or requested
	stuck    bool              // use did not return after its context was canceled
	stage    registering.Stage // as last reported
	reason   string            // as last reported

	// Recovery.
	kept       recovery.Kept                     // content of the recovery Secret
	unkept     *protocol.RecoveryData            // given with the identity in use, but not stored yet; nil if it is stored
	loss       loss                              // since when there has been no identity that the hub accepts
	recovering *attempt                          // with the recovery token; nil before the first
	reported   atomic.Pointer[fleet.AgentStatus] // what the next heartbeat reports of the recovery Secret
}

func (a *agent) now() time.Time { return a.Clock() }

// attempt records what this process did with one bootstrap secret, or with one recovery token.
type attempt struct {
	registering.Attempt
	bootstrap  protocol.Bootstrap
	isRecovery bool
	access     hubclient.Access  // after applying the TLS mode; set once a request was made
	hub        hubclient.Hub     // client for access
	reminded   time.Time         // when the missing grant was last logged, or the request was made
	warned     bool              // the incomplete credential was logged
	granted    protocol.Recovery // together with the credential; the zero value if the hub gives none
}

// grantedAccess returns the access of the granted identity: the address and CA of the request, with the new token.
func (at *attempt) grantedAccess() hubclient.Access {
	access := at.access
	access.Token, access.Namespace = at.Credential.Token, at.Credential.DeploymentNamespace
	return access
}

// serving is an identity in use.
type serving struct {
	key string
	// collects is the garbage collection interval. It is the only setting that matters to the running work: a new
	// interval restarts the work.
	collects time.Duration
	token    *atomic.Pointer[string] // in use
	cancel   context.CancelFunc
	done     chan struct{} // closed when use has returned
	err      error         // the error it returned
}

// renewal is when the token in use is renewed next.
type renewal struct {
	token    string
	due      time.Time
	document string // the hub document that was read for it
}

// loss is since when the agent has had no identity that the hub accepts, and a random number for this loss.
type loss struct {
	since  time.Time
	chance int
}
