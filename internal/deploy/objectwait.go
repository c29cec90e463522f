package deploy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/util/wait"
)

// waitInterval is the pause between two looks while a deployment waits for its objects, because its options
// say so.
const waitInterval = 500 * time.Millisecond

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
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	go func() {
		select {
		case <-c.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	var notYet string
	err := wait.PollUntilContextCancel(ctx, waitInterval, true, func(ctx context.Context) (bool, error) {
		for _, info := range list {
			ready, err := checker.IsReady(ctx, info)
			if err != nil || !ready {
				notYet = describeInfo(info)
				return false, nil //nolint:nilerr // an API server that does not answer now may do so in time
			}
		}
		return true, nil
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return errStopped
	}
	return fmt.Errorf("%w: %s is not ready", errNotReadyInTime, notYet)
}
