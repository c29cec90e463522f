package kube

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

func TestRetryAfter(t *testing.T) {
	tests := map[string]struct {
		err  error
		want time.Duration
	}{
		"no error":                {nil, 0},
		"no answer":               {errors.New("connection refused"), 0},
		"429":                     {apierrors.NewTooManyRequests("busy", 7), 7 * time.Second},
		"a wrapped 429":           {fmt.Errorf("asking: %w", apierrors.NewTooManyRequests("busy", 7)), 7 * time.Second},
		"a timeout of the server": {apierrors.NewServerTimeout(schema.GroupResource{}, "get", 3), 3 * time.Second},
		"503 without a time":      {apierrors.NewServiceUnavailable("starting"), 0},
		"an hour":                 {apierrors.NewTooManyRequests("busy", 3600), LongestRetryAfter},
		"a time in the past":      {apierrors.NewTooManyRequests("busy", -7), 0},
		"401":                     {apierrors.NewUnauthorized("no"), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := RetryAfter(test.err); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// Load balancers send the header without a Status in the body.
func TestRetryAfter_ReadsTheHeader(t *testing.T) {
	for name, code := range map[string]int{"429": http.StatusTooManyRequests, "503": http.StatusServiceUnavailable, "500": http.StatusInternalServerError} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.Header().Set("Retry-After", "42")
				http.Error(w, "busy", code)
			}))
			defer server.Close()
			client, err := corev1client.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			err = client.RESTClient().Get().Resource("secrets").MaxRetries(0).Do(t.Context()).Into(&metav1.Status{})
			if got := RetryAfter(err); got != 42*time.Second {
				t.Errorf("%s of %v, want 42s", got, err)
			}
			if asked != 1 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

func TestRetrySoon_LimitsRetryAfter(t *testing.T) {
	for name, test := range map[string]struct{ asked, want string }{
		"longer: limited":           {"30", "2"},
		"longest number: limited":   {"9223372036854775807", "2"},
		"shorter: stays":            {"1", "1"},
		"none: stays":               {"", ""},
		"a date: client-go ignores": {"Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:00 GMT"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", test.asked)
				w.WriteHeader(http.StatusTooManyRequests)
			}))
			defer server.Close()
			client, err := rest.HTTPClientFor(RetrySoon(&rest.Config{Host: server.URL}))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if got := answer.Header.Get("Retry-After"); got != test.want {
				t.Errorf("Retry-After %q, want %q", got, test.want)
			}
		})
	}
}
