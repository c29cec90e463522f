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

// ErrRewound is returned by Lead when the API server knows less than it did: it was restored from an older state, and
// its resource versions have not got again to where they were. Caches are of what has not happened, and their watches,
// which begin at versions to come, stay silent. Callers end the process.
var ErrRewound = errors.New("the API server was restored from an older state; what was cached has not happened")

// rewinds notices, by the answers about leases, that a store has gone back: a lease is read or written every few
// seconds, and what is newer always has a greater version.
type rewinds struct {
	mu       sync.Mutex
	versions map[string]string // by lease
	noticed  func()            // nil while nobody has caches
}

// during runs the work of a leader, and ends it with ErrRewound when a store has gone back.
func (r *rewinds) during(ctx context.Context, work func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.notify(func() { cancel(ErrRewound) })
	defer r.notify(nil)
	err := work(ctx)
	if errors.Is(context.Cause(ctx), ErrRewound) {
		return errors.Join(ErrRewound, unlessCanceled(err))
	}
	return err
}

func (r *rewinds) notify(noticed func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noticed = noticed
}

// watch is cfg for the election for one lease.
func (r *rewinds) watch(cfg *rest.Config, lease string) *rest.Config {
	cfg = kube.Through(cfg, func(next http.RoundTripper, request *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(request)
		if err != nil || answer.StatusCode >= http.StatusMultipleChoices {
			return answer, err
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close() // read, or broken off
		if err != nil {
			return nil, err
		}
		answer.Body = io.NopCloser(bytes.NewReader(body))
		var read metav1.PartialObjectMetadata
		if json.Unmarshal(body, &read) == nil {
			r.saw(lease, read.ResourceVersion)
		}
		return answer, nil
	})
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return cfg
}

// saw compares a lease's version with the last one.
func (r *rewinds) saw(lease, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.versions[lease]
	if version == "" {
		return // not said
	}
	r.versions[lease] = version
	order, err := resourceversion.CompareResourceVersion(version, last)
	if err == nil && order < 0 && r.noticed != nil {
		r.noticed()
	}
}
