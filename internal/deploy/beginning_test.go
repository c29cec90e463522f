package deploy

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/release"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// storedReleases records the requests for Helm's Secrets.
type storedReleases struct {
	next http.RoundTripper

	mu    sync.Mutex
	asked []string
}

// RoundTrip implements http.RoundTripper.
func (s *storedReleases) RoundTrip(request *http.Request) (*http.Response, error) {
	query, path := request.URL.Query(), request.URL.Path
	ofCopies := query.Get("labelSelector") == fleet.LabelBundleDeployment
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := path[strings.LastIndexByte(path, '/')+1:]; name == "secrets" && query.Get("watch") == "" && !ofCopies {
		s.asked = append(s.asked, strings.TrimSpace("list "+query.Get("labelSelector")))
	} else if strings.HasPrefix(name, "sh.helm.release.v1.") {
		s.asked = append(s.asked, strings.ToLower(request.Method)+" "+name)
	}
	return s.next.RoundTrip(request)
}

func (s *storedReleases) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.asked
	s.asked = nil
	slices.Sort(taken)
	return taken
}

// TestAgentRestarts_SendsFewRequestsForReleases counts the requests for Helm's Secrets after a restart without
// changes.
func TestAgentRestarts_SendsFewRequestsForReleases(t *testing.T) {
	t.Parallel()
	l := newLab(t, "restart-requests")
	l.start()
	var names []string
	for i := range 4 {
		name := fmt.Sprintf("b%d-restarted", i)
		l.apply(bundle{Name: name, Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
		l.expectStatus(name, ready)
		names = append(names, name)
	}
	l.halt()

	asked := &storedReleases{}
	local := rest.CopyConfig(l.local)
	local.Wrap(func(next http.RoundTripper) http.RoundTripper { asked.next = next; return asked })
	l.options = func(o *Options) { o.Local, o.Clock = local, func() time.Time { return deploytest.Noon() } }
	d := l.byHand()
	if diff := cmp.Diff([]string{"list"}, ofThisTest(asked.take(), names)); diff != "" {
		t.Errorf("requests to find all releases (-want +got):\n%s", diff)
	}
	for _, name := range names {
		if err := d.reconcile(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		record := d.records.of(d.hub.Cached(name), placement.SetOf(name, "").Hash)
		if record.tracking == nil || record.tracking.Release != l.Name+"/"+name+":1" {
			t.Errorf("%s is not looked after", name)
		}
	}
	// Each release is read once for its owner, and, if its objects are already known, once for its manifest.
	if diff := cmp.Diff(names, namesOfReleases(asked.take())); diff != "" {
		t.Errorf("requests to look at all releases (-want +got):\n%s", diff)
	}

	// Later checks send requests again: another writer may have changed the release.
	key := placement.Release{Namespace: l.Name, Name: names[0]}
	if last, err := d.reader.IsLast(t.Context(), key, 1); !last || err != nil {
		t.Errorf("then it is the last one: %t %v", last, err)
	}
	if diff := cmp.Diff([]string{"list name=" + names[0] + ",owner=helm"}, asked.take()); diff != "" {
		t.Errorf("requests then (-want +got):\n%s", diff)
	}
}

// ofThisTest drops releases of parallel tests in the same cluster.
func ofThisTest(asked, names []string) []string {
	return slices.DeleteFunc(asked, func(a string) bool {
		return strings.HasPrefix(a, "get ") && !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(a, name) })
	})
}

// namesOfReleases returns the names of the releases that were read, or the requests that read none.
func namesOfReleases(asked []string) []string {
	var found []string
	for _, a := range asked {
		name, isRead := strings.CutPrefix(a, "get sh.helm.release.v1.")
		if isRead {
			name = strings.TrimSuffix(name, ".v1")
		}
		found = append(found, name)
	}
	return slices.Compact(found)
}

// TestInterruptedRevision_IsFoundAfterRestart starts with a revision that the previous process did not finish.
func TestInterruptedRevision_IsFoundAfterRestart(t *testing.T) {
	t.Parallel()
	l := newLab(t, "restart-later")
	l.start()
	l.apply(bundle{Name: "x", Files: deploytest.HelloFiles("hi"), Options: deploytest.InNamespace(l.Name)})
	l.expectStatus("x", ready)
	l.halt()
	secrets := l.East.CoreV1().Secrets(l.Name)
	h, err := release.LoadHistory(t.Context(), secrets, placement.Release{Namespace: l.Name, Name: "x"}, time.Now, nil)
	if err != nil {
		t.Fatal(err)
	}
	begun := *h.Last()
	info := *begun.Info
	begun.Version, begun.Info = 2, &info
	info.Status = "pending-upgrade"
	if err := h.Create(release.SecretName("x", 2), &begun); err != nil {
		t.Fatal(err)
	}
	l.start()
	l.expectStatus("x", func(bd *fleet.BundleDeployment) string {
		h, err := release.LoadHistory(context.WithoutCancel(t.Context()), secrets, placement.Release{Namespace: l.Name, Name: "x"}, time.Now, nil)
		if err != nil {
			return err.Error()
		}
		if last := h.Last(); last.Info.Status != "deployed" || bd.Status.Release != fmt.Sprintf("%s/x:%d", l.Name, last.Version) {
			return fmt.Sprintf("revision %d is %s, release %s", last.Version, last.Info.Status, bd.Status.Release)
		}
		return ready(bd)
	})
}
