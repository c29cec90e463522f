package access

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestRequests_TimeOutAndEndWithAgent(t *testing.T) {
	var deadline, hasDeadline = time.Time{}, false
	stopped := make(chan struct{})
	config := WithBounds(&rest.Config{Timeout: time.Second, QPS: 5}, stopped)
	if config.Timeout != 0 || config.QPS != -1 {
		t.Errorf("timeout %s QPS %f", config.Timeout, config.QPS)
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	transport := config.WrapTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
		deadline, hasDeadline = r.Context().Deadline()
		return http.DefaultTransport.RoundTrip(r)
	}))
	do := func(path string) error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	tests := map[string]bool{"/api/v1/pods": true, "/api/v1/pods?watch=true": false, "/api/v1/pods?watch=false": true, "/log?follow=true": false, "/api/v1/pods?watch=true&timeoutSeconds=300": true}
	for path, bounded := range tests {
		if err := do(path); err != nil {
			t.Fatal(err)
		}
		if hasDeadline != bounded {
			t.Errorf("%s: has a deadline: %t (%s)", path, hasDeadline, deadline)
		}
	}
	close(stopped)
	for path := range tests {
		if err := do(path); !errors.Is(err, ErrStopped) {
			t.Errorf("%s after the end: %v", path, err)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestResponseClosed_TimeoutIsReleased(t *testing.T) {
	var ctx context.Context
	b := &bounded{stopped: make(chan struct{}), next: roundTripper(func(r *http.Request) (*http.Response, error) {
		ctx = r.Context()
		if r.URL.Path == "/fails" {
			return nil, errors.New("no")
		}
		return &http.Response{Body: http.NoBody}, nil
	})}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	response, err := b.RoundTrip(request)
	if err != nil || ctx.Err() != nil {
		t.Fatalf("%v %v", err, ctx.Err())
	}
	if err := response.Body.Close(); err != nil || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("after the answer was read: %v %v", err, ctx.Err())
	}
	request.URL.Path = "/fails"
	if _, err := b.RoundTrip(request); err == nil || !errors.Is(ctx.Err(), context.Canceled) { //nolint:bodyclose // there is none
		t.Errorf("after a failure: %v %v", err, ctx.Err())
	}
}
