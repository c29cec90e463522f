// Package clitest provides an API server for the tests of commands. It keeps objects in memory, records requests, and
// calls a reaction after each write, in place of the hub's controllers.
//
//	objects ─► Start ─► kubeconfig file ─► the command ─► requests, objects afterwards
package clitest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Object is an object as JSON.
type Object = unstructured.Unstructured

// Server is an API server.
type Server struct {
	// URL is its address. Kubeconfig is a file whose contexts "hub" (the current one) and "east" lead to it.
	URL, Kubeconfig string
	// React is called after each write, without a lock. It may be nil.
	React func(s *Server, method string, object *Object)
	// Date is the time of the server. The zero time means that of this machine.
	Date time.Time
	// Denied means that reviews of access answer no.
	Denied bool
	// Fails is called before each request, which Requests then contains. If it returns true, the server answers with 500. It
	// may be nil.
	Fails func() bool

	t        testing.TB
	kinds    *runtime.Scheme
	mu       sync.Mutex
	changed  *sync.Cond
	objects  map[key]*Object
	refused  map[string]int
	requests []string
	events   []event
	expired  int
}

type key struct{ prefix, resource, namespace, name string }

type event struct {
	version int
	key     key
	body    []byte
}

// Start starts a server with these objects.
func Start(t testing.TB, objects ...runtime.Object) *Server {
	t.Helper()
	s := &Server{t: t, kinds: known(), objects: map[key]*Object{}, refused: map[string]int{}, events: []event{{version: 1}}}
	s.changed = sync.NewCond(&s.mu)
	server := httptest.NewServer(s)
	t.Cleanup(func() { server.CloseClientConnections(); s.changed.Broadcast(); server.Close() })
	s.URL = server.URL
	s.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: hub
contexts:
- {name: hub, context: {cluster: hub, user: hub}}
- {name: east, context: {cluster: hub, user: hub}}
users:
- {name: hub, user: {token: CANARY}}
clusters:
- {name: hub, cluster: {server: "%s"}}
`, server.URL)
	if err := os.WriteFile(s.Kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		s.Put(object)
	}
	return s
}

// Put creates or replaces an object.
func (s *Server) Put(object runtime.Object) {
	s.t.Helper()
	put, at := s.convert(object)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(at, put)
}

// Delete removes an object.
func (s *Server) Delete(object runtime.Object) {
	s.t.Helper()
	_, at := s.convert(object)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(at)
}

// Get returns the stored object of the same kind and name, or nil.
func (s *Server) Get(object runtime.Object) *Object {
	s.t.Helper()
	_, at := s.convert(object)
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.objects[at]; found != nil {
		return found.DeepCopy()
	}
	return nil
}

// Refuse answers requests "<method> <path>" with a status code.
func (s *Server) Refuse(request string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[request] = code
}

// Hang does not answer requests "<method> <path>" until their clients give up.
func (s *Server) Hang(request string) { s.Refuse(request, hangs) }

// hangs is the status code of requests that are not answered.
const hangs = -1

// Expire ends all watches with 410. They cannot continue at an older version.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = s.version()
	s.changed.Broadcast()
}

// Requests returns the requests so far, as "<method> <path>?<query>", except for reads of single objects.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Writes returns the requests so far that write.
func (s *Server) Writes() []string {
	return slices.DeleteFunc(s.Requests(), func(r string) bool { return strings.HasPrefix(r, "GET ") })
}

func (s *Server) convert(object runtime.Object) (*Object, key) {
	s.t.Helper()
	gvk := object.GetObjectKind().GroupVersionKind()
	if gvk.Empty() {
		all, _, err := s.kinds.ObjectKinds(object)
		if err != nil {
			s.t.Fatal(err)
		}
		gvk = all[0]
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		s.t.Fatal(err)
	}
	result := &Object{Object: runtime.DeepCopyJSON(content)}
	result.SetGroupVersionKind(gvk)
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	return result, key{prefixOf(gvk.Group, gvk.Version), resource.Resource, result.GetNamespace(), result.GetName()}
}

// known returns the kinds that the server knows.
func known() *runtime.Scheme {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, fleet.AddToScheme} {
		if err := add(kinds); err != nil {
			panic(err)
		}
	}
	return kinds
}

// kindOf returns the kind of a resource, or "" for unknown resources.
func (s *Server) kindOf(at key) string {
	for gvk := range s.kinds.AllKnownTypes() {
		if resource, _ := meta.UnsafeGuessKindToResource(gvk); resource.Resource == at.resource && gvk.GroupVersion().String() == apiVersionOf(at.prefix) {
			return gvk.Kind
		}
	}
	return ""
}

func apiVersionOf(prefix string) string {
	return strings.TrimPrefix(strings.TrimPrefix(prefix, "/apis/"), "/api/")
}

func prefixOf(group, version string) string {
	if group == "" {
		return "/api/" + version
	}
	return "/apis/" + group + "/" + version
}

func (s *Server) version() int { return s.events[len(s.events)-1].version }

func (s *Server) store(at key, object *Object) {
	verb := "ADDED"
	if s.objects[at] != nil {
		verb = "MODIFIED"
	}
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		s.remove(at)
		return
	}
	s.record(verb, at, object)
	s.objects[at] = object
}

func (s *Server) remove(at key) {
	if object := s.objects[at]; object != nil {
		s.record("DELETED", at, object)
		delete(s.objects, at)
	}
}

func (s *Server) record(verb string, at key, object *Object) {
	version := s.version() + 1
	object.SetResourceVersion(strconv.Itoa(version))
	body, err := json.Marshal(map[string]any{"type": verb, "object": object.Object})
	if err != nil {
		s.t.Error(err)
	}
	s.events = append(s.events, event{version, at, append(body, '\n')})
	s.changed.Broadcast()
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, ok := parse(r.URL.Path)
	line := r.Method + " " + r.URL.Path
	s.setDate(w)
	s.mu.Lock()
	code := s.refused[line]
	if r.Method != http.MethodGet || at.name == "" {
		if r.URL.RawQuery != "" {
			line += "?" + r.URL.RawQuery
		}
		s.requests = append(s.requests, line)
	}
	s.mu.Unlock()
	switch {
	case s.Fails != nil && s.Fails():
		fail(w, http.StatusInternalServerError, "the test lets it fail")
	case code != 0:
		refuse(w, r, code)
	case r.URL.Path == "/version":
		answer(w, http.StatusOK, map[string]string{"gitVersion": "v1.35.1"})
	case !ok:
		fail(w, http.StatusNotFound, "the test has no such path")
	default:
		s.serve(w, r, at)
	}
}

// serve answers a request for objects.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, at key) {
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		s.watch(w, r, at)
	case r.Method == http.MethodGet && at.name == "":
		s.list(w, r, at)
	case r.Method == http.MethodGet:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.one(w, at)
	default:
		s.write(w, r, at)
	}
}

func (s *Server) setDate(w http.ResponseWriter) {
	if !s.Date.IsZero() {
		w.Header().Set("Date", s.Date.UTC().Format(http.TimeFormat))
	}
}

// parse splits the path of a request.
func parse(path string) (key, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	length := map[string]int{"api": 2, "apis": 3}[parts[0]]
	if length == 0 || len(parts) <= length {
		return key{}, false
	}
	at := key{prefix: "/" + strings.Join(parts[:length], "/")}
	parts = parts[length:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		at.namespace, parts = parts[1], parts[2:]
	}
	at.resource = parts[0]
	if len(parts) > 1 {
		at.name = parts[1]
	}
	return at, true
}

func (s *Server) one(w http.ResponseWriter, at key) {
	if s.objects[at] == nil {
		status := apierrors.NewNotFound(schema.GroupResource{Resource: at.resource}, at.name).ErrStatus
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		answer(w, http.StatusNotFound, status)
		return
	}
	answer(w, http.StatusOK, s.objects[at].Object)
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, at key) {
	query := r.URL.Query()
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*Object
	for key, object := range s.objects {
		if key.in(at) && selector.Matches(labels.Set(object.GetLabels())) {
			found = append(found, object)
		}
	}
	slices.SortFunc(found, func(a, b *Object) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	from, _ := strconv.Atoi(query.Get("continue"))
	limit, _ := strconv.Atoi(query.Get("limit"))
	metadata := map[string]any{"resourceVersion": strconv.Itoa(s.version())}
	if limit > 0 && from+limit < len(found) {
		metadata["continue"] = strconv.Itoa(from + limit)
		found = found[:from+limit]
	}
	items := []any{}
	for _, object := range found[from:] {
		items = append(items, object.Object)
	}
	list := map[string]any{"kind": s.kindOf(at) + "List", "apiVersion": apiVersionOf(at.prefix), "metadata": metadata, "items": items}
	answer(w, http.StatusOK, list)
}

// in reports whether a key belongs to the collection of another key without a name.
func (k key) in(at key) bool {
	return k.prefix == at.prefix && k.resource == at.resource && (at.namespace == "" || k.namespace == at.namespace)
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, at key) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flusher, _ := w.(http.Flusher)
	flusher.Flush()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-r.Context().Done():
		case <-stop:
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	for r.Context().Err() == nil {
		if from < s.expired {
			_, _ = io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired","status":"Failure"}}`+"\n")
			return
		}
		for _, event := range s.events {
			if event.version > from && event.key.in(at) {
				_, _ = w.Write(event.body)
			}
		}
		from = s.version()
		flusher.Flush()
		s.changed.Wait()
	}
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, at key) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	sent, err := decode(r, body)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	changed := s.apply(w, r, at, sent)
	if changed != nil && s.React != nil && !isDryRun(r) {
		s.React(s, r.Method, changed)
	}
}

