package foreign

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

func TestFind(t *testing.T) {
	const path = "/api/v1/namespaces/n/configmaps/c"
	tests := map[string]struct {
		into    runtime.Object
		body    string
		answers map[string]int
		found   bool
		want    runtime.Object
		fails   func(error) bool
		text    string
	}{
		"existing object": {
			body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"n","name":"c","annotations":{"a":"b"}}}`, found: true,
			want: &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c", Annotations: map[string]string{"a": "b"}}},
		},
		"missing object: no error": {answers: map[string]int{"GET " + path: http.StatusNotFound}},
		"refused request: an error": {
			answers: map[string]int{"GET " + path: http.StatusForbidden}, fails: apierrors.IsForbidden, text: "reading ConfigMap n/c",
		},
		"invalid answer: an error": {
			body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":["c"]}}`, fails: func(err error) bool { return err != nil }, text: "reading ConfigMap n/c",
		},
		"unsupported kind: an error": {
			into: &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "e"}}, fails: func(err error) bool { return errors.Is(err, ErrUnknownKind) },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			into := test.into
			if into == nil {
				into = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}
			}
			found, err := downstream(t, &kubetest.Recorder{Answers: test.answers, Body: test.body}).Find(t.Context(), into)
			if test.fails == nil && err != nil || test.fails != nil && !test.fails(err) {
				t.Fatalf("error %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), test.text) {
				t.Errorf("error %q does not say %q", err, test.text)
			}
			if found != test.found {
				t.Errorf("found: %v", found)
			}
			if test.want != nil && !cmp.Equal(test.want, into) {
				t.Errorf("(-want +got):\n%s", cmp.Diff(test.want, into))
			}
		})
	}
}

// A load balancer answers so for a backend that is not the API server. That says nothing about the object.
func TestNotFoundPageOfAProxy_IsAnError(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	d, err := New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(server)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}}
	_, found := d.Find(t.Context(), object)
	for what, err := range map[string]error{"find": found, "remove": d.Remove(t.Context(), object)} {
		if err == nil || !strings.Contains(err.Error(), "Secret n/s") {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

func TestList(t *testing.T) {
	const query = "?labelSelector=app%3Dfleet-agent&limit=20&timeout=15s"
	tests := map[string]struct {
		into    runtime.Object
		body    string
		answers map[string]int
		asks    []string
		want    []string
		is      error
		fails   bool
	}{
		"pods": {
			into: &corev1.PodList{}, body: `{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"p1"}},{"metadata":{"name":"p2"}}]}`,
			asks: []string{"GET /api/v1/namespaces/n/pods" + query}, want: []string{"p1", "p2"},
		},
		"replica sets": {
			into: &appsv1.ReplicaSetList{}, body: `{"apiVersion":"apps/v1","kind":"ReplicaSetList","items":[{"metadata":{"name":"r1"}}]}`,
			asks: []string{"GET /apis/apps/v1/namespaces/n/replicasets" + query}, want: []string{"r1"},
		},
		"none": {
			into: &corev1.PodList{}, body: `{"apiVersion":"v1","kind":"PodList","items":[]}`, asks: []string{"GET /api/v1/namespaces/n/pods" + query},
		},
		"unsupported kind: an error without a request": {into: &corev1.SecretList{}, is: ErrUnknownKind, fails: true},
		"not a list: an error without a request":       {into: &unknown{}, is: ErrUnknownKind, fails: true},
		"refused request": {
			into: &corev1.PodList{}, answers: map[string]int{"GET /api/v1/namespaces/n/pods": http.StatusForbidden},
			asks: []string{"GET /api/v1/namespaces/n/pods" + query}, fails: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &kubetest.Recorder{Answers: test.answers, Body: test.body}
			err := downstream(t, r).List(t.Context(), "n", "app=fleet-agent", test.into)
			if (err != nil) != test.fails || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(test.asks, r.Requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			var got []string
			switch list := test.into.(type) {
			case *corev1.PodList:
				for _, p := range list.Items {
					got = append(got, p.Name)
				}
			case *appsv1.ReplicaSetList:
				for _, r := range list.Items {
					got = append(got, r.Name)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// unknown is an object of a kind that no scheme has.
type unknown struct{ runtime.Object }

// An API server of a user must not fill the hub's memory.
func TestEndlessAnswer_IsErrAnswerTooLong(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"`)
		more := strings.Repeat("a", 1<<16)
		for {
			if _, err := io.WriteString(w, more); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	d, err := New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(server)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if _, err := d.Find(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}); !errors.Is(err, ErrAnswerTooLong) {
		t.Errorf("error %v", err)
	}
	if _, err := d.ServerVersion(t.Context()); !errors.Is(err, ErrAnswerTooLong) {
		t.Errorf("error %v", err)
	}
}
