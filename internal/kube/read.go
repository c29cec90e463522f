package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Bounds of what a downstream API server, which is a user's, can make us read.
const (
	// listLimit is how many objects List reads. It looks at one agent, which has a few.
	listLimit = 50
	// answerLimit is how long one answer may be, in bytes.
	answerLimit = 8 << 20
)

// errAnswerTooLong means that a downstream API server answered with more than answerLimit.
var errAnswerTooLong = errors.New("the API server's answer is too long")

// Find reads the object of the kind, namespace and name of into into it; false means that there is none.
func (d *Downstream) Find(ctx context.Context, into runtime.Object) (bool, error) {
	item, client, err := d.clientFor(into)
	if err != nil {
		return false, err
	}
	found, err := client.Get(ctx, item.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s: %w", describe(item), Classify(err))
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, into); err != nil {
		return false, fmt.Errorf("reading %s: %w", describe(item), err)
	}
	return true, nil
}

// List reads the Pods or ReplicaSets of a namespace that a label selector matches into a list of theirs: the first
// few of them.
func (d *Downstream) List(ctx context.Context, namespace, selector string, into runtime.Object) error {
	kinds, _, err := scheme.Scheme.ObjectKinds(into)
	if err != nil {
		return fmt.Errorf("%w: %T", ErrUnknownKind, into)
	}
	resource, known := lists()[kinds[0]]
	if !known {
		return fmt.Errorf("%w: %s", ErrUnknownKind, kinds[0])
	}
	found, err := d.dynamic.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: listLimit})
	if err != nil {
		return fmt.Errorf("reading the %s of namespace %s: %w", resource.Resource, namespace, Classify(err))
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.UnstructuredContent(), into); err != nil {
		return fmt.Errorf("reading the %s of namespace %s: %w", resource.Resource, namespace, err)
	}
	return nil
}

// lists are the lists that List can read.
func lists() map[schema.GroupVersionKind]schema.GroupVersionResource {
	return map[schema.GroupVersionKind]schema.GroupVersionResource{
		{Version: "v1", Kind: "PodList"}:                       {Version: "v1", Resource: "pods"},
		{Group: "apps", Version: "v1", Kind: "ReplicaSetList"}: {Group: "apps", Version: "v1", Resource: "replicasets"},
	}
}

// bounded is a way to an API server whose answers end at answerLimit.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err == nil {
		response.Body = &boundedBody{ReadCloser: response.Body, left: answerLimit}
	}
	return response, err
}

// WrappedRoundTripper lets the connections below be closed.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errAnswerTooLong
	}
	return n, err
}
