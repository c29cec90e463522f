package kube

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// RelistAfterOutage returns a copy of cfg for the caches of a process. They list all objects again after the
// server was unreachable. The server may have been restored from an older state with lower resource versions. A
// watch from a future version would be accepted but receive nothing until the server reaches that version, and the
// cache would never learn of changes that were undone.
//
//	a request without a response ─► each watch that would continue ✗ 410 Gone, made up here ─► list ─► watch
//
// A request that its sender cancels is not an outage.
func RelistAfterOutage(cfg *rest.Config) *rest.Config {
	return WrapTransport(cfg, (&outages{told: map[string]int{}}).send)
}

// outages counts the outages of a server.
type outages struct {
	mu     sync.Mutex
	number int            // of outages
	told   map[string]int // outages that each cache has seen, by the URL it watches
}

func (o *outages) send(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	if o.needsList(request.URL) {
		return expired(request)
	}
	answer, err := next.RoundTrip(request)
	if request.Context().Err() == nil && isOutage(answer, err) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.number++
	}
	return answer, err
}

// needsList reports, once per outage, whether a cache would continue from a version before the outage. A cache that
// was filled after the outage also gets true once, and lists twice.
func (o *outages) needsList(asked *url.URL) bool {
	query := asked.Query()
	version := query.Get("resourceVersion")
	if query.Get("watch") == "" || version == "" || version == "0" || query.Get("sendInitialEvents") == "true" {
		return false // starts from the current state
	}
	what := asked.Path + "?" + query.Get("labelSelector") + "&" + query.Get("fieldSelector")
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.told[what] == o.number {
		return false
	}
	o.told[what] = o.number
	return true
}

// isOutage reports whether the response is missing or comes only from a proxy in front of the server.
func isOutage(answer *http.Response, err error) bool {
	return err != nil || answer.StatusCode == http.StatusBadGateway || answer.StatusCode == http.StatusServiceUnavailable
}

// expired returns the response of a server that no longer has a version.
func expired(request *http.Request) (*http.Response, error) {
	status := apierrors.NewResourceExpired("the server was unreachable and may have been restored: listing again").ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(int(status.Code)), StatusCode: int(status.Code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: request,
	}, nil
}
