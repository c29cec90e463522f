package watch

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// observed is a bundle with one ConfigMap, on an API server whose lists and watches can fail.
type observed struct {
	*Observer
	t      *testing.T
	bd     *fleet.BundleDeployment
	track  *Tracking
	reads  *dynamicfake.FakeDynamicClient
	woken  chan []string
	lists  chan struct{}
	clock  atomic.Int64          // the time since noon
	step   atomic.Int64          // how much each failed list takes
	broken atomic.Pointer[error] // the answer to lists and watches
	open   atomic.Pointer[watch.RaceFreeFakeWatcher]
}

func newObserved(t *testing.T) *observed {
	t.Helper()
	text := "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: web, uid: a, resourceVersion: '1', labels: {" + fleet.LabelSetHash + ": h1}}}"
	o := &observed{t: t, bd: deploytest.Deployment(), woken: make(chan []string, 100), lists: make(chan struct{}, 100)}
	now := func() time.Time { return deploytest.Noon().Add(time.Duration(o.clock.Load())) }
	o.reads = dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), deploytest.ObjectOf(t, text))
	client := deploytest.NewMetadataClient(t, deploytest.MetadataOf("ConfigMap", "a", "1", "h1"))
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := o.broken.Load(); err != nil {
			o.clock.Add(o.step.Load())
			o.lists <- struct{}{}
			return true, nil, *err
		}
		return false, nil, nil
	})
	client.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		if o.broken.Load() != nil {
			return true, nil, apierrors.NewResourceExpired("too old")
		}
		o.open.Store(watch.NewRaceFreeFake())
		return true, o.open.Load(), nil
	})
	watches := NewSetWatches(client, now, func(string) {}, func(users []string) { o.woken <- users })
	t.Cleanup(watches.Stop)
	o.Observer = &Observer{
		Agent: &access.Identity{Dynamic: o.reads}, Metadata: client, Watches: watches, Clock: now,
		Revision: func(context.Context, string) (manifest.Objects, error) { return manifest.Objects{}, nil },
		Again:    func(string, time.Duration) {},
	}
	ref := refTo("ConfigMap", "web", "a")
	o.track = &Tracking{
		refs: []manifest.Ref{ref}, set: placement.Set{Hash: "h1"}, seen: map[manifest.Ref]observation{},
		resources: map[schema.GroupVersionKind]schema.GroupVersionResource{ref.GroupVersionKind: deploytest.ConfigMaps()},
	}
	return o
}

// fail makes all lists and watches fail, also the open watch. Each list takes longer than a watch may fail.
func (o *observed) fail(err error) {
	o.step.Store(int64(watchPatience + time.Second))
	o.broken.Store(&err)
	if open := o.open.Load(); open != nil {
		open.Stop()
	}
}

// untilWoken waits until the watches request a look.
func (o *observed) untilWoken() {
	o.t.Helper()
	if got := deploytest.Receive(o.t, o.woken); !slices.Equal(got, []string{o.bd.Name}) {
		o.t.Fatalf("woken %v", got)
	}
}

// look checks the objects, and returns how many it read.
func (o *observed) look() (reads int) {
	o.t.Helper()
	o.reads.ClearActions()
	found, err := o.Check(o.t.Context(), o.bd, o.track)
	if err != nil {
		o.t.Fatal(err)
	}
	if found != nil {
		Monitored(&o.bd.Status, deploytest.Noon(), *found, 0)
	}
	return len(o.reads.Actions())
}

// expectMonitored expects the condition Monitored with a message.
func (o *observed) expectMonitored(message string) {
	o.t.Helper()
	got := conditions.Get(o.bd.Status.Conditions, conditions.Monitored)
	if got == nil || got.Status != "True" || got.Message != message {
		o.t.Errorf("condition %+v, want the message %q", got, message)
	}
}

// takeAway removes the label of the set from the object, which the watch does not notice.
func (o *observed) takeAway() {
	o.t.Helper()
	const patch = `{"metadata":{"labels":null}}`
	_, err := o.reads.Resource(deploytest.ConfigMaps()).Namespace("web").Patch(o.t.Context(), "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		o.t.Fatal(err)
	}
}

// A webhook that converts objects of a CRD is gone, for example.
func TestFailedWatch_ObjectsAreReadUntilItWorks(t *testing.T) {
	t.Parallel()
	refused := apierrors.NewInternalError(errors.New("conversion webhook failed"))
	const warning = "configmaps cannot be listed and watched, so that the objects are only read once a minute: Internal error occurred: conversion webhook failed"
	for name, synced := range map[string]bool{"before it synced": false, "after it synced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			if !synced {
				o.fail(refused)
			}
			o.look()
			o.untilWoken()
			if synced {
				o.look()
				o.expectMonitored("")
				o.fail(refused)
				o.untilWoken()
			}
			o.step.Store(0)
			if reads := o.look(); reads != 1 {
				t.Errorf("%d reads", reads)
			}
			o.expectMonitored(warning)
			o.takeAway()
			if reads := o.look(); reads != 0 || !o.bd.Status.NonModified {
				t.Errorf("within a minute: %d reads, nonModified %t", reads, o.bd.Status.NonModified)
			}
			o.clock.Add(int64(pollPause))
			if reads := o.look(); reads != 1 || o.bd.Status.NonModified {
				t.Errorf("after a minute: %d reads, nonModified %t", reads, o.bd.Status.NonModified)
			}
			o.broken.Store(nil)
			for len(o.Watches.Failed(o.bd.Name)) > 0 {
				o.untilWoken()
			}
			o.look()
			o.expectMonitored("")
		})
	}
}

// Reading single objects would fail, too, and the caches continue when the server is back.
func TestUnreachableServer_WatchHasNotFailed(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	o.look()
	o.untilWoken()
	o.fail(errors.New("connection refused"))
	for range 3 {
		deploytest.Receive(t, o.lists)
	}
	if failed := o.Watches.Failed(o.bd.Name); len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
}

// Another process has deployed the object. Only an object that was being deleted at that time is created again without a correction.
func TestObjectGoneAfterRestart_IsLostIfItWasBeingDeletedAtDeployment(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		deployed time.Time
		grace    int64 // seconds
		want     bool
	}{
		"deletion before the deployment: lost":    {deploytest.Noon().Add(time.Minute), 0, true},
		"deletion after the deployment: not lost": {deploytest.Noon().Add(-time.Minute), 0, false},
		"deployed by this process: lost":          {time.Time{}, 0, true},
		"deployed in the grace period: lost":      {deploytest.Noon().Add(-5 * time.Second), 30, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			o.track.deployed = test.deployed
			object, err := o.reads.Resource(deploytest.ConfigMaps()).Namespace("web").Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			deletion := metav1.NewTime(deploytest.Noon())
			object.SetDeletionTimestamp(&deletion)
			object.SetDeletionGracePeriodSeconds(&test.grace)
			ref := o.track.refs[0]
			for _, live := range []manifest.Objects{{ref: object}, {ref: nil}} {
				if err := o.processLive(t.Context(), o.bd, o.track, live, manifest.Objects{}); err != nil {
					t.Fatal(err)
				}
			}
			if got := o.track.HasLost(nil); got != test.want {
				t.Errorf("lost: %t", got)
			}
		})
	}
}
