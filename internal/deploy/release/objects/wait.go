package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/kube"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/fleet-hub/fleet/internal/deploy/access"
)

const (
	// lookAnyway is the longest pause between two checks while a deployment waits for its objects. It covers changes
	// without an event, such as an API server that did not answer.
	lookAnyway = 5 * time.Second
	// firstLook and lastLook bound the increasing pause between two checks for a deletion.
	firstLook = 50 * time.Millisecond
	lastLook  = 2 * time.Second
	// GatherChanges is how long the agent waits after a change of a deployed object, because a rollout changes several
	// objects at once.
	GatherChanges = 30 * time.Millisecond
)

// Changes tells an operation that waits for objects about their changes.
type Changes struct {
	// Follow starts watches of resources.
	Follow func(map[schema.GroupVersionResource]bool)
	// Listen subscribes to wakeups until stop is called.
	Listen func() (heard <-chan struct{}, stop func())
}

// of subscribes to the changes of objects. On nil the channel never receives.
func (c *Changes) of(list kube.ResourceList) (heard <-chan struct{}, stop func()) {
	if c == nil {
		return nil, func() {}
	}
	heard, stop = c.Listen()
	resources := map[schema.GroupVersionResource]bool{}
	for _, info := range list {
		resources[info.Mapping.Resource] = true
	}
	c.Follow(resources)
	return heard, stop
}

// errSuperseded means that waiting ended because a newer state of the bundle is wanted.
var errSuperseded = errors.New("stopped waiting: a newer state of the bundle is wanted")

// ErrNotReadyInTime contains the text that classify recognizes, as Helm's own timeouts do.
var ErrNotReadyInTime = errors.New("timed out waiting for the condition")

// errJobFailed contains a text that outcome.Classify recognizes. jobFailed is how Helm's checker begins this error.
var errJobFailed = errors.New("has failed and cannot complete")

const jobFailed = "job is failed: "

// Wait implements kube.Interface. It returns when all objects are ready. Before the objects of the release are rendered, it waits for
// the CRDs of a chart.
func (c *Client) Wait(list kube.ResourceList, timeout time.Duration) error {
	checker := kube.NewReadyChecker(c.identity.Clientset.Workloads(), discard, kube.PausedAsReady(true))
	check := func(ctx context.Context, info *resource.Info) (bool, error) {
		defer c.forget(info) // the checker reads a CRD again
		return checker.IsReady(ctx, info)
	}
	if c.isRendered() {
		check = c.withStatus(check)
	}
	return c.wait(list, timeout, check)
}

// WaitWithJobs implements kube.Interface. It returns when all objects are ready and all Jobs are complete. It checks the
// Jobs first: other objects may never be ready without them, and a failed Job ends the wait.
func (c *Client) WaitWithJobs(list kube.ResourceList, timeout time.Duration) error {
	isOther := func(info *resource.Info) bool { return info.Mapping.GroupVersionKind.Kind != "Job" }
	list = slices.Concat(list.Filter(func(info *resource.Info) bool { return !isOther(info) }), list.Filter(isOther))
	checker := kube.NewReadyChecker(c.identity.Clientset.Workloads(), discard, kube.PausedAsReady(true), kube.CheckJobs(true))
	return c.wait(list, timeout, c.withStatus(checker.IsReady))
}

// isReady reports whether an object is ready.
type isReady func(ctx context.Context, info *resource.Info) (bool, error)

// withStatus extends a check to custom resources, for which Helm's checker does not look at the status. They are ready if kstatus
// calls them current, as for Rancher Fleet, or cannot interpret their status.
func (c *Client) withStatus(check isReady) isReady {
	return func(ctx context.Context, info *resource.Info) (bool, error) {
		ready, err := check(ctx, info)
		if _, custom := kube.AsVersioned(info).(*unstructured.Unstructured); !custom || !ready || err != nil {
			return ready, err
		}
		live, err := c.helper(info).Get(info.Namespace, info.Name)
		object, ok := live.(*unstructured.Unstructured)
		if err != nil || !ok {
			return false, err
		}
		computed, err := status.Compute(object)
		return err != nil || computed.Status == status.CurrentStatus, nil //nolint:nilerr // the status has another form
	}
}

// discard drops the log lines of Helm: the errors contain every cause.
func discard(string, ...any) {}

