package clientset

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestClientset_RequestsItsAPIs(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)
	clients, err := New(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, workloads := t.Context(), clients.Workloads()
	for _, ask := range []func() error{
		func() error { _, err := clients.CoreV1().Secrets("ns").Get(ctx, "s", metav1.GetOptions{}); return err },
		func() error {
			_, err := clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{}, metav1.CreateOptions{})
			return err
		},
		func() error { _, err := workloads.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{}); return err },
		func() error {
			_, err := workloads.AppsV1().Deployments("ns").Get(ctx, "d", metav1.GetOptions{})
			return err
		},
		func() error { _, err := workloads.BatchV1().Jobs("ns").Get(ctx, "j", metav1.GetOptions{}); return err },
	} {
		if err := ask(); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"GET /api/v1/namespaces/ns/secrets/s", "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		"GET /api/v1/namespaces/ns/pods/p", "GET /apis/apps/v1/namespaces/ns/deployments/d", "GET /apis/batch/v1/namespaces/ns/jobs/j",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNew_RefusesAnInvalidConfig(t *testing.T) {
	if _, err := New(&rest.Config{Host: "https://hub", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("none")}}); err == nil {
		t.Error("an invalid CA was accepted")
	}
}