// isDryRun reports whether nothing is to be stored.
func isDryRun(r *http.Request) bool { return r.URL.Query().Has("dryRun") }

// decode reads a body: JSON, or protobuf for built-in kinds.
func decode(r *http.Request, body []byte) (map[string]any, error) {
	var sent map[string]any
	if len(body) == 0 {
		return nil, nil
	}
	if r.Header.Get("Content-Type") != runtime.ContentTypeProtobuf {
		return sent, json.Unmarshal(body, &sent)
	}
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	if sent, err = runtime.DefaultUnstructuredConverter.ToUnstructured(object); err != nil {
		return nil, err
	}
	result := &Object{Object: sent}
	result.SetGroupVersionKind(*kind)
	return result.Object, nil
}

func (s *Server) apply(w http.ResponseWriter, r *http.Request, at key, sent map[string]any) *Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, store := &Object{Object: sent}, s.store
	if isDryRun(r) {
		store = func(key, *Object) {}
	}
	switch r.Method {
	case http.MethodPost:
		if strings.HasSuffix(at.resource, "accessreviews") {
			object.Object["status"] = map[string]any{"allowed": !s.Denied}
			answer(w, http.StatusCreated, object.Object)
			return nil
		}
		if at.name = object.GetName(); s.objects[at] != nil {
			fail(w, http.StatusConflict, "it exists")
			return nil
		}
		object.SetNamespace(at.namespace)
		store(at, object)
		answer(w, http.StatusCreated, object.Object)
		return object.DeepCopy()
	case http.MethodPut, http.MethodPatch, http.MethodDelete:
		old := s.objects[at]
		if old == nil {
			s.one(w, at)
			return nil
		}
		if version := object.GetResourceVersion(); version != "" && version != old.GetResourceVersion() {
			refuse(w, r, http.StatusConflict)
			return nil
		}
		switch r.Method {
		case http.MethodPatch:
			object = old.DeepCopy()
			merge(object.Object, sent)
		case http.MethodDelete:
			object = old.DeepCopy()
			now := metav1.Unix(1, 0)
			object.SetDeletionTimestamp(&now)
		}
		store(at, object)
		answer(w, http.StatusOK, object.Object)
		return object.DeepCopy()
	}
	fail(w, http.StatusMethodNotAllowed, r.Method)
	return nil
}

// merge applies a JSON merge patch.
func merge(object, patch map[string]any) {
	for name, value := range patch {
		inner, isMap := value.(map[string]any)
		if value == nil {
			delete(object, name)
		} else if old, ok := object[name].(map[string]any); ok && isMap {
			merge(old, inner)
		} else {
			object[name] = value
		}
	}
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client has gone
}

// refuse answers a request as the test wants. Only creation conflicts because the object exists.
func refuse(w http.ResponseWriter, r *http.Request, code int) {
	switch {
	case code == hangs:
		<-r.Context().Done()
	case code == http.StatusConflict && r.Method != http.MethodPost:
		answer(w, code, metav1.Status{Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "changed by the test"})
	default:
		fail(w, code, "refused by the test")
	}
}

func fail(w http.ResponseWriter, code int, message string) {
	reasons := map[int]metav1.StatusReason{
		http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusForbidden: metav1.StatusReasonForbidden,
		http.StatusConflict: metav1.StatusReasonAlreadyExists, http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
	}
	answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reasons[code], Message: message, //nolint:gosec // an HTTP status
	})
}
