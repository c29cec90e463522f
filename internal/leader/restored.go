package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube"
)

// ErrStateRestored is returned by Lead when the API server was restored from an older state and its resource versions
// have not reached their old values again. The caches contain changes that were undone, and their watches, which
// start at future versions, receive nothing. Callers end the process.
var ErrStateRestored = errors.New("the API server was restored from an older state; the caches are invalid")

// restoreDetector detects from the responses about leases that the store was restored. A lease is read or written every
// few seconds, and a newer state always has a greater version.
type restoreDetector struct {
	mu       sync.Mutex
	versions map[string]string // by lease
	noticed  func()            // nil while nothing depends on it
}

// run runs the work of a leader, and cancels it with ErrStateRestored when the store was restored.
func (r *restoreDetector) run(ctx context.Context, work func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.notify(func() { cancel(ErrStateRestored) })
	defer r.notify(nil)
	err := work(ctx)
	if errors.Is(context.Cause(ctx), ErrStateRestored) {
		return errors.Join(ErrStateRestored, unlessCanceled(err))
	}
	return err
}

func (r *restoreDetector) notify(noticed func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noticed = noticed
}

// watch returns a copy of cfg for the election for one lease.
func (r *restoreDetector) watch(cfg *rest.Config, lease string) *rest.Config {
	cfg = kube.WrapTransport(cfg, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(request)
		if err != nil || answer.StatusCode >= http.StatusMultipleChoices {
			return answer, err
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close() // read completely, or failed
		if err != nil {
			return nil, err
		}
		answer.Body = io.NopCloser(bytes.NewReader(body))
		var read metav1.PartialObjectMetadata
		if json.Unmarshal(body, &read) == nil {
			r.compare(lease, read.ResourceVersion)
		}
		return answer, nil
	})
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return cfg
}

// compare compares a lease's version with the last one.
func (r *restoreDetector) compare(lease, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.versions[lease]
	if version == "" {
		return // the response has no version
	}
	r.versions[lease] = version
	order, err := resourceversion.CompareResourceVersion(version, last)
	if err == nil && order < 0 && r.noticed != nil {
		r.noticed()
	}
}
