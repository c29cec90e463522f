package swarm

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/protocol"
)

// Names in the fake hub.
const (
	workspace     = "fleet-default"
	clusterSpace  = "cluster-fleet-default-c1"
	registrations = "cattle-fleet-clusters-system"
)

func testValues() protocol.Values {
	return protocol.Values{
		ClusterNamespace: workspace, APIServerURL: "https://hub", Token: "import-token", TokenName: "t1",
		SystemRegistrationNamespace: registrations,
	}
}

// fakeHub answers one agent in memory, as a hub that grants every request.
type fakeHub struct {
	// refuse is called first. A code other than zero is the response. n is the number of earlier requests with
	// this method and resource.
	refuse func(r *http.Request, resource string, n int) int
	// hidden is how often requests for the credential are forbidden, and withheld how often it is not found after
	// that.
	hidden, withheld int
	// deployments are the BundleDeployments that exist when a watch starts.
	deployments []string
	// gives is what a credential contains for a recovery.
	gives map[string][]byte

	mu      sync.Mutex
	log     []string
	asked   map[string]int
	granted int            // number of registrations so far
	open    []*watchStream // on BundleDeployments
}

type watchStream struct {
	writer *io.PipeWriter
	ctx    <-chan struct{}
}

// deployment returns a BundleDeployment as the API server encodes it.
func deployment(name, version, wanted, applied string, more ...string) string {
	status := fmt.Sprintf(`{"appliedDeploymentID":%q,"ready":%t}`, applied, applied != "")
	return fmt.Sprintf(`{"metadata":{"name":%q,"uid":"u-%s","resourceVersion":%q},"spec":{"deploymentID":%q%s},"status":%s}`,
		name, name, version, wanted, strings.Join(more, ""), status)
}

var variable = regexp.MustCompile(`c-[0-9a-f]{61}|timeoutSeconds=\d+|"clientRandom":"[a-z0-9]+"`)

// resource returns a short name of the path's resource.
func resource(r *http.Request) string {
	switch p := r.URL.Path; {
	case strings.Contains(p, "/clusterregistrations"):
		return "registrations"
	case strings.Contains(p, "/clusters/"):
		return "heartbeat"
	case strings.Contains(p, "/contents/"):
		return "contents"
	case strings.Contains(p, "/secrets"):
		return "secrets"
	case strings.HasSuffix(p, "/status"):
		return "report"
	case strings.HasSuffix(p, "/bundledeployments") && r.URL.Query().Get("watch") != "":
		return "watch"
	case strings.HasSuffix(p, "/bundledeployments") && r.URL.Query().Get("limit") == "1":
		return "proof"
	}
	return "deployments"
}

func (h *fakeHub) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	about := resource(r)
	if h.asked == nil {
		h.asked = map[string]int{}
	}
	n := h.asked[about]
	h.asked[about]++
	line := fmt.Sprintf("%s %s %s", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.Method, r.URL.RequestURI())
	if len(body) > 0 {
		line += fmt.Sprintf("\n  %s: %s", r.Header.Get("Content-Type"), body)
	}
	h.log = append(h.log, variable.ReplaceAllString(line, "…"))
	if h.refuse != nil {
		if code := h.refuse(r, about, n); code != 0 {
			return refused(code), nil
		}
	}
	return h.answer(r, about, n), nil
}

