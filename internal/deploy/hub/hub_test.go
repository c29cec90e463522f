package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/helmvalues"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// answering is a hub that returns the given answers in order, repeats the last one, and records the requests. An
// answer is an object or an error code.
type answering struct {
	t       *testing.T
	answers []any

	mu    sync.Mutex
	asked []string
}

func (a *answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := a.answers[min(len(a.asked), len(a.answers)-1)]
	a.asked = append(a.asked, r.Method+" "+r.URL.RequestURI())
	w.Header().Set("Content-Type", "application/json")
	if code, refused := answer.(int); refused {
		reasons := map[int]metav1.StatusReason{403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound,
			405: metav1.StatusReasonMethodNotAllowed, 409: metav1.StatusReasonConflict, 500: metav1.StatusReasonInternalError}
		w.WriteHeader(code)
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: reasons[code], Message: "said the hub", Code: int32(code)}
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		a.t.Error(err)
	}
}

// newAnswering starts the server and returns a client.
func newAnswering(t *testing.T, answers ...any) (*answering, *Hub) {
	t.Helper()
	a := &answering{t: t, answers: answers}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	h, err := New(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, "cluster-ns")
	if err != nil {
		t.Fatal(err)
	}
	return a, h
}

func (a *answering) expectAsked(want ...string) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if diff := cmp.Diff(want, a.asked); diff != "" {
		a.t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestValues_MatchTheHash(t *testing.T) {
	const memory, storage = "GET /api/v1/namespaces/cluster-ns/secrets/hello?resourceVersion=0", "GET /api/v1/namespaces/cluster-ns/secrets/hello"
	secret := func(text string) corev1.Secret {
		return corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Data: map[string][]byte{"values": []byte(text)}}
	}
	const wanted, former = `{"greeting":"salut"}`, `{"greeting":"hi"}`
	right := map[string]any{"greeting": "salut"}
	tests := map[string]struct {
		answers []any
		hashOf  string // of the wanted ones where empty
		want    map[string]any
		err     string
		reason  string
		asked   []string
	}{
		"cache is right: one request":                    {answers: []any{secret(wanted)}, want: right, asked: []string{memory}},
		"cache is stale: storage is read":                {answers: []any{secret(former), secret(wanted)}, want: right, asked: []string{memory, storage}},
		"cache does not have it yet: storage is read":    {answers: []any{404, secret(wanted)}, want: right, asked: []string{memory, storage}},
		"wrong in cache and storage: error after both":   {answers: []any{secret(former)}, err: ErrValuesHash.Error(), reason: conditions.ReasonHelmValuesInvalid, asked: []string{memory, storage}},
		"missing in cache and storage: error after both": {answers: []any{404}, err: "reading the Secret with the Helm values: said the hub", reason: conditions.ReasonHelmValuesInvalid, asked: []string{memory, storage}},
		"stale in cache, missing in storage: error":      {answers: []any{secret(former), 404}, err: "reading the Secret with the Helm values: said the hub", reason: conditions.ReasonHelmValuesInvalid, asked: []string{memory, storage}},
		"forbidden: error after one request":             {answers: []any{403}, err: "reading the Secret with the Helm values: said the hub", reason: conditions.ReasonForbidden, asked: []string{memory}},
		"server error: error after one request":          {answers: []any{500}, err: "reading the Secret with the Helm values: said the hub", reason: conditions.ReasonError, asked: []string{memory}},
		"stale in cache, storage fails: error":           {answers: []any{secret(former), 500}, err: "reading the Secret with the Helm values: said the hub", reason: conditions.ReasonError, asked: []string{memory, storage}},
		"hash matches, not an object: error after one request": {answers: []any{secret(`["x"]`)}, hashOf: `["x"]`,
			err: "the values in the BundleDeployment's Secret are not a JSON object", reason: conditions.ReasonError, asked: []string{memory}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a, h := newAnswering(t, test.answers...)
			if test.hashOf == "" {
				test.hashOf = wanted
			}
			bd := deploytest.Deployment(func(bd *fleet.BundleDeployment) { bd.Spec.ValuesHash = helmvalues.Hash([]byte(test.hashOf), nil) })
			got, err := h.Values(t.Context(), bd)
			deploytest.ExpectError(t, err, test.err)
			if err != nil && outcome.ReasonOf(err) != test.reason {
				t.Errorf("reason %s, want %s", outcome.ReasonOf(err), test.reason)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			a.expectAsked(test.asked...)
		})
	}
}

