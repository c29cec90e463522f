package hub

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/events"
	"github.com/fleet-hub/fleet/internal/metrics"
)

// component is the source component of the Events.
const component = "fleet-controller"

// worthTelling is the minimum duration that is worth an Event.
const worthTelling = 5 * time.Second

// Took records an Event about an operation that took longer than worthTelling, such as "registration granted".
func (a *Context) Took(about runtime.Object, reason, what string, took time.Duration) {
	if took > worthTelling {
		a.Recorder.Eventf(about, corev1.EventTypeNormal, reason, "%s after %s", what, took.Round(time.Second/10))
	}
}

// addRecorder prepares the Events. They are written once Start runs.
func (a *Context) addRecorder() error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	a.events = events.New(events.Options{Scheme: scheme, Component: component, Count: a.Metrics.Event, Log: a.Log})
	a.Recorder = a.events
	return nil
}

// Flush waits until the last Events are written. Call it after the context of Start has ended.
func (a *Context) Flush() { a.events.Wait() }

// expose registers metrics of the caches until ctx ends. Before the caches are synced, clusters would be missing in
// the metrics. Shards expose none: their caches hold the same objects, which would be counted twice.
func (a *Context) expose(ctx context.Context) error {
	if a.registry == nil || a.Env.Shard != "" {
		return nil
	}
	for _, collector := range metrics.Collectors(a.sources()) {
		if err := a.registry.Register(collector); err != nil {
			return fmt.Errorf("registering the metrics: %w", err)
		}
		context.AfterFunc(ctx, func() { a.registry.Unregister(collector) })
	}
	return nil
}

// sources returns the caches. Call it after all controllers are registered.
func (a *Context) sources() metrics.Sources {
	return metrics.Sources{
		Bundles:         all(a.Bundles.Cache()),
		Deployments:     all(a.BundleDeployments.Cache()),
		Clusters:        all(a.Clusters.Cache()),
		ClusterGroups:   all(a.ClusterGroups.Cache()),
		Registrations:   all(a.ClusterRegistrations.Cache()),
		Tokens:          all(a.ClusterRegistrationTokens.Cache()),
		Heartbeats:      a.heartbeats,
		Clock:           a.Clock,
		CheckinInterval: func() time.Duration { return a.Config.Get().AgentCheckinInterval.Duration },
	}
}

// lister is the part of a cache that metrics need.
type lister[T any] interface {
	List(namespace string, selector labels.Selector) ([]T, error)
}

func all[T any](cache lister[T]) metrics.List[T] {
	return func() ([]T, error) { return cache.List("", labels.Everything()) }
}
