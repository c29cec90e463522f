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
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

func downstream(t *testing.T, r *kubetest.Recorder) *Client {
	t.Helper()
	server := httptest.NewTLSServer(r)
	t.Cleanup(server.Close)
	d, err := New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: kubetest.CAOf(server)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func TestDownstreamApply(t *testing.T) {
	const query = "?fieldManager=fleet-import&force=true&timeout=15s"
	object := func() string { return `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}` }
	tests := map[string]struct {
		objects []runtime.Object
		answers map[string]int
		want    []string
		err     string
		is      error
	}{
		"objects are applied in order, without fields that the server sets": {
			objects: []runtime.Object{
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}, Data: map[string][]byte{"k": []byte("v")}},
				&rbacv1.ClusterRole{
					TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
					ObjectMeta: metav1.ObjectMeta{Name: "r"},
				},
			},
			want: []string{
				"PATCH /api/v1/namespaces/n" + query + ` {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"},"spec":{}}`,
				"PATCH /api/v1/namespaces/n/secrets/s" + query + ` {"apiVersion":"v1","data":{"k":"dg=="},"kind":"Secret","metadata":{"name":"s","namespace":"n"}}`,
				"PATCH /apis/rbac.authorization.k8s.io/v1/clusterroles/r" + query +
					` {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"r"},"rules":null}`,
			},
		},
		"unstructured object is sent as it is": {
			objects: []runtime.Object{&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": map[string]any{"namespace": "n", "name": "p"},
			}}},
			want: []string{
				"PATCH /apis/policy/v1/namespaces/n/poddisruptionbudgets/p" + query +
					` {"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"p","namespace":"n"}}`,
			},
		},
		"stops at the first refused object": {
			objects: []runtime.Object{
				&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}},
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}},
			},
			answers: map[string]int{"PATCH /api/v1/namespaces/n/serviceaccounts/a": http.StatusForbidden},
			want: []string{
				"PATCH /api/v1/namespaces/n/serviceaccounts/a" + query +
					` {"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a","namespace":"n"}}`,
			},
			err: "applying ServiceAccount n/a",
		},
		"unsupported kind: an error without a request": {
			objects: []runtime.Object{&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "j"}}},
			is:      ErrUnknownKind,
		},
		"unregistered Go type: an error without a request": {
			objects: []runtime.Object{&metav1.Status{}},
			is:      ErrUnknownKind,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &kubetest.Recorder{Answers: test.answers, Body: object()}
			err := downstream(t, r).Apply(t.Context(), test.objects...)
			if diff := cmp.Diff(test.want, r.Requests); diff != "" {
				t.Errorf("the requests differ (-want +got):\n%s", diff)
			}
			switch {
			case test.is != nil && !errors.Is(err, test.is):
				t.Errorf("error %v, want %v", err, test.is)
			case test.is == nil && test.err == "" && err != nil, test.err != "" && (err == nil || !strings.HasPrefix(err.Error(), test.err)):
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

func TestDownstreamRemove(t *testing.T) {
	r := &kubetest.Recorder{
		Answers: map[string]int{"DELETE /apis/apps/v1/namespaces/n/statefulsets/old": http.StatusNotFound},
		Body:    `{"apiVersion":"v1","kind":"Status","status":"Success"}`,
	}
	d := downstream(t, r)
	err := d.Remove(t.Context(),
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "old"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	const body = `?timeout=15s {"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1","propagationPolicy":"Background"}`
	want := []string{
		"DELETE /apis/apps/v1/namespaces/n/statefulsets/old" + body,
		"DELETE /api/v1/namespaces/n/secrets/s" + body,
	}
	if diff := cmp.Diff(want, withoutVersion(r.Requests)); diff != "" {
		t.Errorf("the requests differ (-want +got):\n%s", diff)
	}
	r.Answers["DELETE /api/v1/namespaces/n/secrets/s"] = http.StatusForbidden
	if err := d.Remove(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}}); !apierrors.IsForbidden(err) {
		t.Errorf("error %v", err)
	}
	if err := d.Remove(t.Context(), &batchv1.Job{}); !errors.Is(err, ErrUnknownKind) {
		t.Errorf("error %v", err)
	}
}

// withoutVersion evens out in which group the client names its options.
func withoutVersion(requests []string) (even []string) {
	for _, request := range requests {
		for _, group := range []string{`"v1"`, `"apps/v1"`} {
			request = strings.ReplaceAll(request, `"apiVersion":`+group, `"apiVersion":"meta.k8s.io/v1"`)
		}
		even = append(even, request)
	}
	return even
}

func TestDownstreamReads(t *testing.T) {
	t.Run("version", func(t *testing.T) {
		r := &kubetest.Recorder{Body: `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`}
		got, err := downstream(t, r).ServerVersion(t.Context())
		if err != nil || got.GitVersion != "v1.36.3" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("invalid version", func(t *testing.T) {
		if _, err := downstream(t, &kubetest.Recorder{Body: "<html>"}).ServerVersion(t.Context()); err == nil {
			t.Error("want an error")
		}
	})
	t.Run("UID of a namespace", func(t *testing.T) {
		r := &kubetest.Recorder{Body: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","uid":"u"}}`}
		got, err := downstream(t, r).NamespaceUID(t.Context(), "kube-system")
		if err != nil || got != "u" {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("missing namespace", func(t *testing.T) {
		r := &kubetest.Recorder{Answers: map[string]int{"GET /api/v1/namespaces/kube-system": http.StatusNotFound}}
		if _, err := downstream(t, r).NamespaceUID(t.Context(), "kube-system"); !apierrors.IsNotFound(err) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("rejected credential", func(t *testing.T) {
		r := &kubetest.Recorder{Answers: map[string]int{"GET /version": http.StatusUnauthorized}}
		if _, err := downstream(t, r).ServerVersion(t.Context()); !apierrors.IsUnauthorized(err) {
			t.Errorf("error %v", err)
		}
	})
}

func TestNew_RefusesUnusableConfigs(t *testing.T) {
	if _, err := New(&rest.Config{Host: "https://h", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no certificate")}}); err == nil {
		t.Error("want an error")
	}
}

// refusesRecreate is an API server with a Deployment that was rolling, until the parameters of that are ours.
type refusesRecreate struct {
	kubetest.Recorder

	refuse func(body string) bool
}

func (r *refusesRecreate) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Requests = append(r.Requests, string(body))
	w.Header().Set("Content-Type", "application/json")
	if r.refuse(string(body)) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`))
		return
	}
	_, _ = w.Write(body)
}

func TestDownstreamApply_ChangesToRecreateInTwoSteps(t *testing.T) {
	deployment := func(strategy string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "d"}, Spec: appsv1.DeploymentSpec{Strategy: appsv1.DeploymentStrategy{Type: appsv1.DeploymentStrategyType(strategy)}}}
	}
	const recreate, rolling = `"strategy":{"type":"Recreate"}`, `"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"},"type":"RollingUpdate"}`
	owned := false
	tests := map[string]struct {
		strategy string
		refuse   func(body string) bool
		want     []string
		fails    bool
	}{
		"Recreate, accepted: one request": {"Recreate", func(string) bool { return false }, []string{recreate}, false},
		"Recreate, refused because of rollingUpdate: two steps": {"Recreate", func(body string) bool {
			owned = owned || strings.Contains(body, rolling)
			return !owned
		}, []string{recreate, rolling, recreate}, false},
		"Recreate, refused for another reason: an error": {"Recreate", func(string) bool { return true }, []string{recreate, rolling}, true},
		"RollingUpdate, refused: an error":               {"RollingUpdate", func(string) bool { return true }, []string{`"strategy":{"type":"RollingUpdate"}`}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &refusesRecreate{refuse: test.refuse}
			server := httptest.NewServer(r)
			defer server.Close()
			d, err := New(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if err := d.Apply(t.Context(), deployment(test.strategy)); (err != nil) != test.fails {
				t.Errorf("error %v", err)
			}
			if len(r.Requests) != len(test.want) {
				t.Fatalf("requests %q", r.Requests)
			}
			for i, want := range test.want {
				if !strings.Contains(r.Requests[i], want) {
					t.Errorf("request %d is %s; want %s", i, r.Requests[i], want)
				}
			}
		})
	}
}
