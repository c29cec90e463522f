package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestRequests_TimeOutAndEndWithAgent(t *testing.T) {
	var deadline, hasDeadline = time.Time{}, false
	stopped := make(chan struct{})
	config := withBounds(&rest.Config{Timeout: time.Second, QPS: 5}, stopped)
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
		if err := do(path); !errors.Is(err, errStopped) {
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

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// metadataOf returns the metadata of an object as the API server sends them.
func metadataOf(kind, name, version, hash string) *metav1.PartialObjectMetadata {
	found := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "web", UID: types.UID(name), ResourceVersion: version,
			Labels: map[string]string{"big": "label"}, Annotations: map[string]string{"big": "annotation"}},
	}
	if hash != "" {
		found.Labels[fleet.LabelSetHash] = hash
	}
	return found
}

func newMetadataClient(t *testing.T, objects ...runtime.Object) *metadatafake.FakeMetadataClient {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return metadatafake.NewSimpleMetadataClient(scheme, objects...)
}

// watching is a set of watches on a fake API server, and their notifications.
type watching struct {
	*watches
	client  *metadatafake.FakeMetadataClient
	changed chan string
	synced  chan []string
}

func newWatching(t *testing.T, objects ...runtime.Object) watching {
	t.Helper()
	w := watching{client: newMetadataClient(t, objects...), changed: make(chan string, 100), synced: make(chan []string, 100)}
	w.watches = newWatches(w.client, time.Now, func(hash string) { w.changed <- hash }, func(users []string) { w.synced <- users })
	t.Cleanup(w.stop)
	return w
}

func (w watching) expectKnown(t *testing.T, resource schema.GroupVersionResource, want bool) {
	t.Helper()
	if _, known := w.look(resource, "web", "a"); known != want {
		t.Errorf("%s known: %t, want %t", resource.Resource, known, want)
	}
}

func (w watching) expectSynced(t *testing.T, want string) {
	t.Helper()
	if got := receive(t, w.synced); !slices.Equal(got, []string{want}) {
		t.Errorf("synced for %v, want %s", got, want)
	}
}

func TestWatches_StripCachedObjects(t *testing.T) {
	w := newWatching(t, metadataOf("ConfigMap", "a", "1", "h1"))
	w.expectKnown(t, configMaps, false)
	w.follow("x", map[schema.GroupVersionResource]bool{configMaps: true})
	w.expectSynced(t, "x")
	if got := receive(t, w.changed); got != "h1" {
		t.Errorf("changed %q", got)
	}
	found, known := w.look(configMaps, "web", "a")
	want := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "web", UID: "a", ResourceVersion: "1", Labels: map[string]string{fleet.LabelSetHash: "h1"}},
	}
	if diff := cmp.Diff(want, found); diff != "" || !known {
		t.Errorf("known %t, what is kept:\n%s", known, diff)
	}
	if found, known := w.look(configMaps, "web", "b"); found != nil || !known {
		t.Errorf("what is not there: %v %t", found, known)
	}
}

