package hub

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/undecodable"
	"github.com/fleet-hub/fleet/internal/events"
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// component is the source component of the Events.
const component = "fleet-controller"

// worthTelling is the minimum duration that is worth an Event.
const worthTelling = 5 * time.Second

// Took records an Event about an operation that took longer than worthTelling, such as "registration granted".
func (a *App) Took(about runtime.Object, reason, what string, took time.Duration) {
	if took > worthTelling {
		a.Recorder.Eventf(about, corev1.EventTypeNormal, reason, "%s after %s", what, took.Round(time.Second/10))
	}
}

// addRecorder prepares the Events. They are written once Start runs.
func (a *App) addRecorder() error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	a.events = events.New(events.Options{Scheme: scheme, Component: component, Count: a.Metrics.Event, Log: a.Log})
	a.Recorder = a.events
	return nil
}

// Flush waits until the last Events are written. Call it after the context of Start has ended.
func (a *App) Flush() { a.events.Wait() }

// expose registers metrics of the caches until ctx ends. Before the caches are synced, clusters would be missing in
// the metrics. Shards expose none: their caches hold the same objects, which would be counted twice.
func (a *App) expose(ctx context.Context) error {
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
func (a *App) sources() metrics.Sources {
	return metrics.Sources{
		OnlyCountDeployments: a.Env.CountDeployments,

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

// reasonUnreadable is the reason of the Event about an object that cannot be decoded completely.
const reasonUnreadable = "Unreadable"

// addUndecodable prepares the reports. Shards see the same objects but write no Events.
func (a *App) addUndecodable() {
	a.undecodable = undecodable.New(a.Log, a.OwnClock, func(object runtime.Object, message string) {
		if a.Env.Shard == "" {
			a.Recorder.Event(object, corev1.EventTypeWarning, reasonUnreadable, message)
		}
	})
}

// Report is reconcile.WriteStatus for callers that write conditions. If a condition reports a new or another problem,
// Report also records an Event with the same reason and message. Conditions that only wait are not problems. An
// unchanged status records nothing, however often it is written. The status is cut to its size limit, because the API
// server could refuse it otherwise.
func Report[T reconcile.Object](a *App, client reconcile.StatusClient[T], read T, change func(T)) (T, error) {
	var told []genericcondition.GenericCondition
	if newest, ok := a.written.Newest(read.GetUID(), read, a.OwnClock()).(T); ok {
		read = newest
	}
	written, err := reconcile.WriteStatus(client, read, func(object T) {
		before := slices.Clone(conditionsOf(object))
		change(object)
		state.Bound(object)
		told = newTroubles(before, conditionsOf(object)) // of the last attempt, which is the one that is written
	})
	if err != nil {
		return written, err
	}
	if written.GetResourceVersion() != read.GetResourceVersion() {
		a.written.Note(written.GetUID(), written, read, a.OwnClock())
	}
	for _, condition := range told {
		a.Recorder.Event(written, corev1.EventTypeWarning, condition.Reason, condition.Message)
	}
	return written, nil
}

// newTroubles returns the conditions with a problem that they did not have before. Of several equal ones, it returns
// the first.
func newTroubles(before, after []genericcondition.GenericCondition) (found []genericcondition.GenericCondition) {
	for _, condition := range after {
		previous := conditions.Get(before, condition.Type)
		said := slices.ContainsFunc(found, func(c genericcondition.GenericCondition) bool {
			return c.Reason == condition.Reason && c.Message == condition.Message
		})
		if conditions.IsTrouble(condition) && !said && (previous == nil || previous.Reason != condition.Reason) {
			found = append(found, condition)
		}
	}
	return found
}

// conditionsOf returns an object's conditions. It returns nil for kinds without conditions, or with conditions that
// agents write.
func conditionsOf(object any) []genericcondition.GenericCondition {
	switch o := object.(type) {
	case *fleet.Cluster:
		return o.Status.Conditions
	case *fleet.ClusterGroup:
		return o.Status.Conditions
	case *fleet.ClusterRegistration:
		return o.Status.Conditions
	case *fleet.ClusterRegistrationToken:
		return o.Status.Conditions
	case *fleet.Bundle:
		return o.Status.Conditions
	}
	return nil
}
