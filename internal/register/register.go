package register

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	"github.com/fleet-hub/fleet/internal/register/pace"
	"github.com/fleet-hub/fleet/internal/register/recovery"
	"github.com/fleet-hub/fleet/internal/register/stored"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

var (
	// errEnded means that the callback returned although its context was not canceled.
	errEnded = errors.New("the agent's work ended by itself")
	// errStuck means that the callback did not return after its context was canceled. A process that holds the lease
	// and does nothing would keep other replicas from working.
	errStuck = errors.New("the agent's work did not end after its context was canceled")
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
	// OnStage is called when the stage or its reason changes. The reason is empty for Use. Nil disables the
	// callback.
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
	// RecoveryKey returns the agent's public key, or "" before it was read.
	RecoveryKey func() string
	// RecoveryTicket returns the receipt of the recovery data that the agent has, or "". See identity.Receipt.
	RecoveryTicket func() string
	// HubSerial returns the serial of the last hub document that the agent stored, or 0.
	HubSerial func() int64
	// ClusterNamespace and ClusterName identify the Cluster of this agent.
	ClusterNamespace, ClusterName string
	// DeploymentNamespace is the namespace of its BundleDeployments on the hub.
	DeploymentNamespace string
	// Config is ConfigMap fleet-agent, or the zero value if it is missing or malformed.
	Config config.Agent
}

