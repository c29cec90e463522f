package deploy

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/bounded"
	"github.com/fleet-hub/fleet/internal/deploy/copies"
	"github.com/fleet-hub/fleet/internal/deploy/hub"
	"github.com/fleet-hub/fleet/internal/deploy/inventory"
	"github.com/fleet-hub/fleet/internal/deploy/namespaces"
	"github.com/fleet-hub/fleet/internal/deploy/pace"
	"github.com/fleet-hub/fleet/internal/deploy/release"
	"github.com/fleet-hub/fleet/internal/deploy/release/objects"
	"github.com/fleet-hub/fleet/internal/deploy/wakeups"
	"github.com/fleet-hub/fleet/internal/deploy/watch"
)

// stopGrace is the time that Helm operations get to finish after the agent was asked to stop. Operations that are
// not finished by then are interrupted; the next agent process recovers them.
const stopGrace = 2 * time.Second

// deployer holds the clients, caches and queues of a running agent.
type deployer struct {
	Options
	log        *slog.Logger
	stopped    chan struct{}
	slots      objects.Slots
	hub        *hub.Hub
	agent      *access.Identity
	metadata   metadata.Interface
	reader     *release.Reader
	releaser   *release.Releaser
	watches    *watch.Watches
	observer   *watch.Observer
	copier     *copies.Copier
	queue      workqueue.TypedRateLimitingInterface[string]
	records    *records
	inventory  *inventory.Inventory
	orphans    orphans
	accounts   *access.Accounts
	namespaces *namespaces.Namespaces
	wakeups    *wakeups.Wakeups
	// copiesFound is true when collect has looked for the copies of earlier processes.
	copiesFound bool
}

func newDeployer(options Options) (*deployer, error) {
	d := &deployer{
		Options: options, log: options.Log, stopped: make(chan struct{}), slots: make(objects.Slots, options.Workers),
		records: newRecords(), inventory: inventory.New(), orphans: orphans{},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(pace.NewBackoff(options.Random),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "bundledeployments"}),
	}
	var err error
	if d.hub, err = hub.New(access.WithBounds(options.Hub, d.stopped), options.Namespace); err != nil {
		return nil, err
	}
	local := access.WithBounds(options.Local, d.stopped)
	if d.agent, err = access.NewAgent(local, options.Clock); err != nil {
		return nil, err
	}
	if d.metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(local), d.agent.HTTP); err != nil {
		return nil, fmt.Errorf("making a client for metadata: %w", err)
	}
	sealed := release.NewSeal(d.agent.Clientset.CoreV1().Secrets(options.AgentNamespace), d.inventory.Revision)
	d.reader = release.NewReader(d.agent, d.metadata, options.AgentNamespace, sealed, options.Clock, d.stopped)
	renderings := bounded.New(bounded.Options{Stopped: d.stopped, Agent: options.setOf(options.OwnBundle), Journal: options.Journal, Clock: options.Clock, Log: options.Log})
	d.releaser = &release.Releaser{Agent: d.agent, Stopped: d.stopped, Clock: options.Clock, Slots: d.slots, Renderings: renderings, Seal: sealed, Namespace: options.AgentNamespace}
	d.accounts = access.NewAccounts(d.agent, options.AgentNamespace, options.OwnBundle)
	d.namespaces = namespaces.New(d.agent, d.accounts, options.Clock, d.hub.All, d.queue.AddAfter)
	d.watches = watch.NewSetWatches(d.metadata, options.Clock, d.objectChanged, d.enqueueAll)
	d.observer = &watch.Observer{
		Agent: d.agent, Accounts: d.accounts, Metadata: d.metadata, Watches: d.watches, Clock: options.Clock,
		Revision: d.reader.Objects, Cleaner: d.cleaner, Again: d.queue.AddAfter,
	}
	d.copier = copies.New(copies.Options{
		Hub: d.hub, Accounts: d.accounts, Namespaces: d.namespaces, Metadata: d.metadata, AgentNamespace: options.AgentNamespace, Namespace: options.Namespace,
		SetOf: options.setOf, Log: d.log, Clock: options.Clock, Random: options.Random, Again: d.queue.AddAfter, Changed: d.enqueueChanged, Synced: d.enqueueAll,
	})
	d.wakeups = wakeups.New(d.metadata, d.wake)
	if _, err := d.hub.Informer.AddEventHandler(d.handlers()); err != nil {
		return nil, fmt.Errorf("adding the event handler for BundleDeployments: %w", err)
	}
	// Helm's libraries print values with the standard logger. Nothing else uses it here.
	log.SetOutput(io.Discard)
	return d, nil
}

