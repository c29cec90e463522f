// Package events writes Events, which tell users what happened to an object. It limits their number and removes
// secrets.
//
//	Event ─► scrub ─► queue ─► aggregate similar ones, limit per object and in total ─► create or patch
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

// Limits on Events. An object may have objectBurst Events, and one more every objectRefill. All objects together
// may have allPerSecond, with a burst of allBurst. Events that do not fit into the queue are dropped.
const (
	objectBurst  = 10
	objectRefill = 5 * time.Minute
	allPerSecond = 10
	allBurst     = 100
	queueLength  = 1000
	// similarLimit is how many Events of one object that differ only in their message are written separately within
	// similarSeconds. Further ones are combined into one.
	similarLimit   = 5
	similarSeconds = 600
)

const (
	// requestTimeout limits one request.
	requestTimeout = 5 * time.Second
	// flushTimeout limits the time for writing queued Events at shutdown.
	flushTimeout = 2 * time.Second
)

// Outcomes of an Event.
const (
	Written = "written"
	Limited = "limited"
	Failed  = "failed"
)

// Options configures New.
type Options struct {
	// Scheme contains the kinds of the objects. Required.
	Scheme *runtime.Scheme
	// Component is the reporting component.
	Component string
	// Clock is the clock. Nil means the real one.
	Clock clock.PassiveClock
	// Count is called with the outcome of each Event: Written, Limited or Failed. Nil disables it.
	Count func(outcome string)
	// Log receives errors at debug level. Nil disables logging.
	Log *slog.Logger
}

// Sink receives the Events.
type Sink interface {
	Create(ctx context.Context, event *corev1.Event) (*corev1.Event, error)
	// Patch changes the Event of that name with a strategic merge patch.
	Patch(ctx context.Context, event *corev1.Event, patch []byte) (*corev1.Event, error)
}

// Recorder accepts Events from any goroutine at any time and never blocks. It implements record.EventRecorder.
type Recorder struct {
	options    Options
	queue      chan *corev1.Event
	correlator *record.EventCorrelator
	all        interface{ Wait(context.Context) error }
	done       chan struct{}
	run        sync.Once
}

var _ record.EventRecorder = (*Recorder)(nil)

// New returns a Recorder. Its Events stay queued until Run.
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

// object returns the key for the limits, so that many Events of one object do not suppress those of another.
func object(event *corev1.Event) string {
	o := event.InvolvedObject
	return o.Kind + "/" + o.Namespace + "/" + o.Name + "/" + string(o.UID)
}

// Event records an Event about an object. reason is a word in CamelCase. message is a sentence that is the same
// each time.
func (r *Recorder) Event(about runtime.Object, eventType, reason, message string) {
	r.AnnotatedEventf(about, nil, eventType, reason, "%s", message)
}

// Eventf records an Event with a formatted message.
func (r *Recorder) Eventf(about runtime.Object, eventType, reason, format string, args ...any) {
	r.AnnotatedEventf(about, nil, eventType, reason, format, args...)
}

// AnnotatedEventf records an Event with a formatted message and annotations.
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

// nameLimit is the maximum length of the object's name in an Event's name. It leaves room for the suffix.
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
