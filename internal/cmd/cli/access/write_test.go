package access

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWrite_TellsWhetherTheObjectWasWritten(t *testing.T) {
	resource, lost := schema.GroupResource{Resource: "namespaces"}, errors.New("EOF")
	object := func(by string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{UID: "u-1", Labels: map[string]string{"by": by}}}
	}
	for name, test := range map[string]struct {
		err     error
		stored  *corev1.Namespace // what a read finds
		cancel  bool              // while the request is sent
		want    bool
		wantErr error
	}{
		"written":                              {nil, nil, false, true, nil},
		"written, and interrupted":             {nil, nil, true, true, context.Canceled},
		"exists":                               {apierrors.NewAlreadyExists(resource, "n"), object("us"), false, false, apierrors.NewAlreadyExists(resource, "n")},
		"answer lost, written":                 {lost, object("us"), false, true, lost},
		"answer lost, interrupted and written": {lost, object("us"), true, true, lost},
		"answer lost, of another writer":       {lost, object("them"), false, false, lost},
		"answer lost, not written":             {lost, nil, false, false, lost},
		"error of the server, written":         {apierrors.NewInternalError(lost), object("us"), false, true, apierrors.NewInternalError(lost)},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			uid, err := Write(ctx,
				func(ctx context.Context) (*corev1.Namespace, error) {
					if test.cancel {
						cancel()
					}
					if ctx.Err() != nil {
						t.Error("the request was interrupted")
					}
					return object("us"), test.err
				},
				func(context.Context) (*corev1.Namespace, error) {
					if test.stored == nil {
						return nil, apierrors.NewNotFound(resource, "n")
					}
					return test.stored, nil
				},
				func(found *corev1.Namespace) bool { return found.Labels["by"] == "us" })
			if (uid != nil) != test.want || uid != nil && *uid != "u-1" {
				t.Errorf("UID %v", uid)
			}
			if test.wantErr == nil && err != nil || test.wantErr != nil && (err == nil || err.Error() != test.wantErr.Error()) {
				t.Errorf("error %v, want %v", err, test.wantErr)
			}
		})
	}
}

func TestWriteAfterAnInterrupt_SendsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sent := func(context.Context) (*corev1.Namespace, error) { t.Error("sent"); return nil, nil }
	if uid, err := Write(ctx, sent, sent, func(*corev1.Namespace) bool { return true }); uid != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("UID %v, error %v", uid, err)
	}
}