func TestObjectTakenOver_EnqueuesBothSets(t *testing.T) {
	w := newWatching(t, metadataOf("ConfigMap", "a", "1", "h1"))
	w.follow("x", map[schema.GroupVersionResource]bool{configMaps: true})
	w.expectSynced(t, "x")
	receive(t, w.changed)
	client, ok := w.client.Resource(configMaps).Namespace("web").(metadatafake.MetadataClient)
	if !ok {
		t.Fatal("the fake client cannot update")
	}
	if _, err := client.UpdateFake(metadataOf("ConfigMap", "a", "2", "h2"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	got := []string{receive(t, w.changed), receive(t, w.changed)}
	slices.Sort(got)
	if !slices.Equal(got, []string{"h1", "h2"}) {
		t.Errorf("notified %v", got)
	}
}

func TestLastUserLeaves_WatchStops(t *testing.T) {
	w := newWatching(t)
	w.follow("x", map[schema.GroupVersionResource]bool{configMaps: true})
	w.expectSynced(t, "x")
	w.follow("y", map[schema.GroupVersionResource]bool{configMaps: true, secretsResource: true})
	w.expectSynced(t, "y")
	w.follow("x", nil)
	w.expectKnown(t, configMaps, true)
	w.follow("y", map[schema.GroupVersionResource]bool{secretsResource: true})
	w.expectKnown(t, configMaps, false)
	w.expectKnown(t, secretsResource, true)
	w.stop()
	w.follow("z", map[schema.GroupVersionResource]bool{configMaps: true})
	w.expectKnown(t, configMaps, false)
}

func TestUnwatchableResource_IsFetched(t *testing.T) {
	client := newMetadataClient(t)
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("the server does not allow this method on the requested resource")
	})
	var mu sync.Mutex
	now := noon
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	w := newWatches(client, clock, func(string) {}, func([]string) {})
	defer w.stop()
	w.follow("x", map[schema.GroupVersionResource]bool{configMaps: true})
	if _, known := w.look(configMaps, "web", "a"); known {
		t.Error("known at once")
	}
	mu.Lock()
	now = now.Add(watchPatience + time.Second)
	mu.Unlock()
	if found, known := w.look(configMaps, "web", "a"); found != nil || !known {
		t.Errorf("after a while: %v %t", found, known)
	}
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func TestInventory(t *testing.T) {
	i := newInventory()
	a, b, c := releaseKey{"web", "a"}, releaseKey{"web", "b"}, releaseKey{"db", "z"}
	i.add("x", b)
	i.add("x", a)
	i.add("x", c)
	i.add("x", a)
	i.add("y", a)
	if diff := cmp.Diff([]releaseKey{c, a, b}, i.of("x")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]releaseKey{c, b}, i.except("x", a)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"x", "y"}, i.names()); diff != "" {
		t.Error(diff)
	}
	i.remove("y", a)
	i.remove("y", a)
	if diff := cmp.Diff([]string{"x"}, i.names()); diff != "" || !i.owns(a) || i.owns(releaseKey{"web", "q"}) {
		t.Error(diff)
	}
	i.setForeign(a, "7")
	if !i.isForeign(a, "7") || i.isForeign(a, "8") || i.isForeign(b, "") {
		t.Error("a release must be foreign at exactly the checked version")
	}
}

func TestRevisionSecrets_NewestIsRecorded(t *testing.T) {
	secret := func(name, release, version, owner string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, ResourceVersion: "r" + version,
			Labels: map[string]string{"name": release, "version": version, "owner": owner}}}
	}
	newest := map[releaseKey]revisionSecret{}
	for _, s := range []*metav1.PartialObjectMetadata{
		secret("a9", "a", "9", "helm"), secret("a10", "a", "10", "helm"), secret("a2", "a", "2", "helm"),
		secret("b1", "b", "1", "helm"), secret("no", "c", "1", "somebody"), secret("no", "", "1", "helm"), secret("no", "d", "x", "helm"), secret("no", "e", "0", "helm"),
	} {
		note(newest, s)
	}
	want := map[releaseKey]revisionSecret{
		{"web", "a"}: {secret: "a10", resourceVersion: "r10", number: 10}, {"web", "b"}: {secret: "b1", resourceVersion: "r1", number: 1},
	}
	if diff := cmp.Diff(want, newest, cmp.AllowUnexported(revisionSecret{})); diff != "" {
		t.Error(diff)
	}
}

