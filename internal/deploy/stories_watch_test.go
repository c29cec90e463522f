package deploy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/rules/state"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// wire is the transport of an agent's watches, which a test can silence.
type wire struct {
	next http.RoundTripper

	mu   sync.Mutex
	cut  chan struct{} // closed once the wire works again
	gone int           // how many watches are refused then: their version is too old
}

// silence stops the events of all open and new watches.
func (w *wire) silence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = make(chan struct{})
}

// mend ends the silent watches. The API server refuses the next ones because their resource version is too old.
func (w *wire) mend(refused int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = refused
	close(w.cut)
	w.cut = nil
}

func (w *wire) silent() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut
}

func (w *wire) refuses() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone--
	return w.gone >= 0
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if query.Get("watch") != "true" || query.Get("labelSelector") != fleet.LabelSetHash {
		return w.next.RoundTrip(request)
	}
	if w.refuses() {
		status := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old resource version","code":410}`
		return &http.Response{
			StatusCode: http.StatusGone, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
			Body: io.NopCloser(strings.NewReader(status)), ProtoMajor: 1, ProtoMinor: 1,
		}, nil
	}
	response, err := w.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = &silentBody{ReadCloser: response.Body, wire: w, ctx: request.Context()}
	return response, nil
}

// silentBody is the response body of a silent watch.
type silentBody struct {
	io.ReadCloser
	wire *wire
	ctx  context.Context //nolint:containedctx // of the request it answers
}

func (b *silentBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	cut := b.wire.silent()
	if cut == nil {
		return n, err
	}
	select { // what came is lost
	case <-cut:
	case <-b.ctx.Done():
	}
	return 0, io.ErrUnexpectedEOF
}

func TestSilentWatches_ChangesAreFoundAfterReconnect(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]int{"ended": 0, "expired": 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "watch-"+name)
			w := &wire{}
			l.local.Wrap(func(next http.RoundTripper) http.RoundTripper { w.next = next; return w })
			agent := l.local
			l.local = control.Plane(t).Cluster(east).Config()
			l.options = func(o *Options) { o.Local = agent }
			l.start()
			l.apply(bundle{Name: "x", Files: driftFiles(), Options: deploytest.InNamespace(l.Name)})
			l.apply(bundle{Name: "other", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
			l.expectStatus("x", ready)
			l.expectStatus("other", ready)
			w.silence()
			l.edit("configmaps", "cm", `{"data":{"a":"x"}}`)
			l.edit("services", "ext", `{"spec":{"externalName":"there.example.com"}}`)
			l.remove("serviceaccounts", "account")
			l.remove("configmaps", "other")
			if bd := l.get("x"); !bd.Status.NonModified {
				t.Errorf("the watches are not silent: %v", bd.Status)
			}
			w.mend(refused)
			l.expectStatus("x", modified("configmap.v1 "+l.Name+`/cm modified {"data":{"a":"b"}}`,
				"service.v1 "+l.Name+`/ext modified {"spec":{"externalName":"here.example.com"}}`,
				"serviceaccount.v1 "+l.Name+"/account missing"))
			l.expectStatus("other", modified("configmap.v1 "+l.Name+"/other missing"))
		})
	}
}

// unlisted is the transport of an agent, on which reads of a path fail, for example the lists and watches of a resource.
type unlisted struct {
	next   http.RoundTripper
	suffix string // of the path
}

// RoundTrip implements http.RoundTripper.
func (u *unlisted) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet || !strings.HasSuffix(request.URL.Path, u.suffix) {
		return u.next.RoundTrip(request)
	}
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","message":"conversion webhook failed","code":500}`
	return &http.Response{
		StatusCode: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(strings.NewReader(status)), ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// A CRD has objects in a version that a webhook has to convert, and the webhook is gone. The API server then neither lists nor watches
// any object of the kind, but it returns those that need no conversion. Here the transport answers, because a real CRD like that
// would block the deletion of all namespaces.
func TestKindThatCannotBeListed_ItsObjectsAreRead(t *testing.T) {
	t.Parallel()
	l := newLab(t, "unlisted")
	group, crd, object := l.thing()
	agent := l.local
	agent.Wrap(func(next http.RoundTripper) http.RoundTripper { return &unlisted{next, "/" + group + "/v1/things"} })
	l.local = control.Plane(t).Cluster(east).Config()
	pass := l.fakeTime()
	withTime := l.options
	l.options = func(o *Options) { withTime(o); o.Local = agent }
	l.start()
	l.define(crd, crdVersion("v1", true, true))
	files := deploytest.With(deploytest.HelloFiles("hi"), map[string]string{"templates/thing.yaml": object})
	l.apply(bundle{Name: "things", Files: files, Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("things", ready)

	pass(time.Hour)
	l.expectStatus("things", func(bd *fleet.BundleDeployment) string {
		if found := conditions.Get(bd.Status.Conditions, conditions.Monitored); !strings.Contains(found.Message, "things."+group+" cannot be listed and watched") {
			return "Monitored does not name the kind"
		}
		return ready(bd)
	})
	things := dynamic.NewForConfigOrDie(l.local).Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}).Namespace(l.Name)
	if _, err := things.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"b":"d"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	pass(time.Hour)
	l.edit("configmaps", "things", `{"metadata":{"annotations":{"a":"look"}}}`) // earlier than the timer
	l.expectStatus("things", modified("thing."+group+" "+l.Name+`/a modified {"spec":{"b":"c"}}`))
}

// The record of a release cannot be read after a restart of the agent, so that its objects are not known.
func TestReleaseThatCannotBeRead_IsNotReadyAfterAWhile(t *testing.T) {
	t.Parallel()
	l := newLab(t, "unreadable")
	pass := l.fakeTime()
	l.apply(bundle{Name: "x", Files: rawFiles(), Options: deploytest.InNamespace(l.Name)})
	l.start()
	l.expectStatus("x", ready)
	l.halt()
	direct := l.local
	l.local = rest.CopyConfig(direct)
	l.local.Wrap(func(next http.RoundTripper) http.RoundTripper { return &unlisted{next, "/sh.helm.release.v1.x.v1"} })
	l.start()
	if bd := l.expectStatus("x", says(conditions.Monitored, "reading release")); !bd.Status.Ready {
		t.Errorf("a short outage changes the state: %v", bd.Status)
	}
	pass(10 * time.Minute)
	bd := l.expectStatus("x", says(conditions.Ready, state.Unchecked+"reading release"))
	if got := state.Of(bd); got != fleet.NotReady {
		t.Errorf("state %s", got)
	}
	l.halt()
	l.local = direct
	l.start()
	l.expectStatus("x", ready)
}
