package events

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Run writes Events until ctx ends. Afterwards it writes the queued ones for at most flushTimeout. Call it once;
// it returns immediately.
func (r *Recorder) Run(ctx context.Context, sink Sink) {
	r.run.Do(func() {
		go func() {
			defer close(r.done)
			r.serve(ctx, sink)
			r.flush(ctx, sink)
		}()
	})
}

// Wait waits until Run has finished, including the flush. It blocks forever if Run was not called.
func (r *Recorder) Wait() { <-r.done }

func (r *Recorder) serve(ctx context.Context, sink Sink) {
	for ctx.Err() == nil {
		select {
		case event := <-r.queue:
			r.write(ctx, sink, event)
		case <-ctx.Done():
		}
	}
}

// flush writes the Events that were queued before the end.
func (r *Recorder) flush(ctx context.Context, sink Sink) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case event := <-r.queue:
			r.write(ctx, sink, event)
		default:
			return
		}
	}
}

// write writes one Event, unless its object has too many. It waits for the rate limit shared by all objects.
func (r *Recorder) write(ctx context.Context, sink Sink, event *corev1.Event) {
	result, err := r.correlator.EventCorrelate(event)
	if err != nil {
		r.failed(event.Reason, err)
		return
	}
	if result.Skip {
		r.options.Count(Limited)
		return
	}
	_ = r.all.Wait(ctx) // at shutdown there is no reason to wait
	// A running request is completed at shutdown, not canceled.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	written, err := put(ctx, sink, result.Event, result.Patch)
	if err != nil {
		r.failed(event.Reason, err)
		return
	}
	r.correlator.UpdateState(written)
	r.options.Count(Written)
}

// put increments the count of an existing Event, or creates the Event if it does not exist or was deleted.
func put(ctx context.Context, sink Sink, event *corev1.Event, patch []byte) (*corev1.Event, error) {
	if event.Count > 1 {
		written, err := sink.Patch(ctx, event, patch)
		if !apierrors.IsNotFound(err) {
			return written, err
		}
	}
	event = event.DeepCopy()
	event.ResourceVersion = ""
	return sink.Create(ctx, event)
}

// hub is the Sink of an API server.
type hub struct{ client kubernetes.Interface }

// To returns a Sink that writes to an API server. It needs the rights create and patch on events.
func To(client kubernetes.Interface) Sink { return hub{client} }

// Create sends one create request.
func (h hub) Create(ctx context.Context, event *corev1.Event) (*corev1.Event, error) {
	return h.client.CoreV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
}

// Patch sends one patch request.
func (h hub) Patch(ctx context.Context, event *corev1.Event, patch []byte) (*corev1.Event, error) {
	return h.client.CoreV1().Events(event.Namespace).Patch(ctx, event.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}
