package deploy

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/release"
)

// readCounter counts full reads of a Secret. Other tests have releases of the same name in their namespaces, which the
// agent reads once to find out whose they are.
type readCounter struct {
	next              http.RoundTripper
	namespace, secret string
	reads             atomic.Int32
}

// RoundTrip implements http.RoundTripper.
func (c *readCounter) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/namespaces/"+c.namespace+"/secrets/"+c.secret) && !strings.Contains(request.Header.Get("Accept"), "PartialObjectMetadata") {
		c.reads.Add(1)
	}
	return c.next.RoundTrip(request)
}

func TestObjectRewrittenByOthers_ReleaseIsReadOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, "rewritten")
	counter := &readCounter{namespace: l.Name, secret: release.SecretName("x", 1)}
	l.local.Wrap(func(next http.RoundTripper) http.RoundTripper { counter.next = next; return counter })
	agent := l.local
	l.local = control.Plane(t).Cluster(east).Config()
	l.options = func(o *Options) { o.Local = agent }
	l.start()
	l.apply(bundle{Name: "x", Files: driftFiles(), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", applied)
	before := counter.reads.Load()
	rounds := []struct{ edit, patch string }{
		{`{"data":{"a":"x"}}`, `{"data":{"a":"b"}}`},
		{`{"data":{"c":"x"}}`, `{"data":{"a":"b","c":"d"}}`},
		{`{"data":{"a":"b"}}`, `{"data":{"c":"d"}}`},
		{`{"data":{"a":"y"}}`, `{"data":{"a":"b","c":"d"}}`},
	}
	for i := range 20 {
		round := rounds[i%len(rounds)]
		l.edit("configmaps", "cm", round.edit)
		if i < 4 || i == 19 {
			l.expectStatus("x", modified("configmap.v1 "+l.Name+"/cm modified "+round.patch))
		}
	}
	if got := counter.reads.Load() - before; got > 1 {
		t.Errorf("the release was read %d times", got)
	}
	// A deleted release is still detected.
	if err := l.East.CoreV1().Secrets(l.Name).Delete(t.Context(), counter.secret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.edit("configmaps", "cm", `{"data":{"c":"again"}}`)
	l.eventually(func() string {
		if got := l.revisionsOf(l.Name, "x"); len(got) != 1 {
			return "the release was not made again"
		}
		return ""
	})
}
