// Package events writes Events, which is how users hear of what happened to an object: few enough to be read, and
// never a secret.
//
//	Event ─► scrubbed ─► queue ─► alike ones become one, objects and all together are limited ─► created or patched
package events

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
)

// Limits on Events. An object has objectBurst of them, and another one every objectRefill; all objects together
// have allPerSecond, beyond a burst of allBurst. What waits longer than the queue is long is dropped.
const (
	objectBurst  = 10
	objectRefill = 5 * time.Minute
	allPerSecond = 10
	allBurst     = 100
	queueLength  = 1000
	// similarLimit is how many Events of one object that differ only in their message are told one by one within
	// similarSeconds; further ones are told as one.
	similarLimit   = 5
	similarSeconds = 600
)

const (
	// requestTimeout bounds one request.
	requestTimeout = 5 * time.Second
	// flushTimeout bounds what is written after the end.
	flushTimeout = 2 * time.Second
)

// Outcomes of an Event.
const (
	Written = "written"
	Limited = "limited"
	Failed  = "failed"
)

// Options of New.
type Options struct {
	// Scheme knows the kinds of the objects. Required.
	Scheme *runtime.Scheme
	// Component is who says so.
	Component string
	// Clock nil is the real one.
	Clock clock.PassiveClock
	// Count is told what became of each Event: Written, Limited or Failed. Nil: nobody is told.
	Count func(outcome string)
	// Log is told of Events that could not be written, at debug level. Nil: nobody is told.
	Log *slog.Logger
}

// Sink is where Events go.
type Sink interface {
	Create(ctx context.Context, event *corev1.Event) (*corev1.Event, error)
	// Patch changes the Event of that name by a strategic merge patch.
	Patch(ctx context.Context, event *corev1.Event, patch []byte) (*corev1.Event, error)
}

// Recorder takes Events from anywhere, at any time, and never blocks. It is a record.EventRecorder.
type Recorder struct {
	options    Options
	queue      chan *corev1.Event
	correlator *record.EventCorrelator
	all        interface{ Wait(context.Context) error }
	done       chan struct{}
	run        sync.Once
}

var _ record.EventRecorder = (*Recorder)(nil)

// New makes a recorder; what it is told waits for Run.
func New(o Options) *Recorder {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Count == nil {
		o.Count = func(string) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Recorder{
		options: o,
		queue:   make(chan *corev1.Event, queueLength),
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
			BurstSize: objectBurst, QPS: float32(1 / objectRefill.Seconds()), SpamKeyFunc: object,
			MaxEvents: similarLimit, MaxIntervalInSeconds: similarSeconds, Clock: o.Clock,
		}),
		all:  flowcontrol.NewTokenBucketRateLimiter(allPerSecond, allBurst),
		done: make(chan struct{}),
	}
}

// object is what Events are limited by: failures of one object are told, however many another has.
func object(event *corev1.Event) string {
	o := event.InvolvedObject
	return o.Kind + "/" + o.Namespace + "/" + o.Name + "/" + string(o.UID)
}

// Event tells of an object. reason is a word in CamelCase, message a sentence that is the same each time.
func (r *Recorder) Event(about runtime.Object, eventType, reason, message string) {
	r.AnnotatedEventf(about, nil, eventType, reason, "%s", message)
}

// Eventf is Event with a message that is put together.
func (r *Recorder) Eventf(about runtime.Object, eventType, reason, format string, args ...any) {
	r.AnnotatedEventf(about, nil, eventType, reason, format, args...)
}

// AnnotatedEventf is Eventf with annotations.
func (r *Recorder) AnnotatedEventf(about runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	ref, err := reference.GetReference(r.options.Scheme, about)
	if err != nil {
		r.failed(reason, err)
		return
	}
	event := r.event(ref, eventType, reason, scrub(fmt.Sprintf(format, args...)))
	event.Annotations = annotations
	select {
	case r.queue <- event:
	default:
		r.options.Count(Limited)
	}
}

// nameLimit is how long an Event's name may be; half of it leaves room for the rest.
const nameLimit = 200

func (r *Recorder) event(about *corev1.ObjectReference, eventType, reason, message string) *corev1.Event {
	now := metav1.NewTime(r.options.Clock.Now())
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	name := about.Name[:min(len(about.Name), nameLimit)]
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", name, now.UnixNano()), Namespace: namespace},
		InvolvedObject: *about, Reason: reason, Message: message, Type: eventType, Count: 1,
		FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: r.options.Component}, ReportingController: r.options.Component,
	}
}

func (r *Recorder) failed(reason string, err error) {
	r.options.Count(Failed)
	r.options.Log.Debug("event not written", "reason", reason, "error", err)
}
