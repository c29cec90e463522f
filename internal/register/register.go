// Package register gets the agent its identity on the hub and keeps watch over it.
//
//	look (three local objects, what the hub said) ─► registering.Decide ─► do it ─► look again
//
// The decisions are registering.Decide's. Here is what they need: reading, asking, writing, waiting.
package register

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/rules/registering"
)

var (
	// errEnded means that what used the identity returned though nobody asked it to.
	errEnded = errors.New("the agent's work ended by itself")
	// errStuck means that it did not return though it was asked to: a process that holds the lease and does nothing
	// would keep others from working.
	errStuck = errors.New("the agent's work did not end when its identity was taken out of use")
)

// Options of Run.
type Options struct {
	// Local is the agent's own cluster. Its client must not have a timeout, for it is also used for watches.
	Local kubernetes.Interface
	// Namespace is the agent's own: Secrets fleet-agent and fleet-agent-bootstrap and ConfigMap fleet-agent
	// are there.
	Namespace string
	// Pod is the host name of the agent, a label of the requests it makes. Empty: no such label.
	Pod string
	// Clock says what time it is. Required.
	Clock func() time.Time
	// Random is where request names and the spread of pauses come from, crypto/rand.Reader but in tests.
	Random io.Reader
	// Log is told what happens. Nil: nobody is told.
	Log *slog.Logger
	// Connect makes the client for one identity. Nil: a client of the API server the configuration names.
	Connect func(*rest.Config) (Hub, error)
	// OnStage is called when the stage changes, with the reason for one that is not Use. Nil: nobody is told.
	OnStage func(stage registering.Stage, reason string)
}

// Session is a proven identity, and what goes with it.
type Session struct {
	// Hub reaches the hub as this identity: no rate limit, no timeout. What the hub answers to it is listened
	// to: 401, 403 and an untrusted CA make Run ask whether the identity still works.
	Hub *rest.Config
	// ClusterNamespace and ClusterName are the Cluster this agent speaks for.
	ClusterNamespace, ClusterName string
	// DeploymentNamespace is where on the hub its BundleDeployments are.
	DeploymentNamespace string
	// Config is ConfigMap fleet-agent, the zero value if it is missing or malformed.
	Config config.Agent
}

// Run calls use with a proven identity, registering for one if there is none, and sees that it stays
// proven. When the identity is lost, use's context is canceled; once use has returned, Run starts over and
// calls use again with the next. It returns nil when ctx ends, the error of use if that returns by itself,
// and else one of the sentinels of rules/registering in a sentence that says what to do: nothing but a human or another
// replica would help.
func Run(ctx context.Context, o Options, use func(context.Context, Session) error) error {
	a := newAgent(o, use)
	ctx, cancel := context.WithCancel(ctx)
	watching := watchOwn(ctx, o.Local, o.Namespace, a.changed)
	defer func() { cancel(); watching.Wait() }()
	defer a.stopServing()
	for ctx.Err() == nil {
		if a.stuck {
			return errStuck
		}
		if a.ended() {
			return a.serving.outcome()
		}
		if !a.pause(ctx, a.looks.until(a.now())) {
			continue
		}
		state, err := a.look(ctx)
		if err != nil {
			if ctx.Err() == nil {
				a.log.Warn("reading the agent's secrets, trying again", "error", err)
			}
			a.looks.tried(a.now(), err)
			continue
		}
		a.looks.reset()
		step := registering.Decide(state)
		a.tell(step)
		if err := a.act(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// agent is what a Run remembers between two looks.
type agent struct {
	Options
	log *slog.Logger
	use func(context.Context, Session) error

	changed chan struct{} // a Secret of ours, or the configuration, may have changed
	doubted chan struct{} // the hub turned the serving identity away

	looks, asks, moves, proofs, requests, renewals, writes pace

	found   found               // the last look
	verdict registering.Verdict // on the stored identity
	moved   registering.Verdict // on it, where the bootstrap secret says the hub is
	there   Access              // by which that was asked
	stuck   bool                // what used an identity did not end when it was told
	running bool                // an identity has been used, or asked for
	used    bool                // the bootstrap secret at hand was of use
	serving *serving            // nil if none is
	attempt *attempt            // with the bootstrap secret at hand, nil before the first
	stage   registering.Stage   // as told last
	reason  string
}

// attempt is what this process did with one bootstrap secret.
type attempt struct {
	token      registering.Verdict
	access     Access // under the TLS mode, once a request was made
	hub        Hub    // the same
	request    *registering.PendingRequest
	reminded   time.Time // when it was last said that the request is not granted
	credential *protocol.Credential
	warned     bool // about a credential that is not whole
	proof      registering.Verdict
}

func newAgent(o Options, use func(context.Context, Session) error) *agent {
	if o.Connect == nil {
		o.Connect = connect
	}
	a := &agent{Options: o, log: o.Log, use: use, changed: make(chan struct{}, 1), doubted: make(chan struct{}, 1)}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	for p, long := range map[*pace]time.Duration{
		&a.looks: longPause, &a.asks: longPause, &a.requests: longPause, &a.writes: longPause,
		&a.moves: longMovePause, &a.renewals: longRenewalPause,
	} {
		*p = pace{first: firstPause, long: long, random: o.Random}
	}
	a.proofs = pace{first: firstProofPause, long: longProofPause, random: o.Random}
	return a
}

func (a *agent) now() time.Time { return a.Clock() }

// tell reports a stage once, when it or its reason is new.
func (a *agent) tell(step registering.Outcome) {
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

// act does the step, or as much of it as can be done without looking again. An error ends Run.
func (a *agent) act(ctx context.Context, step registering.Outcome) error {
	if step.Stage != registering.Use {
		a.stopServing()
	}
	switch step.Stage {
	case registering.Use:
		a.serveStep(ctx, step)
	case registering.Request:
		a.requestStep(ctx)
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
		a.fetchCredential(ctx)
	case registering.AnswerToCredential:
		a.proveCredential(ctx)
	}
}

// pause waits for d, or until a Secret of ours or the configuration changes or the work ends. It says whether d is over.
func (a *agent) pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	var ended chan struct{} // nil, which never happens, where nothing is in use
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