// Run calls use with a proven identity and keeps testing that identity. If there is no identity, Run registers
// for one. When the identity is lost, Run cancels use's context, waits until use has returned, and starts over
// with the next identity. Run returns nil when ctx ends, and use's error if use returns on its own. Otherwise it
// returns one of the sentinels of rules/registering with a remedy, when only a human or another replica can
// help.
func Run(ctx context.Context, o Options, use func(context.Context, Session) error) error {
	a := newAgent(o, use)
	ctx, cancel := context.WithCancel(ctx)
	watching := a.stored().Watch(ctx, a.seen, a.changed)
	defer func() { cancel(); watching.Wait() }()
	defer a.stopServing()
	for ctx.Err() == nil {
		if a.stuck {
			return errStuck
		}
		if a.ended() {
			return a.serving.outcome()
		}
		if !a.pause(ctx, a.looks.Until(a.now())) {
			continue
		}
		state, err := a.observe(ctx)
		if err != nil {
			if ctx.Err() == nil {
				a.log.Warn("reading the agent's Secrets and ConfigMap failed, trying again", "error", err)
			}
			a.looks.Tried(a.now(), err)
			continue
		}
		a.looks.Reset()
		step := registering.Decide(state)
		a.reportStage(step)
		if err := a.act(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// agent is the state that Run keeps between two looks.
type agent struct {
	Options
	log *slog.Logger
	use func(context.Context, Session) error

	changed  chan struct{}     // one of the agent's Secrets, or its configuration, may have changed
	seen     *stored.Sightings // what the watches have reported of them
	rejected chan struct{}     // the hub rejected a request of the identity in use

	looks, asks, moves, proofs, requests, renewals, writes, tokens, recoveries, keeps, refreshes, documents pace.Pace

	found   stored.Objects      // result of the last look
	current bool                // nothing has changed since that look, so that the next one is not needed
	verdict registering.Verdict // on the stored identity, at its own address
	moved   registering.Verdict // on the stored identity, at the address in the bootstrap secret
	there   hubclient.Access    // the access of that test
	stuck   bool                // use did not return after its context was canceled
	running bool                // an identity has been used or requested
	used    bool                // the current bootstrap secret was used
	serving *serving            // nil if no identity is in use
	attempt *attempt            // with the current bootstrap secret; nil before the first
	renewal renewal             // of the token in use

	kept       kept     // the recovery Secret
	loss       loss     // since when there has been no identity that the hub accepts
	recovering *attempt // with the recovery token; nil before the first
	reported   *atomic.Pointer[reported]

	obtained string            // the last token that this process was granted
	stage    registering.Stage // as last reported
	reason   string
}

// attempt records what this process did with one bootstrap secret, or with one recovery token.
type attempt struct {
	registering.Attempt
	bootstrap  protocol.Bootstrap
	isRecovery bool
	access     hubclient.Access  // after applying the TLS mode; set once a request was made
	hub        hubclient.Hub     // client for access
	reminded   time.Time         // when the missing grant was last logged
	warned     bool              // the incomplete credential was logged
	granted    protocol.Recovery // together with the credential; the zero value if the hub gives none
}

func newAgent(o Options, use func(context.Context, Session) error) *agent {
	if o.Connect == nil {
		o.Connect = hubclient.Connect
	}
	if o.FetchDocument == nil {
		o.FetchDocument = recovery.Fetch
	}
	a := &agent{Options: o, log: o.Log, use: use, changed: make(chan struct{}, 1), rejected: make(chan struct{}, 1), seen: stored.NewSightings()}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	for p, long := range map[*pace.Pace]time.Duration{
		&a.looks: longPause, &a.asks: longPause, &a.requests: longPause, &a.writes: longPause,
		&a.moves: longMovePause, &a.renewals: longRenewalPause,
	} {
		*p = pace.New(firstPause, long, o.Random)
	}
	a.recoveries = pace.New(firstRecoveryPause, longRecoveryPause, o.Random)
	a.documents = pace.New(firstRecoveryPause, longDocumentPause, o.Random)
	a.keeps = pace.New(firstPause, longKeepPause, o.Random)
	a.refreshes = pace.New(firstRefreshPause, longRefreshPause, o.Random)
	a.reported = &atomic.Pointer[reported]{}
	a.tokens = pace.New(firstTokenPause, longTokenPause, o.Random)
	a.proofs = pace.New(firstProofPause, longProofPause, o.Random)
	return a
}

func (a *agent) now() time.Time { return a.Clock() }

// reportStage reports the stage if it or its reason has changed.
func (a *agent) reportStage(step registering.Outcome) {
	reason := string(step.Awaited)
	if step.Err != nil {
		reason = step.Err.Error()
	}
	if step.Stage == a.stage && reason == a.reason {
		return
	}
	a.stage, a.reason = step.Stage, reason
	a.log.Debug("next step", "stage", step.Stage, "reason", reason)
	if step.Stage == registering.AwaitBootstrap {
		a.log.Error("Failed to register agent", "error", step.Err)
	}
	if a.OnStage != nil {
		a.OnStage(step.Stage, reason)
	}
}

// act performs the step, or as much of it as is possible without another look. An error ends Run.
func (a *agent) act(ctx context.Context, step registering.Outcome) error {
	if step.Stage != registering.Use {
		a.stopServing()
	}
	switch step.Stage {
	case registering.Use:
		a.serveStep(ctx, step)
	case registering.Request:
		a.requestStep(ctx, step)
	case registering.Await:
		a.awaitStep(ctx, step)
	case registering.AwaitBootstrap:
		if step.AskAgain {
			a.ask(ctx, step)
			return nil
		}
		a.pause(ctx, longPause)
	case registering.GiveUp:
		return step.Err
	}
	return nil
}

func (a *agent) awaitStep(ctx context.Context, step registering.Outcome) {
	switch step.Awaited {
	case registering.AnswerToStored, registering.AnswerElsewhere:
		a.ask(ctx, step)
	case registering.GrantedCredential:
		a.fetchCredential(ctx, a.attemptOf(step))
	case registering.AnswerToCredential:
		a.proveCredential(ctx, a.attemptOf(step))
	case registering.RecoveryTurn:
		a.awaitTurn(ctx, step)
	case registering.HubDocument:
		a.consultDocument(ctx, step)
	}
}

// pause waits for d. It returns early if one of the agent's Secrets or its configuration changes, or if the work
// ends. It reports whether d has passed.
func (a *agent) pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	var ended chan struct{} // a nil channel never fires: nothing is in use
	if a.serving != nil {
		ended = a.serving.done
	}
	select {
	case <-timer.C:
		return true
	case <-a.changed:
	case <-ended:
	case <-ctx.Done():
	}
	return false
}
