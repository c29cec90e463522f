package access

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// writeTimeout limits a write that is not interrupted.
const writeTimeout = 30 * time.Second

// Write sends a request that creates or changes an object, and returns the object's UID if that was done. The request is
// not interrupted: a command that removes what it has created must know whether it has. If the answer is lost, Write reads the
// object, and isOurs reports whether it is that of the request. The error is that of the request, or of ctx if that has ended.
func Write[T metav1.Object](ctx context.Context, write, read func(context.Context) (T, error), isOurs func(T) bool) (*types.UID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	uninterrupted, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	written, err := write(uninterrupted)
	switch {
	case err == nil:
		uid := written.GetUID()
		return &uid, ctx.Err()
	case isRefused(err):
		return nil, err
	}
	uninterrupted, cancel = context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	found, readErr := read(uninterrupted)
	if readErr != nil || !isOurs(found) {
		return nil, err
	}
	uid := found.GetUID()
	return &uid, err
}

// Unmark removes the mark of an interrupted `fleet unregister` from the namespace of an agent, before another agent uses it.
func Unmark(ctx context.Context, core kubernetes.Interface, namespace string) error {
	namespaces := core.CoreV1().Namespaces()
	found, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && found.Labels[fleet.LabelUnregistering] == "" {
		return nil
	}
	if err == nil {
		_, err = Patch(ctx, namespaces, namespace, map[string]any{
			"metadata": map[string]any{"uid": found.UID, "labels": map[string]any{fleet.LabelUnregistering: nil}},
		})
	}
	return Explain("removing the label "+fleet.LabelUnregistering+" of namespace "+namespace, err)
}

// Create creates an object with Write.
func Create[T metav1.Object](ctx context.Context, client Creator[T], object T, isOurs func(T) bool) (*types.UID, error) {
	create := func(ctx context.Context) (T, error) { return client.Create(ctx, object, metav1.CreateOptions{}) }
	read := func(ctx context.Context) (T, error) { return client.Get(ctx, object.GetName(), metav1.GetOptions{}) }
	return Write(ctx, create, read, isOurs)
}

// isRefused reports whether an API server has answered that it does not carry out a request.
func isRefused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}
