package access

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reader reads objects of one kind: a Client, or one of client-go.
type Reader[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

// Creator creates and reads objects of one kind.
type Creator[T any] interface {
	Reader[T]
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
}

// Patcher changes objects of one kind.
type Patcher[T any] interface {
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (T, error)
}

// Deleter deletes objects of one kind.
type Deleter interface {
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// Patch changes fields of an object.
func Patch[T any](ctx context.Context, client Patcher[T], name string, fields map[string]any) (changed T, err error) {
	patch, err := json.Marshal(fields)
	if err != nil {
		return changed, err
	}
	return client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
}

// Delete deletes an object if it still has this UID. An object that does not exist is not an error. what names it in an error.
func Delete(ctx context.Context, client Deleter, what, name string, uid types.UID) error {
	return IgnoreMissing("deleting "+what, client.Delete(ctx, name, *metav1.NewPreconditionDeleteOptions(string(uid))))
}

// Find reads an object, or returns the zero value if it does not exist. what names it in an error, "Cluster a/b" for example.
func Find[T any](ctx context.Context, client Reader[T], what, name string) (found T, err error) {
	read, err := client.Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return read, nil
	case apierrors.IsNotFound(err) && !IsMissingKind(err):
		return found, nil
	}
	return found, Explain("reading "+what, err)
}

// IgnoreMissing returns the error of a request like Explain, but nil if its object does not exist.
func IgnoreMissing(doing string, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return Explain(doing, err)
}
