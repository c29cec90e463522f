package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// server answers each request with the next of its answers, and with 200 when there are none left.
type server struct {
	answers []func(*http.Request) (*http.Response, error)
	asked   []string
}

func (s *server) RoundTrip(request *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, request.URL.RequestURI())
	if len(s.answers) == 0 {
		return code(http.StatusOK)(request)
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	return answer(request)
}

func code(code int) func(*http.Request) (*http.Response, error) {
	return func(request *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
			Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1"}`)),
		}, nil
	}
}

func lost(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }

// giveUp is the key of what ends a request's context.
type giveUp struct{}

// givenUp is a request whose sender does not wait for the answer.
func givenUp(request *http.Request) (*http.Response, error) {
	request.Context().Value(giveUp{}).(context.CancelFunc)() //nolint:forcetypeassert // a test's
	return nil, request.Context().Err()
}

func TestWatchAfterOutage_MustListAgain(t *testing.T) {
	const (
		read  = "/api/v1/namespaces/a/secrets/b"
		goOn  = "/api/v1/secrets?resourceVersion=7&watch=true"
		other = "/api/v1/pods?resourceVersion=7&watch=true"
	)
	type answers = []func(*http.Request) (*http.Response, error)
	tests := map[string]struct {
		answers answers
		asks    []string
		told    []string // what is answered without the server
	}{
		"no outage": {nil, []string{read, goOn, read, goOn}, nil},
		"the server does not answer": {
			answers{lost}, []string{read, goOn, goOn}, []string{goOn},
		},
		"the watch is not answered": {
			answers{lost}, []string{goOn, goOn, goOn}, []string{goOn},
		},
		"a proxy answers 502":                         {answers{code(502)}, []string{read, goOn, goOn}, []string{goOn}},
		"a proxy answers 503":                         {answers{code(503)}, []string{read, goOn, goOn}, []string{goOn}},
		"the server answers 500":                      {answers{code(500)}, []string{read, goOn}, nil},
		"the server answers 4xx":                      {answers{code(403), code(404), code(409), code(429)}, []string{read, read, read, read, goOn}, nil},
		"the caller gives up":                         {answers{givenUp}, []string{read, goOn}, nil},
		"each cache lists again":                      {answers{lost}, []string{read, goOn, other, goOn, other}, []string{goOn, other}},
		"each outage is counted":                      {answers{lost, code(200), lost}, []string{read, goOn, goOn, read, goOn, goOn}, []string{goOn, goOn}},
		"two outages at once are one":                 {answers{lost, lost}, []string{read, read, goOn, goOn}, []string{goOn}},
		"selectors distinguish caches":                {answers{lost}, []string{read, goOn + "&labelSelector=a", goOn + "&labelSelector=b", goOn + "&fieldSelector=a"}, []string{goOn + "&labelSelector=a", goOn + "&labelSelector=b", goOn + "&fieldSelector=a"}},
		"a list is not affected":                      {answers{lost}, []string{read, "/api/v1/secrets?resourceVersion=7&limit=500"}, nil},
		"a watch with initial events is not affected": {answers{lost}, []string{read, "/api/v1/secrets?watch=true&resourceVersion=7&sendInitialEvents=true"}, nil},
		"a watch from version 0 is not affected":      {answers{lost}, []string{read, "/api/v1/secrets?watch=true&resourceVersion=0"}, nil},
		"a watch without a version is not affected":   {answers{lost}, []string{read, "/api/v1/secrets?watch=true"}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &server{answers: test.answers}
			cfg := RelistAfterOutage(&rest.Config{Transport: s})
			through, err := rest.TransportFor(cfg)
			if err != nil {
				t.Fatal(err)
			}
			var passed, told []string
			for _, asks := range test.asks {
				before := len(s.asked)
				ctx, cancel := context.WithCancel(t.Context())
				request, err := http.NewRequestWithContext(context.WithValue(ctx, giveUp{}, cancel), http.MethodGet, "https://hub"+asks, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := through.RoundTrip(request)
				if err == nil {
					_ = answer.Body.Close()
				}
				cancel()
				if len(s.asked) > before {
					passed = append(passed, asks)
					continue
				}
				told = append(told, asks)
				if err != nil || answer.StatusCode != http.StatusGone {
					t.Errorf("%s is answered with %v, %v", asks, answer, err)
				}
			}
			if diff := cmp.Diff(test.told, told); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(s.asked, passed); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWatchAfterOutage_ClientGetsResourceExpiredOnce(t *testing.T) {
	s := &server{answers: []func(*http.Request) (*http.Response, error){lost}}
	client, err := kubernetes.NewForConfig(RelistAfterOutage(&rest.Config{Transport: s}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().ConfigMaps(metav1.NamespaceAll).Watch(t.Context(), metav1.ListOptions{ResourceVersion: "7"})
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("it is %v", err)
	}
	_, err = client.CoreV1().ConfigMaps(metav1.NamespaceAll).Watch(t.Context(), metav1.ListOptions{ResourceVersion: "7"})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("it is %v", err)
	}
	watching, err := client.CoreV1().ConfigMaps(metav1.NamespaceAll).Watch(t.Context(), metav1.ListOptions{ResourceVersion: "7"})
	if err != nil {
		t.Fatal(err)
	}
	watching.Stop()
}

func TestRelistAfterOutage_DoesNotModifyTheGivenConfig(t *testing.T) {
	cfg := &rest.Config{Transport: &server{}}
	RelistAfterOutage(cfg)
	if cfg.WrapTransport != nil {
		t.Error("it is wrapped")
	}
}
