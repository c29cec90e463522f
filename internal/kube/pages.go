package kube

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// InPages returns a copy of cfg for caches that are filled page by page. For the API server, pages cost a
// fraction of the streamed list that client-go requests first (decision 20). That request is answered here, as
// by a server without streamed lists:
//
//	watch with all initial events ✗ 422 Invalid, made up here ─► list, page by page ─► watch
//
// The next page is prefetched (see ahead). A cache that has objects and requests all newer ones still gets its
// stream, because client-go would otherwise list everything in one request.
func InPages(cfg *rest.Config) *rest.Config {
	pages := newAhead()
	return Through(cfg, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		if !isForAllThereIs(request) {
			return pages.send(next, request)
		}
		return answered(request, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
	})
}

// isForAllThereIs reports whether a request streams all objects, for a cache that is empty or distrusts its
// content.
func isForAllThereIs(request *http.Request) bool {
	if !strings.Contains(request.URL.RawQuery, "sendInitialEvents") {
		return false // true for nearly all requests
	}
	query := request.URL.Query()
	version := query.Get("resourceVersion")
	return query.Get("sendInitialEvents") == "true" && (version == "" || version == "0")
}
