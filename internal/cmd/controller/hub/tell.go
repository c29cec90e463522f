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

// component is who the Events say they are from.
const component = "fleet-controller"

// worthTelling is how long a stage takes before an Event tells that it is over: nobody waited for a shorter one.
const worthTelling = 5 * time.Second

// Took tells by an Event what took a while, such as "registration granted", under a reason of its own. What was
// quick is not worth one.
func (a *Context) Took(about runtime.Object, reason, what string, took time.Duration) {
	if took > worthTelling {
		a.Recorder.Eventf(about, corev1.EventTypeNormal, reason, "%s after %s", what, took.Round(time.Second/10))
	}
}

// addRecorder prepares Events; they are written from Start on.
func (a *Context) addRecorder() error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	a.events = events.New(events.Options{Scheme: scheme, Component: component, Count: a.Metrics.Event, Log: a.Log})
	a.Recorder = a.events
	return nil
}

// Flush waits, after the end of the context Start was given, until the last Events are written.
func (a *Context) Flush() { a.events.Wait() }

// expose lets the caches be scraped until ctx ends. Before they are full they would tell of clusters that are missing.
// Those of a shard are not: they hold what the others hold, and would be counted twice.
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

// sources are the caches. To be called when all of them are in use.
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

// lister is what a cache can do.
type lister[T any] interface {
	List(namespace string, selector labels.Selector) ([]T, error)
}

func all[T any](cache lister[T]) metrics.List[T] {
	return func() ([]T, error) { return cache.List("", labels.Everything()) }
}
