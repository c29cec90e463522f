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

// RelistAfterOutage is cfg for the caches of a process, which list all objects anew after its server was out of reach
// (see Relisting, which does so for one informer). What a server was restored to may be younger than the lease that
// tells of it: then nobody notices that it went back, and nothing that a cache knows may outlive the outage.
//
//	a request without an answer ─► each watch that would go on ✗ 410 Gone, said here ─► list ─► watch
//
// A request that its sender gives up is no outage.
func RelistAfterOutage(cfg *rest.Config) *rest.Config {
	return Through(cfg, (&outages{told: map[string]int{}}).send)
}

// outages are the times when a server was out of reach.
type outages struct {
	mu     sync.Mutex
	number int            // that there were
	told   map[string]int // of how many each cache knows, by what it watches
}

func (o *outages) send(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	if o.doubts(request.URL) {
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

// doubts says, once for each outage, whether a cache would go on from what it knew before. One that was filled since
// is told, too, and lists twice.
func (o *outages) doubts(asked *url.URL) bool {
	query := asked.Query()
	version := query.Get("resourceVersion")
	if query.Get("watch") == "" || version == "" || version == "0" || query.Get("sendInitialEvents") == "true" {
		return false // not from where it was
	}
	what := asked.Path + "?" + query.Get("labelSelector") + "&" + query.Get("fieldSelector")
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.told[what] == o.number
	o.told[what] = o.number
	return !known
}

// isOutage says that there was no answer of the server's, or only that of somebody who stands before it.
func isOutage(answer *http.Response, err error) bool {
	return err != nil || answer.StatusCode == http.StatusBadGateway || answer.StatusCode == http.StatusServiceUnavailable
}

// expired is what a server answers that does not know a version any more.
func expired(request *http.Request) (*http.Response, error) {
	return answered(request, apierrors.NewResourceExpired("the server was out of reach and may have been restored: listing anew"))
}

// answered is an answer as of a server that refuses a request.
func answered(request *http.Request, refusal *apierrors.StatusError) (*http.Response, error) {
	status := refusal.ErrStatus
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
