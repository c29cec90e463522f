package deploy

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var errKilled = errors.New("the process was killed")

// fuse simulates the death of a process: it breaks before the given request, and no later request reaches an API
// server. Discovery and releases of other tests do not count.
type fuse struct {
	namespace string

	mu        sync.Mutex
	remaining int
	broken    chan struct{}
}

func newFuse(namespace string, remaining int) *fuse {
	return &fuse{namespace: namespace, remaining: remaining, broken: make(chan struct{})}
}

func (f *fuse) wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(request *http.Request) (*http.Response, error) {
			if f.blown(f.counts(request)) {
				return nil, errKilled
			}
			return next.RoundTrip(request)
		})
	})
	return config
}

func (f *fuse) counts(request *http.Request) bool {
	path := request.URL.Path + "/"
	query := request.URL.Query()
	return query.Get("watch") != "true" && query.Get("follow") != "true" &&
		(request.Method != http.MethodGet || strings.Contains(path, "/contents/") || strings.Contains(path, "/namespaces/"+f.namespace+"/"))
}

// blown counts a request and reports whether the fuse is broken.
func (f *fuse) blown(counts bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.remaining > 0 && counts {
		f.remaining--
		if f.remaining == 0 {
			close(f.broken)
		}
	}
	return f.remaining == 0
}

type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// killedAt runs the deployer until the fuse breaks. It returns false if the operation finished before.
func (l *lab) killedAt(request int, done func() string) bool {
	l.t.Helper()
	f := newFuse(l.Name, request)
	l.options = func(o *Options) { o.Hub, o.Local = f.wrap(l.identity), f.wrap(l.local) }
	l.run()
	defer l.halt()
	killed := false
	l.eventually(func() string {
		select {
		case <-f.broken:
			killed = true
			return ""
		default:
		}
		return done()
	})
	return killed
}

// afterEachKill runs a test once for each request of an operation, and ends when the operation has no further
// request.
func afterEachKill(t *testing.T, tell func(t *testing.T, request int) (killed bool)) {
	t.Helper()
	const most = 200
	for request := 1; request <= most; request++ {
		killed := false
		t.Run(fmt.Sprint("request ", request), func(t *testing.T) { killed = tell(t, request) })
		if t.Failed() || !killed {
			t.Logf("%d requests", request-1)
			return
		}
	}
	t.Errorf("more than %d requests", most)
}

// killedAgain kills a process. If the request's number is a multiple of 3, it also kills the one that continues, and
// then the next one.
func (l *lab) killedAgain(request int, done func() string) bool {
	l.t.Helper()
	first := l.killedAt(request, done)
	for range 2 {
		if request%3 != 0 || !l.killedAt(request, done) {
			break
		}
	}
	l.options = func(*Options) {}
	l.start()
	return first
}

func threeObjects(names ...string) map[string]string {
	files := map[string]string{}
	for i, name := range names {
		files[name+".yaml"] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {of: '%d'}\n", name, i+len(names))
	}
	return files
}

// expectDeployed compares all state of a bundle with the expected state.
func (l *lab) expectDeployed(name, revisions string, objects map[string]string) {
	l.t.Helper()
	l.expectStatus(name, ready)
	if got := strings.Join(l.revisionsOf(l.Name, name), ", "); got != revisions {
		l.t.Errorf("revisions %q, want %q", got, revisions)
	}
	if diff := cmp.Diff(objects, l.configMaps()); diff != "" {
		l.t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func (l *lab) configMaps() map[string]string {
	l.t.Helper()
	list, err := l.East.CoreV1().ConfigMaps(l.Name).List(l.t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=Helm"})
	if err != nil {
		l.t.Fatal(err)
	}
	found := map[string]string{}
	for _, cm := range list.Items {
		found[cm.Name] = cm.Data["of"]
	}
	return found
}

func (l *lab) isReady(name string) func() string {
	return func() string { return ready(l.get(name)) }
}

func TestAgentKilledDuringInstallation_Recovers(t *testing.T) {
	t.Parallel()
	afterEachKill(t, func(t *testing.T, request int) bool {
		l := newLab(t, fmt.Sprint("kill-install-", request))
		l.apply(bundle{Name: "x", Files: threeObjects("a", "b", "c"), Options: deploytest.InNamespace(l.Name)})
		killed := l.killedAgain(request, l.isReady("x"))
		l.expectDeployed("x", "1 deployed", map[string]string{"a": "3", "b": "4", "c": "5"})
		return killed
	})
}

func TestAgentKilledDuringUpgrade_Recovers(t *testing.T) {
	t.Parallel()
	afterEachKill(t, func(t *testing.T, request int) bool {
		l := newLab(t, fmt.Sprint("kill-upgrade-", request))
		l.apply(bundle{Name: "x", Files: threeObjects("a", "b", "c"), Options: deploytest.InNamespace(l.Name)})
		l.start()
		l.expectStatus("x", ready)
		l.halt()
		l.apply(bundle{Name: "x", Files: threeObjects("b", "a", "d", "e"), Options: deploytest.InNamespace(l.Name)})
		killed := l.killedAgain(request, l.isReady("x"))
		l.expectDeployed("x", "1 superseded, 2 deployed", map[string]string{"b": "4", "a": "5", "d": "6", "e": "7"})
		return killed
	})
}

func TestAgentKilledDuringUninstallation_Recovers(t *testing.T) {
	t.Parallel()
	afterEachKill(t, func(t *testing.T, request int) bool {
		l := newLab(t, fmt.Sprint("kill-uninstall-", request))
		l.interval = shortInterval // who is killed before the first request of it leaves an orphan
		l.original("copy")
		options, generation := copyingThem(l.Name, "copy")
		l.apply(bundle{Name: "x", Files: threeObjects("a", "b", "c"), Options: options, Change: generation})
		l.apply(bundle{Name: "another", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name), Change: func(bd *fleet.BundleDeployment) { bd.Spec.Paused = true }})
		l.start()
		l.expectStatus("x", ready)
		l.halt()
		l.delete("x")
		gone := func() string {
			if found := l.revisionsOf(l.Name, "x"); len(found) > 0 || len(l.configMaps()) > 0 {
				return fmt.Sprint(found, l.configMaps())
			}
			if l.configMapIsThere(l.Name, "copy") {
				return "the copy is there"
			}
			return ""
		}
		killed := l.killedAgain(request, gone)
		l.eventually(gone)
		return killed
	})
}

// A correction makes exactly one revision with the same content, however often the agent is killed.
func TestAgentKilledDuringCorrection_Recovers(t *testing.T) {
	t.Parallel()
	afterEachKill(t, func(t *testing.T, request int) bool {
		l := newLab(t, fmt.Sprint("kill-correct-", request))
		l.apply(bundle{Name: "x", Files: threeObjects("a", "b", "c"), Options: deploytest.InNamespace(l.Name), Change: correcting(fleet.CorrectDrift{Enabled: true})})
		l.start()
		l.expectStatus("x", ready)
		l.halt()
		l.edit("configmaps", "a", `{"data":{"of":"somebody else"}}`)
		l.remove("configmaps", "b")
		corrected := func() string {
			if bd := l.get("x"); bd.Status.Release != l.Name+"/x:2" {
				return "release " + bd.Status.Release
			}
			return l.isReady("x")()
		}
		killed := l.killedAgain(request, corrected)
		l.eventually(corrected)
		l.expectDeployed("x", "1 superseded, 2 deployed", map[string]string{"a": "3", "b": "4", "c": "5"})
		return killed
	})
}
