package access

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
