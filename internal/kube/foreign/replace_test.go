package foreign

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

func TestDownstreamReplace(t *testing.T) {
	const path = "PUT /api/v1/namespaces/n/secrets/s"
	tests := map[string]struct {
		object runtime.Object
		code   int
		want   []string
		is     func(error) bool
	}{
		"whole object with its resource version": {
			object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", ResourceVersion: "7"}, Data: map[string][]byte{"k": []byte("v")}},
			want: []string{path + `?fieldManager=fleet-import&timeout=15s {"apiVersion":"v1","data":{"k":"dg=="},"kind":"Secret",` +
				`"metadata":{"name":"s","namespace":"n","resourceVersion":"7"}}`},
			is: func(err error) bool { return err == nil },
		},
		"conflict": {
			object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", ResourceVersion: "7"}},
			code:   http.StatusConflict,
			want: []string{path + `?fieldManager=fleet-import&timeout=15s {"apiVersion":"v1","kind":"Secret",` +
				`"metadata":{"name":"s","namespace":"n","resourceVersion":"7"}}`},
			is: func(err error) bool { return apierrors.IsConflict(err) || apierrors.ReasonForError(err) != "" },
		},
		"unsupported kind: an error without a request": {
			object: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "j"}},
			is:     func(err error) bool { return err != nil },
		},
		"unregistered Go type: an error without a request": {
			object: &metav1.Status{},
			is:     func(err error) bool { return err != nil },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &kubetest.Recorder{Answers: map[string]int{path: test.code}, Body: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`}
			if err := downstream(t, r).Replace(t.Context(), test.object); !test.is(err) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(test.want, r.Requests); diff != "" {
				t.Errorf("the requests differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDownstreamRemovePods(t *testing.T) {
	const path = "DELETE /api/v1/namespaces/n/pods"
	r := &kubetest.Recorder{Answers: map[string]int{}, Body: `{"apiVersion":"v1","kind":"PodList","items":[]}`}
	d := downstream(t, r)
	if err := d.RemovePods(t.Context(), "n", "app=fleet-agent"); err != nil {
		t.Fatal(err)
	}
	want := []string{path + `?labelSelector=app%3Dfleet-agent&timeout=15s {"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}`}
	if diff := cmp.Diff(want, withoutVersion(r.Requests)); diff != "" {
		t.Errorf("the requests differ (-want +got):\n%s", diff)
	}
	r.Answers[path] = http.StatusForbidden
	if err := d.RemovePods(t.Context(), "n", "app=fleet-agent"); !apierrors.IsForbidden(err) {
		t.Errorf("error %v", err)
	}
}
