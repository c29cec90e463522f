package deploy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"helm.sh/helm/v3/pkg/kube"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// waitInterval is the pause between two looks while a deployment waits for its objects, because its options
// say so.
const waitInterval = 500 * time.Millisecond

const (
	// firstLook and lastLook bound the growing pause between two looks for something to be gone.
	firstLook = 50 * time.Millisecond
	lastLook  = 2 * time.Second
)

// errSuperseded means that nobody wants any more what is being waited for.
var errSuperseded = errors.New("given up for a newer state of the bundle")

// errNotReadyInTime carries the words by which such a failure is recognised.
var errNotReadyInTime = errors.New("timed out waiting for the condition")

// Wait implements kube.Interface: it returns when all objects are ready.
func (c *objectClient) Wait(list kube.ResourceList, timeout time.Duration) error {
	return c.wait(list, timeout, kube.NewReadyChecker(c.identity.clientset, c.Log, kube.PausedAsReady(true)))
}

// WaitWithJobs implements kube.Interface: it returns when all objects are ready and all jobs done.
func (c *objectClient) WaitWithJobs(list kube.ResourceList, timeout time.Duration) error {
	return c.wait(list, timeout,
		kube.NewReadyChecker(c.identity.clientset, c.Log, kube.PausedAsReady(true), kube.CheckJobs(true)))
}

func (c *objectClient) wait(list kube.ResourceList, timeout time.Duration, checker kube.ReadyChecker) error {
	defer c.slots.lend()()
	ctx, cancel := c.until(timeout)
	defer cancel()
	var notYet string
	err := wait.PollUntilContextCancel(ctx, waitInterval, true, func(ctx context.Context) (bool, error) {
		if c.isSuperseded() {
			return false, errSuperseded
		}
		for _, info := range list {
			ready, err := checker.IsReady(ctx, info)
			if err != nil || !ready {
				notYet = describeInfo(info)
				return false, nil //nolint:nilerr // an API server that does not answer now may do so in time
			}
		}
		return true, nil
	})
	return c.waited(ctx, err, notYet+" is not ready")
}

// WaitForDelete implements kube.InterfaceExt: it returns when all objects, those of hooks, are gone.
func (c *objectClient) WaitForDelete(list kube.ResourceList, timeout time.Duration) error {
	defer c.slots.lend()()
	ctx, cancel := c.until(timeout)
	defer cancel()
	var still string
	pauses := wait.Backoff{Duration: firstLook, Factor: 1.5, Cap: lastLook, Steps: math.MaxInt32}
	err := pauses.DelayFunc().Until(ctx, true, true, func(context.Context) (bool, error) {
		for _, info := range list {
			if err := info.Get(); !apierrors.IsNotFound(err) {
				still = describeInfo(info)
				return false, nil
			}
		}
		return true, nil
	})
	return c.waited(ctx, err, still+" is still there")
}

// WatchUntilReady implements kube.Interface, for hooks: it returns when their jobs are done. Helm's own knows
// no way to end early; what is left of it ends with the timeout.
func (c *objectClient) WatchUntilReady(list kube.ResourceList, timeout time.Duration) error {
	defer c.slots.lend()()
	done := make(chan error, 1)
	go func() { done <- c.Client.WatchUntilReady(list, timeout) }()
	ticker := time.NewTicker(waitInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-c.stopped:
			return errStopped
		case <-ticker.C:
			if c.isSuperseded() {
				return errSuperseded
			}
		}
	}
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

// waited tells why waiting ended.
func (c *objectClient) waited(ctx context.Context, err error, missing string) error {
	switch {
	case err == nil, errors.Is(err, errSuperseded):
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return errStopped
	}
	return fmt.Errorf("%w: %s", errNotReadyInTime, missing)
}
