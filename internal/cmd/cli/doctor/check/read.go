package check

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
)

// Optional returns nil for an error that means that an object does not exist.
func Optional(err error) error {
	if apierrors.IsNotFound(err) && !access.IsMissingKind(err) {
		return nil
	}
	return err
}

// Get returns a function that reads an object into target, if it exists.
func Get[T any](target *T, client access.Reader[T], name string) func(context.Context) error {
	return Read(client, name, func(found T) { *target = found })
}

// Read returns a function that reads an object and calls use with it, or with the zero value if it does not exist.
func Read[T any](client access.Reader[T], name string, use func(T)) func(context.Context) error {
	return func(ctx context.Context) error {
		found, err := client.Get(ctx, name, metav1.GetOptions{})
		if Optional(err) != nil {
			return err
		}
		if err != nil {
			var none T
			found = none
		}
		use(found)
		return nil
	}
}

// List returns a function that reads the objects of a kind that wanted accepts into target. A nil wanted accepts all.
func List[T access.Object, L runtime.Object](
	target *[]T, client access.Lister[L], options metav1.ListOptions, wanted func(T) bool,
) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := access.Each(ctx, client, options, func(found T) error {
			if wanted == nil || wanted(found) {
				found.SetManagedFields(nil)
				*target = append(*target, found)
			}
			return nil
		})
		return err
	}
}