func TestContent_IsReadFromServerCache(t *testing.T) {
	made := content.Object(deploytest.ManifestOf(map[string]string{"cm.yaml": deploytest.ConfigMapYAML}))
	memory := "GET /apis/fleet.cattle.io/v1alpha1/contents/" + made.Name + "?resourceVersion=0"
	storage := "GET /apis/fleet.cattle.io/v1alpha1/contents/" + made.Name
	broken := made.DeepCopy()
	broken.SHA256Sum = "another"
	tests := map[string]struct {
		answers []any
		err     string
		reason  string
		asked   []string
	}{
		"it exists": {answers: []any{made}, asked: []string{memory}},
		"cache does not have it yet: storage is read": {answers: []any{404, made}, asked: []string{memory, storage}},
		"it does not exist":                           {answers: []any{404}, err: "reading the content of the bundle: said the hub", reason: conditions.ReasonContentMissing, asked: []string{memory, storage}},
		"it is forbidden":                             {answers: []any{403}, err: "reading the content of the bundle: said the hub", reason: conditions.ReasonForbidden, asked: []string{memory}},
		"the hub returns an error":                    {answers: []any{500}, err: "reading the content of the bundle: said the hub", reason: conditions.ReasonError, asked: []string{memory}},
		"it is damaged: storage is not read":          {answers: []any{broken}, err: "reading content " + made.Name + ": " + content.ErrHashMismatch.Error(), reason: conditions.ReasonContentDamaged, asked: []string{memory}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a, h := newAnswering(t, test.answers...)
			got, err := h.Manifest(t.Context(), made.Name)
			deploytest.ExpectError(t, err, test.err)
			if err != nil && outcome.ReasonOf(err) != test.reason {
				t.Errorf("reason %s, want %s", outcome.ReasonOf(err), test.reason)
			}
			if err == nil && got.ID() != made.Name {
				t.Errorf("got %v", got)
			}
			a.expectAsked(test.asked...)
		})
	}
}

// Objects to copy are read from storage, because nothing would detect a stale copy.
func TestCopiedResources_AreReadFromStorage(t *testing.T) {
	a, h := newAnswering(t, 404)
	if _, err := h.Secret(t.Context(), "s"); err == nil {
		t.Error("there is a Secret")
	}
	if _, err := h.ConfigMap(t.Context(), "c"); err == nil {
		t.Error("there is a ConfigMap")
	}
	a.expectAsked("GET /api/v1/namespaces/cluster-ns/secrets/s", "GET /api/v1/namespaces/cluster-ns/configmaps/c")
}