// run reconciles BundleDeployments until ctx is cancelled.
func (d *deployer) run(ctx context.Context) error {
	watching, stopWatching := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { d.hub.Informer.RunWithContext(watching) })
	group.Go(func() { d.watchKinds(watching) })
	group.Go(func() { d.learnKinds() })
	if cache.WaitForCacheSync(ctx.Done(), d.hub.Informer.HasSynced) {
		d.OnWatching(d.hub.All)
		d.rememberAll()
		group.Go(func() { d.collect(ctx) })
		group.Go(func() { d.work(ctx, &group) })
		<-ctx.Done()
	}
	stopWatching()
	d.queue.ShutDown()
	cut := time.AfterFunc(stopGrace, func() { close(d.stopped) })
	d.watches.Stop()
	d.copier.Stop()
	d.wakeups.Stop()
	group.Wait()
	if cut.Stop() {
		close(d.stopped)
	}
	d.releaser.Renderings.Close()
	return nil
}

// learnKinds runs API discovery before the first deployment needs it, which repeats it after an error.
func (d *deployer) learnKinds() {
	if _, err := d.agent.Capabilities(); err != nil {
		d.log.Debug("API discovery failed and will be repeated", "error", err)
	}
}

// work takes BundleDeployments from the queue and reconciles each in its own goroutine, at most one per slot at a
// time.
func (d *deployer) work(ctx context.Context, group *sync.WaitGroup) {
	for {
		name, shutdown := d.queue.Get()
		if shutdown {
			return
		}
		d.slots.Take()
		group.Go(func() {
			defer d.slots.Free()
			d.workOn(ctx, name)
		})
	}
}

func (d *deployer) workOn(ctx context.Context, name string) {
	defer d.queue.Done(name)
	if ctx.Err() != nil {
		return
	}
	// An operation that has begun may finish after ctx was cancelled, within stopGrace.
	err := guarded(func() error { return d.reconcile(context.WithoutCancel(ctx), name) })
	if err == nil {
		d.queue.Forget(name)
		return
	}
	d.log.Warn("reconcile failed and will be retried", "bundledeployment", d.Namespace+"/"+name, "error", err)
	d.queue.AddRateLimited(name)
}

// guarded turns a panic into an error. Charts are untrusted programs, and a panic in one of them must not stop the
// deployment of others.
func guarded(do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return do()
}

// wake enqueues BundleDeployments after a change that may resolve an error, and ends the pause before the next attempt.
func (d *deployer) wake(names []string) {
	for _, name := range names {
		d.records.wake(name)
		d.queue.Add(name)
	}
}

func (d *deployer) enqueueAll(names []string) {
	for _, name := range names {
		d.queue.Add(name)
	}
}

// enqueueChanged enqueues BundleDeployments after a change of their objects.
func (d *deployer) enqueueChanged(names []string) {
	for _, name := range names {
		d.queue.AddAfter(name, objects.GatherChanges)
	}
}

// Run deploys the BundleDeployments of one namespace of the hub and reports their status, until ctx is cancelled.
// It then returns nil; it returns an error only if it could not start. It may be called again afterwards, also
// with another hub, but two calls must not overlap.
func Run(ctx context.Context, options Options) error {
	options, err := options.complete()
	if err != nil {
		return err
	}
	d, err := newDeployer(options)
	if err != nil {
		return err
	}
	return d.run(ctx)
}
