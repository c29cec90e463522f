package register

import (
	"context"
	"log/slog"

	"github.com/fleet-hub/fleet/internal/register/hubclient"
	"github.com/fleet-hub/fleet/internal/register/recovery"
	"github.com/fleet-hub/fleet/internal/register/stored"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Run calls use with a proven identity and keeps testing that identity. Without an identity, Run registers for one.
// When the identity is lost, Run cancels use's context, waits until use has returned, and starts over with the next
// identity. Run returns nil when ctx ends, and use's error if use returns on its own. Otherwise it returns one of the
// sentinels of rules/registering with a remedy, when only a human or another replica can help.
func Run(ctx context.Context, o Options, use func(context.Context, Session) error) error {
	a := newAgent(o, use)
	ctx, cancel := context.WithCancel(ctx)
	watching := a.store.Watch(ctx, a.seen, a.changed)
	defer func() { cancel(); watching.Wait() }()
	defer a.stopServing()
	for ctx.Err() == nil {
		if a.stuck {
			return errStuck
		}
		if a.ended() {
			return a.serving.outcome()
		}
		a.keepToken(ctx)
		if !a.pause(ctx, a.looks.Until(a.now())) {
			continue
		}
		state, err := a.observe(ctx)
		if err != nil {
			a.lookAgain(ctx, err)
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

// lookAgain schedules another read of the agent's objects after an error. Until then it tests the identity in use, because only an
// accepted one renews its token.
func (a *agent) lookAgain(ctx context.Context, err error) {
	if ctx.Err() == nil {
		a.log.Warn("reading the agent's Secrets and ConfigMap failed, trying again", "error", err)
	}
	a.looks.Tried(a.now(), err)
	if a.isServing() && a.answer.Answer != registering.Accepted && a.probes.Until(a.now()) <= 0 {
		a.probeStored(ctx, 0)
	}
}

func newAgent(o Options, use func(context.Context, Session) error) *agent {
	if o.Connect == nil {
		o.Connect = hubclient.Connect
	}
	if o.FetchDocument == nil {
		o.FetchDocument = recovery.Fetch
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &agent{
		Options: o, log: o.Log, use: use, retries: newRetries(o.Random), seen: stored.NewWatchedVersions(),
		changed: make(chan struct{}, 1), rejected: make(chan struct{}, 1),
		store:  stored.Store{Local: o.Local, Namespace: o.Namespace, Log: o.Log},
		keeper: recovery.Store{Local: o.Local, Namespace: o.Namespace, Log: o.Log},
	}
	a.reported.Store(&fleet.AgentStatus{})
	return a
}

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
		if a.stopServing(); a.stuck {
			return errStuck
		}
	}
	switch step.Stage {
	case registering.Use:
		a.serveStep(ctx, step)
	case registering.Request:
		a.requestStep(ctx, step)
	case registering.Await:
		a.awaitStep(ctx, step)
	case registering.AwaitBootstrap:
		if step.ProbeStored {
			a.probe(ctx, step)
		} else {
			a.pause(ctx, longPause)
		}
	case registering.GiveUp:
		return step.Err
	}
	return nil
}

func (a *agent) awaitStep(ctx context.Context, step registering.Outcome) {
	switch step.Awaited {
	case registering.AnswerToStored, registering.AnswerElsewhere:
		a.probe(ctx, step)
	case registering.GrantedCredential:
		a.fetchCredential(ctx, step)
	case registering.AnswerToCredential:
		a.proveCredential(ctx, a.attemptOf(step))
	case registering.RecoveryTurn:
		a.awaitTurn(ctx, step)
	case registering.HubDocument:
		a.consultDocument(ctx, step)
	}
}