func TestRecords(t *testing.T) {
	r := newRecords()
	first := r.of(deployment(func(bd *fleet.BundleDeployment) { bd.UID = "1" }), "h")
	if again := r.of(deployment(func(bd *fleet.BundleDeployment) { bd.UID = "1" }), "h"); again != first {
		t.Error("another record for the same")
	}
	if anew := r.of(deployment(func(bd *fleet.BundleDeployment) { bd.UID = "2" }), "h"); anew == first {
		t.Error("the same record after a recreation")
	}
	r.of(deployment(func(bd *fleet.BundleDeployment) { bd.Name = "other" }), "h")
	if diff := cmp.Diff([]string{"hello", "other"}, r.usersOf("h")); diff != "" {
		t.Error(diff)
	}
	if known := r.drop("hello", "h"); known == nil || known.uid != "2" {
		t.Errorf("dropped %v", known)
	}
	if known := r.drop("hello", "h"); known != nil {
		t.Errorf("dropped %v again", known)
	}
	r.drop("other", "h")
	if len(r.users) > 0 || len(r.byName) > 0 {
		t.Errorf("left over: %v %v", r.users, r.byName)
	}
}

func TestChangedBundleDeployment_IsEnqueuedUnlessOnlyStatus(t *testing.T) {
	tests := map[string]struct {
		change func(*fleet.BundleDeployment)
		want   bool
	}{
		"nothing":          {func(*fleet.BundleDeployment) {}, false},
		"the status":       {func(bd *fleet.BundleDeployment) { bd.Status.Ready = true; bd.ResourceVersion = "9" }, false},
		"the spec":         {func(bd *fleet.BundleDeployment) { bd.Spec.Paused = true }, true},
		"a copied Secret":  {func(bd *fleet.BundleDeployment) { bd.Spec.DownstreamResourcesGeneration++ }, true},
		"a label":          {func(bd *fleet.BundleDeployment) { bd.Labels["a"] = "b" }, true},
		"an annotation":    {func(bd *fleet.BundleDeployment) { bd.Annotations = map[string]string{"a": "b"} }, true},
		"its deletion":     {func(bd *fleet.BundleDeployment) { bd.DeletionTimestamp = &metav1.Time{Time: noon} }, true},
		"it was recreated": {func(bd *fleet.BundleDeployment) { bd.UID = "other" }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bd := deployment()
			test.change(bd)
			if got := worthALook(deployment(), bd); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestPanic_BecomesError(t *testing.T) {
	err := guarded(func() error { panic("a chart did it") })
	if err == nil || !strings.Contains(err.Error(), "a chart did it") {
		t.Errorf("got %v", err)
	}
	if err := guarded(func() error { return nil }); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestCheckTargetNamespace(t *testing.T) {
	team := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "x"}}}
	tests := map[string]struct {
		labels   map[string]string
		exists   bool
		selector *metav1.LabelSelector
		want     string
		reason   string
	}{
		"no selector":              {selector: nil},
		"no namespace":             {selector: team, reason: fleet.ReasonNamespaceMissing, want: "target namespace web does not exist on downstream cluster"},
		"a namespace that matches": {labels: map[string]string{"team": "a"}, exists: true, selector: team},
		"a namespace that does not match": {labels: map[string]string{"team": "b"}, exists: true, selector: team, reason: fleet.ReasonNamespaceRefused,
			want: "target namespace web does not match AllowedTargetNamespaceSelector (team=a)"},
		"an invalid selector": {exists: true, selector: bad, reason: fleet.ReasonSelectorInvalid, want: `reading allowedTargetNamespaceSelector: "x" is not a valid label selector operator`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := checkTargetNamespace("web", namespaceWith(test.exists, test.labels), test.selector)
			expectError(t, err, test.want)
			if err != nil && reasonOf(err) != test.reason {
				t.Errorf("reason %s", reasonOf(err))
			}
		})
	}
}

