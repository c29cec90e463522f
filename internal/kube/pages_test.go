package kube

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

func TestInPages(t *testing.T) {
	asked := func(query url.Values) string { return "/api/v1/secrets?" + query.Encode() }
	tests := map[string]struct {
		query  url.Values
		passed bool
	}{
		"all there is, of a cache that has nothing":  {url.Values{"watch": {"true"}, "sendInitialEvents": {"true"}}, false},
		"all there is, whatever the server has":      {url.Values{"watch": {"true"}, "sendInitialEvents": {"true"}, "resourceVersion": {"0"}}, false},
		"all there is since, of a cache that had it": {url.Values{"watch": {"true"}, "sendInitialEvents": {"true"}, "resourceVersion": {"7"}}, true},
		"what is new":            {url.Values{"watch": {"true"}, "sendInitialEvents": {"false"}}, true},
		"a watch":                {url.Values{"watch": {"true"}, "resourceVersion": {"7"}}, true},
		"a page":                 {url.Values{"limit": {"500"}}, true},
		"a selector of the name": {url.Values{"labelSelector": {"sendInitialEvents=true"}}, true},
		"nothing but the kind":   {nil, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			behind := &server{}
			cfg := InPages(&rest.Config{Host: "http://hub"})
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://hub"+asked(test.query), nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := cfg.WrapTransport(behind).RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = answer.Body.Close() }()
			var want []string
			code := http.StatusUnprocessableEntity
			if test.passed {
				want, code = []string{asked(test.query)}, http.StatusOK
			}
			if diff := cmp.Diff(want, behind.asked); diff != "" || answer.StatusCode != code {
				t.Errorf("answer %d, want %d; passed on (-want +got):\n%s", answer.StatusCode, code, diff)
			}
		})
	}
}

// What is answered here is an error that client-go lists after, instead of trying again.
func TestInPagesTheStreamIsInvalid(t *testing.T) {
	cfg := InPages(&rest.Config{Host: "http://hub"})
	inner := cfg.WrapTransport
	cfg.WrapTransport = func(http.RoundTripper) http.RoundTripper { return inner(&server{}) }
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Secrets("").Watch(t.Context(), metav1.ListOptions{SendInitialEvents: ptr.To(true)})
	if !apierrors.IsInvalid(err) {
		t.Errorf("error %v", err)
	}
}
