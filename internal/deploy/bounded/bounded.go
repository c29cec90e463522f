// Package bounded limits how long a worker waits for templates, values schemas and kustomizations, which cannot be cancelled,
// and how often one may end the agent's process.
//
//	Render ─► a place of the service account ─► ends ─► its result
//	                                       ├──► does not within Limit ─► an error; it is left running and keeps its place
//	                                       └──► ends the process ─► journal ─► the next process renders it alone, and later refuses it
package bounded

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	// Limit is the time that rendering may take. Large charts take some seconds.
	Limit = 5 * time.Minute
	// mostLeft is the number of renderings of one release that are left running, each for another deployment.
	mostLeft = 3
	// perAccount is the number of renderings of one service account that run at the same time, including those that are left
	// running. Otherwise a tenant could occupy the processor with any number of endless templates.
	perAccount = 8
	// mostEnded is the number of processes that one rendering may end. After the first, it runs alone among those that were
	// interrupted, which shows which of them it was.
	mostEnded = 3
	// refusal is the time for which a process refuses a rendering that has ended mostEnded processes.
	refusal = time.Hour
)

// Options are the parameters of New.
type Options struct {
	// Stopped is closed when the agent stops, which ends waiting.
	Stopped <-chan struct{}
	// Agent is the set of the agent's own Bundle. It needs no place and is never refused, so that other Bundles cannot prevent an
	// upgrade of the agent.
	Agent placement.Set
	// Journal is a directory that outlives the process, and ends with its pod. Empty means that renderings are not recorded.
	Journal string
	// Clock returns the time.
	Clock func() time.Time
	Log   *slog.Logger
}

// Renderings runs functions that render charts or build kustomizations. Those of one release must not overlap.
type Renderings struct {
	options Options
	started time.Time
	// alone is the place of the renderings that have ended a process.
	alone chan struct{}

	mu      sync.Mutex // guards the fields below
	journal *journal
	// running holds the deployments whose rendering has not ended.
	running map[placement.Release]map[string]bool
	// accounts holds the limit of each service account that has renderings.
	accounts map[string]*accountLimit
}

// accountLimit limits the renderings of one service account.
type accountLimit struct {
	taken chan struct{}
	// turn is the place of the one rendering that has Renderings.alone or waits for it. Without it, renderings of one account
	// could keep those of the others waiting.
	turn chan struct{}
	// stuck means that none became free within Limit.
	stuck atomic.Bool
	// users counts the renderings that run or wait. Renderings.mu guards it.
	users int
}

// New returns Renderings that end waiting when the agent stops. Close has to be called before the next ones use the same journal.
func New(options Options) *Renderings {
	return &Renderings{
		options: options, started: options.Clock(), alone: make(chan struct{}, 1), journal: openJournal(options.Journal, options.Log),
		running: map[placement.Release]map[string]bool{}, accounts: map[string]*accountLimit{},
	}
}

// Close records that the renderings that run are stopped on purpose.
func (r *Renderings) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for release, deployments := range r.running {
		for deployment := range deployments {
			r.journal.stop(release, deployment)
		}
	}
}

// Render calls render for a set and a service account, or "" for that of the agent, and returns its result. On nil it has no limit.
// After an error, render may still be running.
func (r *Renderings) Render(set placement.Set, account string, release placement.Release, deployment string, render func() (map[string]string, error)) (map[string]string, error) {
	if r == nil {
		return render()
	}
	if !r.begin(release, deployment) {
		return nil, tooLong("release %s is still being rendered by an earlier attempt", release)
	}
	leave, leaveTurn := func() {}, func() {}
	if set != r.options.Agent {
		ended, err := r.endedDuring(release, deployment)
		switch {
		case err == nil && ended:
			leave, leaveTurn, err = r.enterAlone(account, release)
		case err == nil:
			leave, err = r.enter(account)
		}
		if err != nil {
			r.end(release, deployment)
			return nil, err
		}
	}
	defer leaveTurn()
	r.record(r.journal.begin, release, deployment)
	type result struct {
		rendered map[string]string
		err      error
	}
	done := make(chan result, 1)
	go func() {
		var out result
		defer func() { done <- out }() // last, because the caller may try again at once
		defer r.end(release, deployment)
		defer leave()
		defer r.record(r.journal.end, release, deployment)
		defer func() {
			if cause := recover(); cause != nil {
				out.err = fmt.Errorf("panic: %v", cause)
			}
		}()
		out.rendered, out.err = render()
	}()
	timer := time.NewTimer(Limit)
	defer timer.Stop()
	select {
	case out := <-done:
		return out.rendered, out.err
	case <-r.options.Stopped:
		return nil, access.ErrStopped
	case <-timer.C:
		return nil, tooLong("rendering the chart of release %s has not ended within %s", release, Limit)
	}
}

