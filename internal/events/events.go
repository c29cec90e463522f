// Package events writes Events, which tell users what happened to an object. It limits their number and removes
// secrets. The queue, the aggregation of similar Events and the limit per object are those of client-go.
//
//	Event ─► scrub ─► broadcaster ─► correlator ─► limit of all objects ─► create or patch
package events

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"k8s.io/client-go/util/flowcontrol"
)

// Limits on Events. An object may have objectBurst Events, and one more every objectRefill. All objects together
// may have allPerSecond, with a burst of allBurst. Events that do not fit into the queue are dropped, and those of one
// namespace may occupy only half of it.
const (
	objectBurst  = 10
	objectRefill = 5 * time.Minute
	allPerSecond = 10
	allBurst     = 100
	queueLength  = 1000 // as in the broadcaster
	perNamespace = queueLength / 2
	// similarLimit is how many Events of one object that differ only in their message are written separately within
	// similarSeconds. Further ones are combined into one.
	similarLimit   = 5
	similarSeconds = 600
	// messageLimit is the maximum length of a message in bytes, as in the API server.
	messageLimit = 1024
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

// Options configures New. All are required.
type Options struct {
	// Scheme contains the kinds of the objects.
	Scheme *runtime.Scheme
	// Component is the reporting component.
	Component string
	// Count is called with the outcome of each Event: Written, Limited or Failed.
	Count func(outcome string)
	// Log receives errors at debug level.
	Log *slog.Logger
}

// Recorder accepts Events from any goroutine at any time and never blocks. It implements record.EventRecorder.
type Recorder struct {
	options     Options
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	correlator  *record.EventCorrelator
	all         flowcontrol.RateLimiter
	queued      queued
	// running is closed by Run, which sets ctx and client.
	running chan struct{}
	ctx     context.Context //nolint:containedctx // of Run
	client  kubernetes.Interface
	done    chan struct{}
}

var _ record.EventRecorder = (*Recorder)(nil)

// queued counts the Events that were recorded and not processed, by the namespace of their object.
type queued struct {
	mu  sync.Mutex
	sum int
	of  map[string]int
}

// add counts an Event. It returns false if the queue, or the namespace's part of it, is full.
func (q *queued) add(namespace string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sum >= queueLength || q.of[namespace] >= perNamespace {
		return false
	}
	q.sum++
	q.of[namespace]++
	return true
}

func (q *queued) remove(namespace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sum--
	if q.of[namespace]--; q.of[namespace] == 0 {
		delete(q.of, namespace)
	}
}

func (q *queued) isEmpty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sum == 0
}

// New returns a Recorder. Its Events stay queued until Run.
func New(o Options) *Recorder {
	broadcaster := record.NewBroadcaster()
	r := &Recorder{
		options:     o,
		broadcaster: broadcaster,
		recorder:    broadcaster.NewRecorder(o.Scheme, corev1.EventSource{Component: o.Component}),
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
			BurstSize: objectBurst, QPS: float32(1 / objectRefill.Seconds()), SpamKeyFunc: object,
			MaxEvents: similarLimit, MaxIntervalInSeconds: similarSeconds,
		}),
		queued:  queued{of: map[string]int{}},
		all:     flowcontrol.NewTokenBucketRateLimiter(allPerSecond, allBurst),
		running: make(chan struct{}),
		done:    make(chan struct{}),
	}
	broadcaster.StartEventWatcher(func(event *corev1.Event) {
		<-r.running
		r.write(event)
		r.queued.remove(event.InvolvedObject.Namespace)
	})
	return r
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
	if err != nil || eventType != corev1.EventTypeNormal && eventType != corev1.EventTypeWarning {
		r.options.Count(Failed) // client-go would drop it silently, and it would stay in queued
		r.options.Log.Debug("event not recorded", "reason", reason, "error", err)
		return
	}
	if !r.queued.add(ref.Namespace) {
		r.options.Count(Limited)
		return
	}
	r.recorder.AnnotatedEventf(ref, annotations, eventType, reason, "%s", scrub(fmt.Sprintf(format, args...)))
}

// Run writes Events until ctx ends. Afterwards it writes the queued ones for at most flushTimeout. It needs the rights
// create and patch on events. Call it once; it returns immediately.
func (r *Recorder) Run(ctx context.Context, client kubernetes.Interface) {
	r.ctx, r.client = ctx, client
	close(r.running)
	context.AfterFunc(ctx, func() {
		defer close(r.done)
		defer r.broadcaster.Shutdown()
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		_ = wait.PollUntilContextCancel(flush, 10*time.Millisecond, true, func(context.Context) (bool, error) { return r.queued.isEmpty(), nil })
	})
}

// Wait waits until Run has finished, including the flush. It blocks forever if Run was not called.
func (r *Recorder) Wait() { <-r.done }

// write writes one Event, unless its object has too many. It waits for the rate limit shared by all objects.
func (r *Recorder) write(event *corev1.Event) {
	result, err := r.correlator.EventCorrelate(event)
	if err == nil && result.Skip {
		r.options.Count(Limited)
		return
	}
	var written *corev1.Event
	if err == nil {
		_ = r.all.Wait(r.ctx) // at shutdown there is no reason to wait
		written, err = put(r.ctx, r.client, result.Event, result.Patch)
	}
	if err != nil {
		r.options.Count(Failed)
		r.options.Log.Debug("event not written", "reason", event.Reason, "error", err)
		return
	}
	r.correlator.UpdateState(written)
	r.options.Count(Written)
}

// put increments the count of an existing Event, or creates the Event if it does not exist or was deleted. A running
// request is completed at shutdown, not canceled.
func put(ctx context.Context, client kubernetes.Interface, event *corev1.Event, patch []byte) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	events := client.CoreV1().Events(event.Namespace)
	if event.Count > 1 {
		written, err := events.Patch(ctx, event.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return written, err
		}
	}
	event = event.DeepCopy()
	event.ResourceVersion = ""
	return events.Create(ctx, event, metav1.CreateOptions{})
}

// secrets matches tokens, keys and passwords in URLs. Our messages should not contain them, but errors from
// other components may.
var secrets = regexp.MustCompile(strings.Join([]string{
	`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]*)?`,
	`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`,
	`(?i)\bbearer\s+[A-Za-z0-9._~+/-]{8,}=*`,
	`(?i)://[^/\s:@]+:[^/\s@]+@`,
}, "|"))

// scrub removes text that looks like a secret and shortens the message to the limit.
func scrub(message string) string {
	message = strings.ToValidUTF8(message, "�")
	message = secrets.ReplaceAllString(message, "[redacted]")
	if len(message) <= messageLimit {
		return message
	}
	const ellipsis = "…"
	return strings.ToValidUTF8(message[:messageLimit-len(ellipsis)], "") + ellipsis
}
