package facts

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/client-go/rest"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	versionInfo = `{"gitVersion":"v1.35.1","platform":"linux/amd64"}`
	columns     = `"columnDefinitions":[{"name":"Name"},{"name":"Status"},{"name":"Age"}],`
	forbidden   = `403 {"kind":"Status","apiVersion":"v1","status":"Failure","message":"nodes is forbidden","reason":"Forbidden","code":403}`
)

// rows is a table of nodes, each "name status".
func rows(version, columns string, nodes ...string) string {
	var cells []string
	for _, node := range nodes {
		name, status, _ := strings.Cut(node, " ")
		cells = append(cells, fmt.Sprintf(`{"cells":[%q,%q,"5d"],"object":null}`, name, status))
	}
	return fmt.Sprintf(`{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":%q},%s"rows":[%s]}`, version, columns, strings.Join(cells, ","))
}

func event(kind, object string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object)
}

// server answers each kind of request with one answer after another, the last one ever again but for watches: those
// then stay open. An answer may begin with a status code.
type server struct {
	version, lists, watches []string

	mu    sync.Mutex
	asked []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what, answers := "version", &s.version
	switch {
	case r.URL.Query().Get("watch") == "true":
		what, answers = "watch from "+r.URL.Query().Get("resourceVersion"), &s.watches
	case r.URL.Path == "/api/v1/nodes":
		what, answers = "list", &s.lists
	}
	if what != "version" && (r.Header.Get("Accept") != asTable || r.URL.Query().Get("includeObject") != "None") {
		what += ", not as a table"
	}
	s.mu.Lock()
	s.asked = append(s.asked, what)
	var answer string
	isWatch := strings.HasPrefix(what, "watch")
	if len(*answers) > 0 {
		answer = (*answers)[0]
		if isWatch || len(*answers) > 1 {
			*answers = (*answers)[1:]
		}
	}
	s.mu.Unlock()
	if code, body, found := strings.Cut(answer, " {"); found && len(code) == 3 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(map[string]int{"403": 403, "410": 410, "500": 500}[code])
		answer = "{" + body
	}
	_, _ = w.Write([]byte(answer)) // whoever hung up needs no answer
	if isWatch && answer == "" {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// follow runs a Watcher against s until it waits for what does not come: a watch that stays open, or a long pause. It
// returns what is known then, or once that is what is wanted: the last answer may still be on its way.
func follow(t *testing.T, s *server, until int, wanted func(fleet.ClusterFacts) bool) fleet.ClusterFacts {
	t.Helper()
	listening := httptest.NewServer(s)
	defer listening.Close()
	w, err := New(Options{Local: &rest.Config{Host: listening.URL}, AgentVersion: "v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	w.pauses = pauses{watch: time.Hour, reopen: time.Millisecond, first: time.Millisecond, last: 2 * time.Millisecond, refused: time.Hour}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.Run(ctx); close(done) }()
	w.Await(t.Context(), time.Minute)
	deadline := time.After(time.Minute)
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for asked := 0; asked < until || !wanted(w.Facts()); {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("asked %v, and said %+v", s.asked, w.Facts())
		}
		s.mu.Lock()
		asked = len(s.asked)
		s.mu.Unlock()
	}
	found := w.Facts()
	cancel()
	<-done
	return found
}

// countsOf is what is said of nodes.
func countsOf(f fleet.ClusterFacts) string {
	if f.Nodes == nil || f.ReadyNodes == nil {
		return "unknown"
	}
	return fmt.Sprintf("%d of %d", *f.ReadyNodes, *f.Nodes)
}

func TestFacts(t *testing.T) {
	tests := map[string]struct {
		server *server
		want   string   // of what is said beside the version
		asked  []string // the last one stays open, or is long before the next
	}{
		"nodes are counted": {
			&server{lists: []string{rows("5", columns, "a Ready", "b NotReady", "c Ready,SchedulingDisabled", "d Unknown")}},
			"2 of 4", []string{"version", "list", "watch from 5"},
		},
		"list without nodes": {&server{lists: []string{rows("5", columns)}}, "0 of 0", []string{"version", "list", "watch from 5"}},
		"nodes are added, changed and deleted, also between two watches": {
			&server{
				lists: []string{rows("5", columns, "a Ready", "b Ready")},
				watches: []string{
					event("ADDED", rows("6", columns, "c NotReady")) + event("DELETED", rows("7", "", "a Ready")) + event("MODIFIED", rows("8", "", "b NotReady")),
					event("MODIFIED", rows("9", columns, "c Ready")),
				},
			},
			"1 of 2", []string{"version", "list", "watch from 5", "watch from 8", "watch from 9"},
		},
		"table columns in another order": {
			&server{lists: []string{rows("5", `"columnDefinitions":[{"name":"Status"},{"name":"Name"}],`, "Ready a", "NotReady b")}},
			"1 of 2", []string{"version", "list", "watch from 5"},
		},
		"resource version is too old": {
			&server{
				lists:   []string{rows("5", columns, "a Ready"), rows("9", columns, "b Ready", "c Ready")},
				watches: []string{event("ERROR", `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old","reason":"Expired","code":410}`)},
			},
			"2 of 2", []string{"version", "list", "watch from 5", "version", "list", "watch from 9"},
		},
		"watch breaks off": {
			&server{lists: []string{rows("5", columns, "a Ready")}, watches: []string{`{"type":"ADD`}},
			"1 of 1", []string{"version", "list", "watch from 5", "version", "list", "watch from 5"},
		},
		"API server answers with errors": {
			&server{lists: []string{`500 {"kind":"Status"}`, `500 {"kind":"Status"}`, rows("5", columns, "a Ready")}},
			"1 of 1", []string{"version", "list", "version", "list", "version", "list", "watch from 5"},
		},
		"nodes are forbidden: unknown, and rarely requested": {
			&server{lists: []string{forbidden}}, "unknown", []string{"version", "list"},
		},
		"nodes become forbidden: unknown": {
			&server{lists: []string{rows("5", columns, "a Ready"), forbidden}, watches: []string{forbidden}},
			"unknown", []string{"version", "list", "watch from 5"},
		},
		"answer is not a table": {
			&server{lists: []string{`{"kind":"NodeList","apiVersion":"v1"}`, rows("5", columns, "a Ready")}},
			"1 of 1", []string{"version", "list", "version", "list", "watch from 5"},
		},
		"table of another kind": {
			&server{lists: []string{rows("5", `"columnDefinitions":[{"name":"Kind"}],`, "a Ready"), rows("6", columns)}},
			"0 of 0", []string{"version", "list", "version", "list", "watch from 6"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.server.version = []string{versionInfo}
			found := follow(t, test.server, len(test.asked), func(f fleet.ClusterFacts) bool { return countsOf(f) == test.want })
			if diff := cmp.Diff(test.asked, test.server.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			found.Nodes, found.ReadyNodes = nil, nil
			if diff := cmp.Diff(fleet.ClusterFacts{KubernetesVersion: "v1.35.1", Platform: "linux/amd64", AgentVersion: "v1.2.3"}, found); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKubernetesVersion_IsReadAgainAfterSomeWatches(t *testing.T) {
	s := &server{
		version: []string{versionInfo, `{"gitVersion":"v1.36.0","platform":"linux/amd64"}`}, lists: []string{rows("5", columns)},
	}
	for range watchesPerVersion {
		s.watches = append(s.watches, event("ADDED", rows("6", columns, "a Ready")))
	}
	follow(t, s, 1+1+watchesPerVersion+1+1, func(f fleet.ClusterFacts) bool { return f.KubernetesVersion == "v1.36.0" })
}

func TestInvalidVersions_AreLeftOut(t *testing.T) {
	for answer, want := range map[string]fleet.ClusterFacts{
		`{"gitVersion":"v1.30.4-gke.1+x~1_2","platform":"plan9/mips"}`: {KubernetesVersion: "v1.30.4-gke.1+x~1_2", Platform: "plan9/mips"},
		`{"gitVersion":"v1 (ours)\u001b[2J","platform":"linux/amd64"}`: {Platform: "linux/amd64"},
		`{"gitVersion":"` + strings.Repeat("1", 65) + `"}`:             {},
		`no JSON`: {},
		`500 {}`:  {},
	} {
		s := &server{version: []string{answer}, lists: []string{forbidden}}
		want.AgentVersion = "v1.2.3"
		follow(t, s, 2, func(f fleet.ClusterFacts) bool { return cmp.Equal(want, f) })
	}
}

// Changed reports changes of the facts, not every event of the watch.
func TestChanged(t *testing.T) {
	w, err := New(Options{Local: &rest.Config{Host: "https://cluster"}, AgentVersion: "not acceptable"})
	if err != nil {
		t.Fatal(err)
	}
	set := func(n int32) { w.note(func(f *fleet.ClusterFacts) { f.Nodes = &n }) }
	expect := func(want bool) {
		t.Helper()
		select {
		case <-w.Changed():
			if !want {
				t.Error("told of a change")
			}
		default:
			if want {
				t.Error("not told of a change")
			}
		}
	}
	expect(false)
	set(1)
	set(2)
	expect(true)
	expect(false)
	set(2)
	expect(false)
	given := w.Facts()
	*given.Nodes = 7 // somebody else's copy
	if diff := cmp.Diff(`{"nodes":2}`, encoded(t, w.Facts())); diff != "" {
		t.Error(diff)
	}
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAwait_ReturnsOnTimeoutCancelOrAnswer(t *testing.T) {
	w, err := New(Options{Local: &rest.Config{Host: "https://cluster"}})
	if err != nil {
		t.Fatal(err)
	}
	w.Await(t.Context(), 0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w.Await(ended, time.Hour)
	w.asked()
	w.asked()
	w.Await(t.Context(), time.Hour)
}

func TestNew_InvalidConfigIsAnError(t *testing.T) {
	if _, err := New(Options{Local: &rest.Config{Host: "https://cluster", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no")}}}); err == nil {
		t.Error("it was accepted")
	}
}
