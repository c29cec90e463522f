// Package deploy turns the BundleDeployments of one cluster into Helm releases and reports their status. No other
// package of the product runs Helm's actions.
//
//	BundleDeployment ─► decide ─► Content, values ─► chart ─► Helm release ─► objects ─► status
//	                      ▲                                                      │
//	                      └────────────── metadata of deployed objects ◄─────────┘
//
// Rules are in files without clients: placing, decide, style, chart, overlay, postrender, values, revisions,
// observe, report, status. The releaser runs Helm, objectclient connects Helm to the API server, and watches watch
// the deployed objects.
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
)

// stopGrace is the time that Helm operations get to finish after the agent was asked to stop. Operations that are
// not finished by then are interrupted; the next agent process recovers them.
const stopGrace = 2 * time.Second

// deployer holds the clients, caches and queues of a running agent.
type deployer struct {
	Options
	log        *slog.Logger
	stopped    chan struct{}
	slots      slots
	hub        *hub
	agent      *identity
	metadata   metadata.Interface
	reader     *reader
	releaser   *releaser
	watches    *watches
	observer   *observer
	copier     *copier
	queue      workqueue.TypedRateLimitingInterface[string]
	records    *records
	inventory  *inventory
	orphans    orphans
	waiting    *nameSet // BundleDeployments that wait for others
	rewound    *nameSet // BundleDeployments with an older version than before, because the hub was restored from a backup
	lacking    *nameSet // BundleDeployments with kinds that the API server does not know
	left       *nameSet // deleted BundleDeployments that may have left copies
	accounts   *accounts
	namespaces *namespaces
	awaited    *awaited
	bells      *bells
}

func newDeployer(options Options) (*deployer, error) {
	d := &deployer{
		Options: options, log: options.Log, stopped: make(chan struct{}), slots: make(slots, options.Workers),
		records: newRecords(), inventory: newInventory(), orphans: orphans{}, waiting: newNameSet(), lacking: newNameSet(), left: newNameSet(), rewound: newNameSet(),
		bells: newBells(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(newBackoff(options.Random),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "bundledeployments"}),
	}
	var err error
	if d.hub, err = newHub(withBounds(options.Hub, d.stopped), options.Namespace); err != nil {
		return nil, err
	}
	local := withBounds(options.Local, d.stopped)
	if d.agent, err = newAgent(local, options.Clock); err != nil {
		return nil, err
	}
	if d.metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(local), d.agent.http); err != nil {
		return nil, fmt.Errorf("making a client for metadata: %w", err)
	}
	sealed := newSeal(d.agent.clientset.CoreV1().Secrets(options.AgentNamespace), d.inventory.revision)
	d.reader = newReader(d.agent, d.metadata, options.AgentNamespace, sealed, options.Clock, d.stopped)
	d.releaser = &releaser{Agent: d.agent, Stopped: d.stopped, Clock: options.Clock, Slots: d.slots, Seal: sealed}
	d.accounts = newAccounts(d.agent, options.AgentNamespace)
	d.namespaces = newNamespaces(d.agent, d.accounts)
	d.watches = newWatches(d.metadata, options.Clock, d.objectChanged, d.enqueueAll)
	d.observer = &observer{
		Agent: d.agent, Accounts: d.accounts, Metadata: d.metadata, Watches: d.watches, Clock: options.Clock,
		Revision: d.reader.objects, Cleaner: d.cleaner, Again: d.queue.AddAfter,
	}
	d.copier = newCopier(copyOptions{
		Hub: d.hub, Accounts: d.accounts, Namespaces: d.namespaces, Metadata: d.metadata, AgentNamespace: options.AgentNamespace, Namespace: options.Namespace,
		Log: d.log, Clock: options.Clock, Random: options.Random, Again: d.queue.AddAfter, Changed: d.enqueueChanged, Synced: d.enqueueAll,
	})
	d.awaited = newAwaited(d.metadata, d.enqueueAll)
	if _, err := d.hub.informer.AddEventHandler(d.handlers()); err != nil {
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
	group.Go(func() { d.hub.informer.RunWithContext(watching) })
	group.Go(func() { d.watchKinds(watching) })
	group.Go(func() { d.learnKinds() })
	if cache.WaitForCacheSync(ctx.Done(), d.hub.informer.HasSynced) {
		d.OnWatching(d.hub.all)
		d.rememberAll()
		group.Go(func() { d.collect(ctx) })
		group.Go(func() { d.work(ctx, &group) })
		<-ctx.Done()
	}
	stopWatching()
	d.queue.ShutDown()
	cut := time.AfterFunc(stopGrace, func() { close(d.stopped) })
	d.watches.stop()
	d.copier.stop()
	d.awaited.stop()
	group.Wait()
	if cut.Stop() {
		close(d.stopped)
	}
	return nil
}

// learnKinds runs API discovery before the first deployment needs it. Errors are only logged: the deployment runs
// discovery again.
func (d *deployer) learnKinds() {
	if _, err := d.agent.known(); err != nil {
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
		d.slots.take()
		group.Go(func() {
			defer d.slots.free()
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

// enqueueAll enqueues BundleDeployments.
func (d *deployer) enqueueAll(names []string) {
	for _, name := range names {
		d.queue.Add(name)
	}
}

// enqueueChanged enqueues BundleDeployments after a change of their objects.
func (d *deployer) enqueueChanged(names []string) {
	for _, name := range names {
		d.queue.AddAfter(name, gatherChanges)
	}
}