// Run calls build like Render, for the kustomization of a deployment. It counts apart from the templates, which are rendered before it.
func (r *Renderings) Run(set placement.Set, account string, release placement.Release, deployment string, build func() error) error {
	_, err := r.Render(set, account, release, deployment+" kustomization", func() (map[string]string, error) { return nil, build() })
	return err
}

// endedDuring reports whether a process has ended during a rendering. It returns an error if too many have.
func (r *Renderings) endedDuring(release placement.Release, deployment string) (bool, error) {
	r.mu.Lock()
	ended := r.journal.endedDuring(release, deployment)
	r.mu.Unlock()
	if ended >= mostEnded && r.options.Clock().Before(r.started.Add(refusal)) {
		return true, outcome.Because(conditions.ReasonRenderingFailed, fmt.Errorf("the agent's process has ended %d times while it rendered the chart of release "+
			"%s, probably for lack of memory: correct what its templates or its kustomization produce, or raise the memory limit of the agent; "+
			"the agent tries this again %s after its start", ended, release, refusal))
	}
	return ended > 0, nil
}

// enterAlone is enter for a rendering during which a process has ended. Such renderings run one after the other, and leaveTurn lets
// the next one run. Only one of an account occupies a place while it waits.
func (r *Renderings) enterAlone(account string, release placement.Release) (leave, leaveTurn func(), err error) {
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	p := r.limitOf(account)
	if err := r.wait(p.turn, limit, release); err != nil {
		r.leave(account, p)
		return nil, nil, err
	}
	leaveOwn := func() {
		<-p.turn
		r.leave(account, p)
	}
	if leave, err = r.enter(account); err == nil {
		if err = r.wait(r.alone, limit, release); err == nil {
			return leave, func() { <-r.alone; leaveOwn() }, nil
		}
		leave()
	}
	leaveOwn()
	return nil, nil, err
}

// wait takes a place before limit fires.
func (r *Renderings) wait(place chan struct{}, limit *time.Timer, release placement.Release) error {
	select {
	case place <- struct{}{}:
		return nil
	case <-r.options.Stopped:
		return access.ErrStopped
	case <-limit.C:
		return tooLong("release %s waits for the rendering of another one", release)
	}
}

// begin counts a rendering. It returns false if too many of the release have not ended.
func (r *Renderings) begin(release placement.Release, deployment string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	running := r.running[release]
	if running[deployment] || len(running) >= mostLeft {
		return false
	}
	if running == nil {
		running = map[string]bool{}
		r.running[release] = running
	}
	running[deployment] = true
	return true
}

func (r *Renderings) end(release placement.Release, deployment string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.running[release], deployment); len(r.running[release]) == 0 {
		delete(r.running, release)
	}
}

// record changes the journal.
func (r *Renderings) record(change func(placement.Release, string), release placement.Release, deployment string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(release, deployment)
}

// enter takes a place of a service account, and returns the function that gives it back. It waits for one, unless no place became
// free in such a time before.
func (r *Renderings) enter(account string) (leave func(), err error) {
	p := r.limitOf(account)
	leave = func() {
		p.stuck.Store(false)
		<-p.taken
		r.leave(account, p)
	}
	defer func() {
		if err != nil {
			r.leave(account, p)
		}
	}()
	select {
	case p.taken <- struct{}{}:
		return leave, nil
	default:
	}
	if p.stuck.Load() {
		return nil, tooMany(account)
	}
	timer := time.NewTimer(Limit)
	defer timer.Stop()
	select {
	case p.taken <- struct{}{}:
		return leave, nil
	case <-r.options.Stopped:
		return nil, access.ErrStopped
	case <-timer.C:
		p.stuck.Store(true)
		return nil, tooMany(account)
	}
}

func (r *Renderings) limitOf(account string) *accountLimit {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.accounts[account]
	if p == nil {
		p = &accountLimit{taken: make(chan struct{}, perAccount), turn: make(chan struct{}, 1)}
		r.accounts[account] = p
	}
	p.users++
	return p
}

// leave forgets the limit of a service account without renderings.
func (r *Renderings) leave(account string, p *accountLimit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.users--; p.users == 0 {
		delete(r.accounts, account)
	}
}

// restart is the last step of a repair.
const restart = "restart the agent, which cannot stop a rendering, on its cluster: kubectl rollout restart -n AGENT-NAMESPACE deployment/" + names.Agent

func tooMany(account string) error {
	of := "service account " + account
	if account == "" {
		of = "Bundles without a service account"
	}
	return outcome.Because(conditions.ReasonRenderingFailed, fmt.Errorf("%d renderings of %s have not ended, which is the limit: correct the charts and "+
		"kustomizations of Bundles with reason RenderingFailed, then "+restart, perAccount, of))
}

func tooLong(format string, args ...any) error {
	return outcome.Because(conditions.ReasonRenderingFailed, fmt.Errorf(format+
		": a template, its values schema or its kustomization may be endless; correct it, then "+restart, args...))
}