func (h *fakeHub) answer(r *http.Request, about string, n int) *http.Response {
	switch {
	case about == "registrations":
		h.granted++
		return answer(http.StatusCreated, fmt.Sprintf(`{"metadata":{"name":"request-%d","namespace":%q}}`, h.granted, workspace))
	case about == "secrets" && r.URL.Query().Get("watch") != "":
		return answer(http.StatusOK, fmt.Sprintf(`{"type":"ADDED","object":%s}`+"\n", h.credential()))
	case about == "secrets" && strings.Contains(r.URL.Path, registrations) && n < h.hidden:
		return refused(http.StatusForbidden)
	case about == "secrets" && strings.Contains(r.URL.Path, registrations) && n < h.hidden+h.withheld:
		return refused(http.StatusNotFound)
	case about == "secrets" && strings.Contains(r.URL.Path, registrations):
		return answer(http.StatusOK, h.credential())
	case about == "watch":
		return h.watch(r)
	case about == "report":
		return answer(http.StatusOK, `{"metadata":{"name":"a","uid":"u-a","resourceVersion":"50"}}`)
	case about == "deployments" && !strings.HasSuffix(r.URL.Path, "/bundledeployments"):
		return refused(http.StatusNotFound)
	case about == "deployments":
		return answer(http.StatusOK, `{"metadata":{"resourceVersion":"40"},"items":[`+strings.Join(h.deployments, ",")+`]}`)
	}
	return answer(http.StatusOK, `{}`)
}

func (h *fakeHub) credential() string {
	data := map[string]string{}
	all := h.gives
	if all == nil {
		all = map[string][]byte{}
	}
	maps.Copy(all, protocol.Credential{
		Token: fmt.Sprintf("token-%d", h.granted), DeploymentNamespace: clusterSpace, ClusterNamespace: workspace, ClusterName: "c1",
	}.Encode())
	for key, value := range all {
		data[key] = base64.StdEncoding.EncodeToString(value)
	}
	text, _ := json.Marshal(map[string]any{"data": data}) // text can always be encoded
	return string(text)
}

// watch sends the existing objects and keeps the watch open until it is ended.
func (h *fakeHub) watch(r *http.Request) *http.Response {
	reader, writer := io.Pipe()
	w := &watchStream{writer: writer, ctx: r.Context().Done()}
	h.open = append(h.open, w)
	first := ""
	if r.URL.Query().Get("sendInitialEvents") != "" {
		for _, d := range h.deployments {
			first += fmt.Sprintf(`{"type":"ADDED","object":%s}`+"\n", d)
		}
		first += `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"40"}}}` + "\n"
	}
	go func() {
		_, _ = io.WriteString(writer, first) // ends when the reader is closed
		<-w.ctx
		_ = writer.CloseWithError(r.Context().Err()) // never an error
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: reader, Header: http.Header{}}
}

// say sends an event on the last watch.
func (h *fakeHub) say(t *testing.T, kind, object string) {
	t.Helper()
	h.mu.Lock()
	w := h.open[len(h.open)-1]
	h.mu.Unlock()
	if _, err := fmt.Fprintf(w.writer, `{"type":%q,"object":%s}`+"\n", kind, object); err != nil {
		t.Fatal(err)
	}
}

// hangUp ends the last watch: normally, as the server does at its timeout, or with an error, as a lost connection
// does.
func (h *fakeHub) hangUp(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.open[len(h.open)-1].writer.CloseWithError(err) // never an error
}

// lines returns the requests so far that contain one of the texts. Without texts it returns all.
func (h *fakeHub) lines(texts ...string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []string
	for _, line := range h.log {
		for _, text := range texts {
			if strings.Contains(line, text) {
				found = append(found, line)
				break
			}
		}
		if len(texts) == 0 {
			found = append(found, line)
		}
	}
	return found
}

func answer(code int, body string) *http.Response {
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}
}

func refused(code int) *http.Response {
	reasons := map[int]string{401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired", 500: "InternalError", 503: "ServiceUnavailable"}
	return answer(code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"said the hub"}`, reasons[code], code))
}

// within waits in fake time until done returns true, and fails the test after a day.
func within(t *testing.T, a *Agent, done func(State) bool) State {
	t.Helper()
	deadline := time.After(24 * time.Hour)
	for {
		a.mu.Lock()
		state, changed := a.state, a.changed
		a.mu.Unlock()
		if done(state) {
			return state
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("the condition was not met in time; the agent's state is %+v", state)
		}
	}
}