// TestReport_UpdatesOrPatchesStatus sends two reports: the second shows what the agent learned from the first.
func TestReport_UpdatesOrPatchesStatus(t *testing.T) {
	const path = " /apis/fleet.cattle.io/v1alpha1/namespaces/cluster-ns/bundledeployments/hello/status"
	const put, patch = "PUT" + path, "PATCH" + path
	taken := deploytest.Deployment(func(bd *fleet.BundleDeployment) {
		bd.TypeMeta = metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "BundleDeployment"}
		bd.ResourceVersion = "8"
	})
	const failed = "reporting the status: said the hub"
	tests := map[string]struct {
		version       string // of base
		answers       []any
		first, second string // errors
		asked         []string
	}{
		"resource version known: whole status is updated":            {version: "7", answers: []any{taken}, asked: []string{put, put}},
		"resource version unknown: status is patched":                {answers: []any{taken}, asked: []string{patch, patch}},
		"conflict: status is patched":                                {version: "7", answers: []any{409, taken}, asked: []string{put, patch, put}},
		"recreated: update and patch fail":                           {version: "7", answers: []any{409, 409, 409, 409}, first: failed, second: failed, asked: []string{put, patch, put, patch}},
		"deleted: patch fails":                                       {version: "7", answers: []any{409, 404, taken}, first: failed, asked: []string{put, patch, put}},
		"update forbidden, patch allowed: later reports are patched": {version: "7", answers: []any{403, taken}, asked: []string{put, patch, patch}},
		"update not supported: later reports are patched":            {version: "7", answers: []any{405, taken}, asked: []string{put, patch, patch}},
		"update and patch forbidden once: update is tried again":     {version: "7", answers: []any{403, 403, taken}, first: failed, asked: []string{put, patch, put}},
		"patch conflicts: update is tried again":                     {version: "7", answers: []any{403, 409, 403, taken}, first: failed, asked: []string{put, patch, put, patch}},
		"server error: no patch is tried":                            {version: "7", answers: []any{500, taken}, first: failed, asked: []string{put, put}},
		"patch fails: error is returned":                             {version: "7", answers: []any{409, 500, taken}, first: failed, asked: []string{put, patch, put}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a, h := newAnswering(t, test.answers...)
			base := deploytest.Deployment(func(bd *fleet.BundleDeployment) { bd.ResourceVersion = test.version })
			status := base.Status.DeepCopy()
			status.Ready = true
			for _, want := range []string{test.first, test.second} {
				written, err := h.Report(t.Context(), base, status)
				deploytest.ExpectError(t, err, want)
				if err == nil && written.ResourceVersion != "8" {
					t.Errorf("the hub made %v of it", written)
				}
			}
			if written, err := h.Report(t.Context(), base, base.Status.DeepCopy()); written != base || err != nil {
				t.Errorf("with nothing to tell: %v %v", written, err)
			}
			a.expectAsked(test.asked...)
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
		"a proxy has no route to the hub":   {404, "404 page not found\n", false, true},
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
			h, err := New(&rest.Config{Host: server.URL}, "cluster-ns")
			if err != nil {
				t.Fatal(err)
			}
			gone, err := h.ConfirmGone(t.Context(), "x")
			if gone != test.gone || (err != nil) != test.err {
				t.Errorf("gone %t, error %v", gone, err)
			}
		})
	}
}

func TestOptionsValues(t *testing.T) {
	hash := func(texts ...string) string {
		sum := sha256.Sum256([]byte(strings.Join(texts, "")))
		return hex.EncodeToString(sum[:])
	}
	tests := map[string]struct {
		values, staged, hash string
		want                 map[string]any
		err                  string
	}{
		// Test vectors of the contract.
		"values alone":             {`{"key":"value"}`, ``, "e43abcf3375244839c012f9633f95862d232a95b00d5bc7348b3098b9fed7f32", map[string]any{"key": "value"}, ""},
		"values and staged values": {`{"key":"value"}`, `{"newkey":"value"}`, "01c44d8a446abccb870503db292e07cb2b8da135b6fec52b21048bdab8c84a7c", map[string]any{"key": "value"}, ""},
		"staged values alone":      {``, `{"newkey":"value"}`, hash(`{"newkey":"value"}`), nil, ""},
		"whole numbers":            {`{"n":9007199254740993}`, ``, hash(`{"n":9007199254740993}`), map[string]any{"n": int64(9007199254740993)}, ""},
		"other values":             {`{"key":"other"}`, ``, "e43abcf3375244839c012f9633f95862d232a95b00d5bc7348b3098b9fed7f32", nil, ErrValuesHash.Error()},
		"no hash":                  {`{"key":"value"}`, ``, "", nil, ErrValuesHash.Error()},
		"not an object":            {`["hunter2"]`, ``, hash(`["hunter2"]`), nil, "the values in the BundleDeployment's Secret are not a JSON object"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := optionsValues(map[string][]byte{"values": []byte(test.values), "stagedValues": []byte(test.staged)}, test.hash)
			deploytest.ExpectError(t, err, test.err)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