func TestSuperseded(t *testing.T) {
	at := func(version, deploymentID string) *fleet.BundleDeployment {
		return deployment(func(bd *fleet.BundleDeployment) {
			bd.UID, bd.ResourceVersion, bd.Spec.DeploymentID = "1", version, deploymentID
		})
	}
	tests := map[string]struct {
		cached *fleet.BundleDeployment
		want   bool
	}{
		"the deployed state: is not superseded":          {at("5", "s-1:a"), false},
		"changed, same deployment ID: is not superseded": {at("7", "s-1:a"), false},
		"other deployment ID: is superseded":             {at("7", "s-2:a"), true},
		"cache is older: is not superseded":              {at("3", "s-0:a"), false},
		"it was deleted":                                 {nil, true},
		"it was recreated":                               {deployment(func(bd *fleet.BundleDeployment) { bd.UID = "2" }), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h, err := newHub(&rest.Config{}, "cluster-ns")
			if err != nil {
				t.Fatal(err)
			}
			if test.cached != nil {
				if err := h.informer.GetStore().Add(test.cached); err != nil {
					t.Fatal(err)
				}
			}
			if got := (&deployer{hub: h}).superseded(at("5", "s-1:a"))(); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// A restored hub has an older state than this agent. The agent uses the hub's state.
func TestRestoredHub_OlderStateIsUsed(t *testing.T) {
	at := func(version, deploymentID string) *fleet.BundleDeployment {
		return deployment(func(bd *fleet.BundleDeployment) {
			bd.UID, bd.ResourceVersion, bd.Spec.DeploymentID = "1", version, deploymentID
		})
	}
	tests := map[string]struct {
		before, after *fleet.BundleDeployment
		looked        bool
		want          string
	}{
		"cache is older than the last report: report is used": {at("5", "s-1:a"), at("7", "s-1:a"), false, "9"},
		"cache has the last report: either is used":           {at("7", "s-1:a"), at("9", "s-1:a"), false, "9"},
		"cache is newer: cache is used":                       {at("9", "s-1:a"), at("11", "s-2:a"), true, "11"},
		"lower version and older state: hub was restored":     {at("9", "s-2:a"), at("4", "s-1:a"), true, "4"},
		"lower version, same state: hub was restored":         {at("9", "s-1:a"), at("4", "s-1:a"), true, "4"},
		"slightly lower version: hub was restored":            {at("9", "s-1:a"), at("8", "s-1:a"), true, "8"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now := noon
			d, _ := testDeployer(&now)
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
			defer queue.ShutDown()
			d.queue = queue
			d.handlers().OnUpdate(test.before, test.after)
			if looked := queue.Len() > 0; looked != test.looked {
				t.Errorf("enqueued: %t, want %t", looked, test.looked)
			}
			r := &record{written: at("9", "s-1:a")}
			if got := d.latest(test.after, r); got.ResourceVersion != test.want {
				t.Errorf("version %s, want %s", got.ResourceVersion, test.want)
			}
			r.written = at("12", "s-3:a") // the answer to the next report
			if got := d.latest(test.after, r); got.ResourceVersion != "12" {
				t.Errorf("then version %s, want 12", got.ResourceVersion)
			}
		})
	}
}

func TestConfirmGone(t *testing.T) {
	status := func(code int, reason metav1.StatusReason) string {
		text, err := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: reason, Code: int32(code)})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	tests := map[string]struct {
		code int
		body string
		gone bool
		err  bool
	}{
		"it was deleted":                    {404, status(404, metav1.StatusReasonNotFound), true, false},
		"the hub has lost the CRD":          {404, "404 page not found\n", false, false},
		"it exists":                         {200, `{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"BundleDeployment"}`, false, false},
		"the agent has no rights":           {403, status(403, metav1.StatusReasonForbidden), false, false},
		"the agent's credential is invalid": {401, status(401, metav1.StatusReasonUnauthorized), false, false},
		"the hub returns an error":          {500, status(500, metav1.StatusReasonInternalError), false, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if strings.HasPrefix(test.body, "{") {
					w.Header().Set("Content-Type", "application/json")
				}
				w.WriteHeader(test.code)
				_, _ = w.Write([]byte(test.body))
			}))
			defer server.Close()
			h, err := newHub(&rest.Config{Host: server.URL}, "cluster-ns")
			if err != nil {
				t.Fatal(err)
			}
			gone, err := h.confirmGone(t.Context(), "x")
			if gone != test.gone || (err != nil) != test.err {
				t.Errorf("gone %t, error %v", gone, err)
			}
		})
	}
}
