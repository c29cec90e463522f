// Package deploy turns the BundleDeployments of one cluster into Helm releases, and reports on them. It is
// the only user of Helm's actions in the product.
//
//	BundleDeployment ─► decide ─► Content, values ─► chart ─► Helm release ─► objects ─► status
//	                      ▲                                                      │
//	                      └────────────── metadata of what was deployed ◄────────┘
//
// Rules are in files without clients: placing, decide, style, chart, overlay, postrender, values, revisions,
// observe, report, status. releaser runs Helm; objectclient is how Helm reaches the API server; watches
// follow what was deployed.
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

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// stopGrace is how long operations on releases may go on once the agent was told to stop. What is not done
// by then is cut off, and recovered by whoever starts next.
const stopGrace = 2 * time.Second

// deployer is a running agent's deployer.
type deployer struct {
	Options
	log      *slog.Logger
	stopped  chan struct{}
	slots    slots
	hub      *hub
	agent    *identity
	metadata metadata.Interface
	seal     *seal
	releaser *releaser
	watches  *watches
	// copyWatches follow what was copied downstream, copyUsers are who has it copied.
	copyWatches *watches
	copyUsers   *copyUsers
	manifests   manifests
	queue       workqueue.TypedRateLimitingInterface[string]
	records     *records
	inventory   *inventory
	orphans     orphans
	beginning   *beginning
	waiting     *nameSet // BundleDeployments that wait for others
	rewound     *nameSet // BundleDeployments whose hub was restored from before their last version
	lacking     *nameSet // BundleDeployments with kinds the API server does not know
	left        *nameSet // BundleDeployments that are gone and may have left copies
	accounts    *accounts
	awaited     *awaited
	bells       *bells
}

func newDeployer(options Options) (*deployer, error) {
	d := &deployer{
		Options: options, log: options.Log, stopped: make(chan struct{}), slots: make(slots, options.Workers),
		records: newRecords(), inventory: newInventory(), orphans: orphans{}, beginning: newBeginning(), waiting: newNameSet(), lacking: newNameSet(), left: newNameSet(), rewound: newNameSet(),
		bells: newBells(), manifests: newManifests(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(newBackoff(options.Random),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "bundledeployments"}),
	}
	var err error
	if d.hub, err = newHub(withBounds(options.Hub, d.stopped), options.Namespace); err != nil {
		return nil, err
	}
	local := withBounds(options.Local, d.stopped)
	known, err := newKinds(local, options.Clock)
	if err != nil {
		return nil, err
	}
	if d.agent, err = newIdentity(local, known); err != nil {
		return nil, err
	}
	if d.metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(local), d.agent.http); err != nil {
		return nil, fmt.Errorf("making a client for metadata: %w", err)
	}
	d.seal = &seal{secrets: d.agent.clientset.CoreV1().Secrets(options.AgentNamespace), named: d.inventory.revision}
	d.releaser = &releaser{Agent: d.agent, Stopped: d.stopped, Clock: options.Clock, Slots: d.slots, Seal: d.seal}
	d.accounts = newAccounts(d.agent, options.AgentNamespace)
	d.watches = newWatches(d.metadata, options.Clock, d.objectChanged, d.enqueueAll)
	d.copyUsers = newCopyUsers()
	d.copyWatches = newWatchesOf(fleet.LabelBundleDeployment, d.metadata, options.Clock, d.copyChanged, d.enqueueAll)
	d.awaited = newAwaited(d.metadata, d.enqueueAll)
	if _, err := d.hub.informer.AddEventHandler(d.handlers()); err != nil {
		return nil, fmt.Errorf("listening to BundleDeployments: %w", err)
	}
	// Helm's libraries print values with the standard logger, which nothing else here uses.
	log.SetOutput(io.Discard)
	return d, nil
}

// run works until ctx ends.
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
	d.copyWatches.stop()
	d.awaited.stop()
	group.Wait()
	if cut.Stop() {
		close(d.stopped)
	}
	return nil
}

// learnKinds asks the API server for its kinds ahead of the first deployment. Whatever goes wrong shows
// again when they are needed.
func (d *deployer) learnKinds() {
	if _, err := d.agent.known(); err != nil {
		d.log.Debug("the API server's kinds are not known yet", "error", err)
	}
}

// work takes BundleDeployments from the queue, each into a goroutine of its own, as many at a time as there are slots.
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
	// What was begun may be ended after ctx, within stopGrace.
	err := guarded(func() error { return d.reconcile(context.WithoutCancel(ctx), name) })
	if err == nil {
		d.queue.Forget(name)
		return
	}
	d.log.Warn("bundle deployment will be tried again", "bundledeployment", d.Namespace+"/"+name, "error", err)
	d.queue.AddRateLimited(name)
}

// guarded turns a panic into an error: charts are programs of others, and one of them must not take down
// the deployment of all.
func guarded(do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return do()
}

// enqueueAll has BundleDeployments looked at.
func (d *deployer) enqueueAll(names []string) {
	for _, name := range names {
		d.queue.Add(name)
	}
}
