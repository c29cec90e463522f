package kube

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// InPages is cfg for caches that are filled from pages, which cost an API server a fraction of the stream that client-go
// asks for first (decision 47). That request is answered here, as by a server that knows no such streams:
//
//	watch, all there is from the beginning ✗ 422 Invalid, said here ─► list, page by page ─► watch
//
// Pages are asked for one ahead, see ahead. A cache that has something, and asks for all there is since, gets its stream: client-go would ask for one list of
// everything instead.
func InPages(cfg *rest.Config) *rest.Config {
	pages := newAhead()
	return Through(cfg, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		if !isForAllThereIs(request) {
			return pages.send(next, request)
		}
		return answered(request, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
	})
}

// isForAllThereIs says whether a stream is asked for by a cache that has nothing yet, or doubts all that it has.
func isForAllThereIs(request *http.Request) bool {
	if !strings.Contains(request.URL.RawQuery, "sendInitialEvents") {
		return false // as nearly all requests
	}
	query := request.URL.Query()
	version := query.Get("resourceVersion")
	return query.Get("sendInitialEvents") == "true" && (version == "" || version == "0")
}
