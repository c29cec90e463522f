package deploytest

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// A World is an API server with the Secrets and the ConfigMaps of namespace web. It checks nothing.
type World struct {
	URL string

	mu      sync.Mutex
	objects map[string][]byte // by resource and name, such as "secrets/a"
	refused map[string]int
	with    metav1.Status
}

// NewWorld starts an API server that ends with the test.
func NewWorld(t *testing.T) *World {
	t.Helper()
	w := &World{objects: map[string][]byte{}, refused: map[string]int{}, with: refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError)}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	w.URL = server.URL
	return w
}

// Config returns the configuration of a client.
func (w *World) Config() *rest.Config {
	return &rest.Config{Host: w.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// Refuse refuses the next requests with a method for an object, such as "PUT secrets/a", with an internal error.
func (w *World) Refuse(request string, times int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused[request] = times
}

// Forbid makes the errors of refused requests Forbidden, with a message.
func (w *World) Forbid(message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.with = refusal(http.StatusForbidden, metav1.StatusReasonForbidden)
	w.with.Message = message
}

// Get decodes an object into out, and reports whether it exists.
func (w *World) Get(t *testing.T, name string, out any) bool {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	text, found := w.objects[name]
	if found {
		if err := json.Unmarshal(text, out); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// Put stores an object.
func (w *World) Put(name string, text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects[name] = text
}

// ServeHTTP implements http.Handler.
func (w *World) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	out.Header().Set("Content-Type", "application/json")
	w.mu.Lock()
	defer w.mu.Unlock()
	name, isObject := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/web/")
	request := r.Method + " " + name
	var answer any
	switch old, exists := w.objects[name]; {
	case !isObject:
		answer = discovery(r.URL.Path)
	case w.refused[request] > 0:
		w.refused[request]--
		answer = w.with
	case r.Method == http.MethodGet && !strings.Contains(name, "/"):
		answer = w.list(name)
	case r.Method == http.MethodPost:
		var created metav1.PartialObjectMetadata
		_ = json.Unmarshal(body, &created)
		name += "/" + created.Name
		if _, exists = w.objects[name]; exists {
			answer = refusal(http.StatusConflict, metav1.StatusReasonAlreadyExists)
			break
		}
		w.objects[name], answer = body, json.RawMessage(body)
	case !exists:
		answer = refusal(http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodDelete:
		delete(w.objects, name)
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusOK}
	default:
		switch r.Method {
		case http.MethodPut:
			old = body
		case http.MethodPatch:
			old, _ = jsonpatch.MergePatch(old, body)
		}
		w.objects[name], answer = old, json.RawMessage(old)
	}
	if status, failed := answer.(metav1.Status); failed {
		out.WriteHeader(int(status.Code))
	}
	_ = json.NewEncoder(out).Encode(answer)
}

func (w *World) list(resource string) any {
	items := []json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		if strings.HasPrefix(name, resource+"/") {
			items = append(items, w.objects[name])
		}
	}
	kind := map[string]string{"secrets": "SecretList", "configmaps": "ConfigMapList"}[resource]
	return map[string]any{"kind": kind, "apiVersion": "v1", "metadata": map[string]string{}, "items": items}
}

func refusal(code int32, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: string(reason)}
}

func discovery(path string) any {
	switch path {
	case "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}}
	case "/apis":
		return metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	case "/api/v1":
		return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "secrets", Kind: "Secret", Namespaced: true}, {Name: "configmaps", Kind: "ConfigMap", Namespaced: true},
		}}
	case "/version":
		return map[string]string{"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
	}
	return refusal(http.StatusNotFound, metav1.StatusReasonNotFound)
}
