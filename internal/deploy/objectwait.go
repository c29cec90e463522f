package deploy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/kube"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/resource"
)

const (
	// lookAnyway is the longest pause between two looks while a deployment waits for its objects, because its options
	// say so: for what no event tells, an API server that did not answer for one.
	lookAnyway = 5 * time.Second
	// firstLook and lastLook bound the growing pause between two looks for something to be gone where nothing tells.
	firstLook = 50 * time.Millisecond
	lastLook  = 2 * time.Second
)

// news tell an operation that waits when to look again.
type news struct {
	// follow begins to watch the objects of resources.
	follow func(map[schema.GroupVersionResource]bool)
	// listen begins to listen, until stop.
	listen func() (heard <-chan struct{}, stop func())
}

// newsOf are what may matter to an operation on the release of a BundleDeployment: its objects, CRDs, and that
// something else is wanted. What is watched is what will be watched of the release afterwards.
func (d *deployer) newsOf(name, hash string) *news {
	return &news{
		follow: func(resources map[schema.GroupVersionResource]bool) { d.watches.follow(name, resources) },
		listen: func() (<-chan struct{}, func()) {
			return d.bells.listen(bundleBell(name), setBell(hash), crdBell)
		},
	}
}

// about listens to what may happen to objects; without news nothing is ever heard.
func (n *news) about(list kube.ResourceList) (heard <-chan struct{}, stop func()) {
	if n == nil {
		return nil, func() {}
	}
	heard, stop = n.listen()
	resources := map[schema.GroupVersionResource]bool{}
	for _, info := range list {
		resources[info.Mapping.Resource] = true
	}
	n.follow(resources)
	return heard, stop
}

// errSuperseded means that nobody wants any more what is being waited for.
var errSuperseded = errors.New("given up for a newer state of the bundle")

// errNotReadyInTime carries the words by which such a failure is recognised.
var errNotReadyInTime = errors.New("timed out waiting for the condition")

// Wait implements kube.Interface: it returns when all objects are ready.
func (c *objectClient) Wait(list kube.ResourceList, timeout time.Duration) error {
	checker := kube.NewReadyChecker(c.identity.clientset, c.Log, kube.PausedAsReady(true))
	return c.wait(list, timeout, &checker)
}

// WaitWithJobs implements kube.Interface: it returns when all objects are ready and all jobs done.
func (c *objectClient) WaitWithJobs(list kube.ResourceList, timeout time.Duration) error {
	checker := kube.NewReadyChecker(c.identity.clientset, c.Log, kube.PausedAsReady(true), kube.CheckJobs(true))
	return c.wait(list, timeout, &checker)
}

// readyChecker tells whether an object is ready.
type readyChecker interface {
	IsReady(ctx context.Context, info *resource.Info) (bool, error)
}

func (c *objectClient) wait(list kube.ResourceList, timeout time.Duration, checker readyChecker) error {
	defer c.slots.lend()()
	ctx, cancel := c.until(timeout)
	defer cancel()
	heard, stop := c.news.about(list)
	defer stop()
	for first := 0; ; {
		if c.isSuperseded() {
			return errSuperseded
		}
		// The one that was not ready is asked for first: as long as it is not, no other has to be.
		var err error
		first, err = unready(ctx, checker, list, first)
		if first < 0 {
			return nil
		}
		if !listen(ctx, heard, lookAnyway) {
			return c.waited(ctx, describeInfo(list[first])+" is not ready", err)
		}
	}
}

// unready is the first object that is not ready, beginning with some one, and why that is not known, if it is not; -1
// if all are ready. An API server that does not answer now may do so in time.
func unready(ctx context.Context, checker readyChecker, list kube.ResourceList, first int) (int, error) {
	for i := range list {
		at := (first + i) % len(list)
		if ready, err := checker.IsReady(ctx, list[at]); err != nil || !ready {
			return at, err
		}
	}
	return -1, nil
}

// listen waits until something was heard, and what comes with it, or for a time; false means that ctx has ended.
func listen(ctx context.Context, heard <-chan struct{}, atMost time.Duration) bool {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-heard:
	}
	timer.Reset(gatherChanges)
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	select {
	case <-heard: // and so has been what came meanwhile
	default:
	}
	return true
}

// WaitForDelete implements kube.InterfaceExt: it returns when all objects, those of hooks, are gone.
func (c *objectClient) WaitForDelete(list kube.ResourceList, timeout time.Duration) error {
	defer c.slots.lend()()
	ctx, cancel := c.until(timeout)
	defer cancel()
	for _, info := range list {
		for pause := firstLook; !apierrors.IsNotFound(info.Get()); pause = min(2*pause, lastLook) {
			if !c.awaitChange(ctx, info, pause) {
				return c.waited(ctx, describeInfo(info)+" is still there", nil)
			}
		}
	}
	return nil
}

// awaitChange returns when an object has changed or gone since it was read. Who may not watch it looks again after a
// pause. It reports false when ctx has ended.
func (c *objectClient) awaitChange(ctx context.Context, info *resource.Info, pause time.Duration) bool {
	watching, err := c.helper(info).WatchSingle(info.Namespace, info.Name, info.ResourceVersion)
	if err != nil {
		return listen(ctx, nil, pause)
	}
	defer watching.Stop()
	timer := time.NewTimer(lookAnyway)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case event, open := <-watching.ResultChan():
		if !open || event.Type == watch.Error {
			return listen(ctx, nil, pause)
		}
		return true
	}
}

// WatchUntilReady implements kube.Interface, for hooks: it returns when their jobs are done, which Helm watches. Helm's
// own knows no way to end early; what is left of it ends with the timeout.
func (c *objectClient) WatchUntilReady(list kube.ResourceList, timeout time.Duration) error {
	defer c.slots.lend()()
	done := make(chan error, 1)
	go func() { done <- c.Client.WatchUntilReady(list, timeout) }()
	var heard <-chan struct{}
	if c.news != nil {
		listening, stop := c.news.listen()
		defer stop()
		heard = listening
	}
	for !c.isSuperseded() {
		select {
		case err := <-done:
			return err
		case <-c.stopped:
			return errStopped
		case <-heard:
		}
	}
	return errSuperseded
}

// isSuperseded asks whether what is being made is still wanted.
func (c *objectClient) isSuperseded() bool { return c.superseded != nil && c.superseded() }

// until is a context that ends after a time, or when the agent stops.
func (c *objectClient) until(timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	go func() {
		select {
		case <-c.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// waited tells why waiting has ended before what was waited for had come, and why that is not known if it is not.
func (c *objectClient) waited(ctx context.Context, missing string, unknown error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return errStopped
	case unknown != nil && !errors.Is(unknown, context.DeadlineExceeded):
		return fmt.Errorf("%w: %s, as far as is known: %w", errNotReadyInTime, missing, unknown)
	}
	return fmt.Errorf("%w: %s", errNotReadyInTime, missing)
}