func (c *Client) wait(list kube.ResourceList, timeout time.Duration, check isReady) error {
	defer c.Slots.lend()()
	ctx, cancel := c.until(timeout)
	defer cancel()
	heard, stop := c.Changes.of(list)
	defer stop()
	for first := 0; ; {
		if c.isSuperseded() {
			return errSuperseded
		}
		// Start with the object that was not ready last time: while it is not ready, the others need no check.
		var err error
		first, err = unready(ctx, check, list, first)
		switch {
		case first < 0:
			return nil
		case err != nil && strings.HasPrefix(err.Error(), jobFailed):
			return fmt.Errorf("%s %w", describeInfo(list[first]), errJobFailed)
		}
		if !listen(ctx, heard, lookAnyway) {
			return c.waited(ctx, describeInfo(list[first])+" is not ready", err)
		}
	}
}

// unready returns the index of the first object that is not ready, starting at index first, or -1 if all are
// ready. The error says why the state is unknown. It is not final: the API server may answer later.
func unready(ctx context.Context, check isReady, list kube.ResourceList, first int) (int, error) {
	for i := range list {
		at := (first + i) % len(list)
		if ready, err := check(ctx, list[at]); err != nil || !ready {
			return at, err
		}
	}
	return -1, nil
}

// listen waits for a wakeup, or for at most the given time. After a wakeup it waits for GatherChanges, so that
// several changes count as one. It returns false if ctx was cancelled.
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
	timer.Reset(GatherChanges)
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	select {
	case <-heard: // drop the wakeup that came during the pause
	default:
	}
	return true
}

// WaitForDelete implements kube.InterfaceExt, for hooks. It returns when all objects are deleted.
func (c *Client) WaitForDelete(list kube.ResourceList, timeout time.Duration) error {
	defer c.Slots.lend()()
	ctx, cancel := c.until(timeout)
	defer cancel()
	for _, info := range list {
		for pause := firstLook; !apierrors.IsNotFound(info.Get()); pause = min(2*pause, lastLook) {
			if !listen(ctx, nil, pause) {
				return c.waited(ctx, describeInfo(info)+" is still there", nil)
			}
		}
	}
	return nil
}

// WatchUntilReady implements kube.Interface, for hooks. It returns when their Jobs are complete. If the operation is
// superseded, it returns when none of them runs: the next operation would delete a running hook, such as a migration, and
// start it again. Helm's own function cannot be cancelled, so after an early return its goroutine runs until the timeout.
func (c *Client) WatchUntilReady(list kube.ResourceList, timeout time.Duration) error {
	if len(list) == 0 {
		return nil // Helm's own function returns an error
	}
	defer c.Slots.lend()()
	done := make(chan error, 1)
	helm := &kube.Client{Log: discard}
	go func() { done <- helm.WatchUntilReady(list, timeout) }()
	var heard <-chan struct{}
	if c.Changes != nil {
		listening, stop := c.Changes.Listen()
		defer stop()
		heard = listening
	}
	again := time.NewTicker(lookAnyway) // no event tells that the pods of a hook have ended
	defer again.Stop()
	for !c.isSuperseded() || slices.ContainsFunc(list, isRunning) {
		select {
		case err := <-done:
			return err
		case <-c.stopped:
			return access.ErrStopped
		case <-heard:
		case <-again.C:
		}
	}
	return errSuperseded
}

// isRunning reports whether a Pod, or a Pod of a Job, runs or has succeeded: Helm is about to see the end of the latter. An
// object that cannot be read may be running.
func isRunning(info *resource.Info) bool {
	if kind := info.Mapping.GroupVersionKind.Kind; kind != "Job" && kind != "Pod" {
		return false
	}
	object, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	live, ok := object.(*unstructured.Unstructured)
	if err != nil || !ok {
		return !apierrors.IsNotFound(err)
	}
	ready, _, _ := unstructured.NestedInt64(live.Object, "status", "ready")
	succeeded, _, _ := unstructured.NestedInt64(live.Object, "status", "succeeded")
	phase, _, _ := unstructured.NestedString(live.Object, "status", "phase")
	return ready+succeeded > 0 || phase == string(corev1.PodRunning) || phase == string(corev1.PodSucceeded)
}

// isSuperseded reports whether a newer state is wanted.
func (c *Client) isSuperseded() bool { return c.Superseded != nil && c.Superseded() }

// until returns a context that is cancelled after the timeout, or when the agent stops.
func (c *Client) until(timeout time.Duration) (context.Context, context.CancelFunc) {
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

// waited returns the error of a wait that ended too early: which object is missing, and, if its state is unknown,
// the cause.
func (c *Client) waited(ctx context.Context, missing string, unknown error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return access.ErrStopped
	case unknown != nil && !errors.Is(unknown, context.DeadlineExceeded):
		return fmt.Errorf("%w: %s, and its state cannot be read: %w", ErrNotReadyInTime, missing, unknown)
	}
	return fmt.Errorf("%w: %s", ErrNotReadyInTime, missing)
}
