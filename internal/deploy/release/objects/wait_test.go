package objects

import (
	stdcmp "cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/kube"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest/fake"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/internal/deploy/wakeups"
)

// looks records when objects were checked, relative to the start.
type looks struct {
	began time.Time
	ready map[string]func(since time.Duration) (bool, error)
	asked []string
}

func (l *looks) IsReady(_ context.Context, info *resource.Info) (bool, error) {
	since := time.Since(l.began)
	l.asked = append(l.asked, fmt.Sprintf("%s %s", since, info.Name))
	return l.ready[info.Name](since)
}

var errMayNot = errors.New(`pods "a" is forbidden: User "x" cannot get resource "pods"`)

func from(begin time.Duration) func(time.Duration) (bool, error) {
	return func(since time.Duration) (bool, error) { return since >= begin, nil }
}

func waitedFor(name string) *resource.Info {
	gvk := corev1.SchemeGroupVersion.WithKind("Pod")
	return &resource.Info{Namespace: "web", Name: name, Mapping: &meta.RESTMapping{
		Resource: corev1.SchemeGroupVersion.WithResource("pods"), GroupVersionKind: gvk, Scope: meta.RESTScopeNamespace,
	}}
}

// Time in the bubble only advances while all goroutines wait.
func TestWakeup_ChecksObjects(t *testing.T) {
	tests := map[string]struct {
		ready      map[string]func(time.Duration) (bool, error)
		events     map[wakeups.Topic]time.Duration
		superseded time.Duration
		stopped    time.Duration
		timeout    time.Duration
		want       []string
		err        error
	}{
		"ready at once: does not wait": {
			ready: map[string]func(time.Duration) (bool, error){"a": from(0), "b": from(0)},
			want:  []string{"0s a", "0s b"},
		},
		"becomes ready: is found by its event": {
			ready:  map[string]func(time.Duration) (bool, error){"a": from(0), "b": from(time.Second)},
			events: map[wakeups.Topic]time.Duration{wakeups.Set("h"): time.Second},
			want:   []string{"0s a", "0s b", "1.03s b", "1.03s a"},
		},
		"becomes ready: is found by an event of a CRD": {
			ready:  map[string]func(time.Duration) (bool, error){"a": from(time.Second)},
			events: map[wakeups.Topic]time.Duration{wakeups.CRDs(): time.Second},
			want:   []string{"0s a", "1.03s a"},
		},
		"events of others: are ignored": {
			ready:  map[string]func(time.Duration) (bool, error){"a": from(time.Second)},
			events: map[wakeups.Topic]time.Duration{wakeups.Set("other"): time.Second, wakeups.Bundle("y"): 2 * time.Second},
			want:   []string{"0s a", "5s a"},
		},
		"no events: is checked every five seconds": {
			ready: map[string]func(time.Duration) (bool, error){"a": from(12 * time.Second)},
			want:  []string{"0s a", "5s a", "10s a", "15s a"},
		},
		"API server unreachable: is checked again": {
			ready: map[string]func(time.Duration) (bool, error){"a": func(since time.Duration) (bool, error) {
				if since == 0 {
					return false, errors.New("connection refused")
				}
				return true, nil
			}},
			want: []string{"0s a", "5s a"},
		},
		"becomes unready: is awaited again": {
			ready: map[string]func(time.Duration) (bool, error){
				"a": func(since time.Duration) (bool, error) { return since < time.Second || since > 6*time.Second, nil }, "b": from(time.Second),
			},
			events: map[wakeups.Topic]time.Duration{wakeups.Set("h"): time.Second},
			want:   []string{"0s a", "0s b", "1.03s b", "1.03s a", "6.03s a", "6.03s b"},
		},
		"never ready: times out": {
			ready: map[string]func(time.Duration) (bool, error){"a": from(time.Hour)}, timeout: 7 * time.Second,
			want: []string{"0s a", "5s a"}, err: ErrNotReadyInTime,
		},
		"state unknown: error has the cause": {
			ready:   map[string]func(time.Duration) (bool, error){"a": func(time.Duration) (bool, error) { return false, errMayNot }},
			timeout: 4 * time.Second, want: []string{"0s a"}, err: errMayNot,
		},
		"a Job has failed: stops waiting": {
			ready: map[string]func(time.Duration) (bool, error){"a": from(0), "b": func(time.Duration) (bool, error) { return false, errors.New("job is failed: web/b") }},
			want:  []string{"0s a", "0s b"}, err: errJobFailed,
		},
		"superseded: stops waiting": {
			ready: map[string]func(time.Duration) (bool, error){"a": from(time.Hour)}, superseded: 2 * time.Second,
			want: []string{"0s a"}, err: errSuperseded,
		},
		"agent stops: stops waiting": {
			ready: map[string]func(time.Duration) (bool, error){"a": from(time.Hour)}, stopped: time.Second,
			want: []string{"0s a"}, err: access.ErrStopped,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wakes, listening, stopped := wakeups.New(nil, nil), 0, make(chan struct{})
				var followed []string
				client := New(&access.Identity{}, placement.Release{Namespace: "web", Name: "x"}, stopped)
				client.Changes = &Changes{
					Follow: func(resources map[schema.GroupVersionResource]bool) {
						for resource := range resources {
							followed = append(followed, resource.Resource)
						}
					},
					Listen: func() (<-chan struct{}, func()) {
						heard, stop := wakes.Listen(wakeups.Bundle("x"), wakeups.Set("h"), wakeups.CRDs())
						listening++
						return heard, func() { listening--; stop() }
					},
				}
				began := time.Now()
				client.Superseded = func() bool { return test.superseded > 0 && time.Since(began) >= test.superseded }
				for topic, at := range test.events {
					time.AfterFunc(at, func() { wakes.Publish(topic); wakes.Publish(topic) })
				}
				if test.superseded > 0 {
					time.AfterFunc(test.superseded, func() { wakes.Publish(wakeups.Bundle("x")) })
				}
				if test.stopped > 0 {
					time.AfterFunc(test.stopped, func() { close(stopped) })
				}
				var list kube.ResourceList
				for _, name := range []string{"a", "b"} {
					if test.ready[name] != nil {
						list = append(list, waitedFor(name))
					}
				}
				found := &looks{began: began, ready: test.ready}
				err := client.wait(list, stdcmp.Or(test.timeout, 20*time.Second), found.IsReady)
				if !errors.Is(err, test.err) {
					t.Errorf("ended with %v, want %v", err, test.err)
				}
				if diff := cmp.Diff(test.want, found.asked); diff != "" {
					t.Errorf("checked (-want +got):\n%s", diff)
				}
				if len(followed) == 0 || slices.Contains(followed, "secrets") || followed[0] != "pods" {
					t.Errorf("watched %v", followed)
				}
				if listening != 0 {
					t.Errorf("still listening: %d", listening)
				}
			})
		})
	}
}

func TestWithoutWakeups_ObjectsAreStillChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := New(&access.Identity{}, placement.Release{}, make(chan struct{}))
		found := &looks{began: time.Now(), ready: map[string]func(time.Duration) (bool, error){"a": from(6 * time.Second)}}
		if err := client.wait(kube.ResourceList{waitedFor("a")}, time.Minute, found.IsReady); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"0s a", "5s a", "10s a"}, found.asked); diff != "" {
			t.Errorf("checked (-want +got):\n%s", diff)
		}
	})
}

// Helm's checker calls each of them ready.
func TestCustomResource_IsAwaited(t *testing.T) {
	const refused, missing = `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"things.x.io \"a\" is forbidden","reason":"Forbidden","code":403}`,
		`{"apiVersion":"v1","kind":"Status","status":"Failure","message":"things.x.io \"a\" not found","reason":"NotFound","code":404}`
	thing := func(fields string) string {
		return `{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"name":"a","namespace":"web","generation":2},` + fields + `}`
	}
	conditions := func(list string) string { return thing(`"status":{"conditions":[` + list + `]}`) }
	configMap := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"web"}}`
	unready := conditions(`{"type":"Ready","status":"False"}`)
	for name, test := range map[string]struct {
		deployed string
		answers  []string // one for each request, and the last one for all others
		crds     bool     // Helm waits for the CRDs of a chart
		want     string   // the error
		took     time.Duration
	}{
		"no status: is ready":                     {answers: []string{thing(`"spec":{}`)}},
		"Ready=True: is ready":                    {answers: []string{conditions(`{"type":"Ready","status":"True"}`)}},
		"a status of another form: is ready":      {answers: []string{thing(`"status":{"conditions":"all"}`)}},
		"Ready=True after some time: is ready":    {answers: []string{unready, unready, conditions(`{"type":"Ready","status":"True"}`)}, took: 10 * time.Second},
		"Ready=False: is not ready":               {answers: []string{unready}, want: "timed out waiting for the condition: thing.x.io web/a is not ready", took: 20 * time.Second},
		"Stalled=True: is not ready":              {answers: []string{conditions(`{"type":"Stalled","status":"True"}`)}, want: "a is not ready", took: 20 * time.Second},
		"another generation: is not ready":        {answers: []string{thing(`"status":{"observedGeneration":1}`)}, want: "a is not ready", took: 20 * time.Second},
		"deleted: is not ready":                   {answers: []string{missing}, want: `its state cannot be read: things.x.io "a" not found`, took: 20 * time.Second},
		"may not be read: error has the cause":    {answers: []string{refused}, want: `its state cannot be read: things.x.io "a" is forbidden`, took: 20 * time.Second},
		"among the CRDs of a chart: is ready":     {answers: []string{unready}, crds: true},
		"a built-in kind without state: is ready": {deployed: configMap, answers: []string{missing}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, jobs := range []bool{false, true} {
				if jobs && test.crds {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					info, asked := infoOf(t, stdcmp.Or(test.deployed, thing(`"spec":{}`))), 0
					info.Client = &fake.RESTClient{NegotiatedSerializer: resource.UnstructuredPlusDefaultContentConfig().NegotiatedSerializer,
						Client: fake.CreateHTTPClient(func(*http.Request) (*http.Response, error) {
							text := test.answers[min(asked, len(test.answers)-1)]
							asked++
							var code struct{ Code int }
							err := json.Unmarshal([]byte(text), &code)
							return answer(stdcmp.Or(code.Code, http.StatusOK), text), err
						})}
					client, began := New(&access.Identity{}, placement.Release{}, make(chan struct{})), time.Now()
					if !test.crds {
						client.willBe("x")
					}
					wait := client.Wait
					if jobs {
						wait = client.WaitWithJobs
					}
					err := wait(kube.ResourceList{info}, 20*time.Second)
					if (err == nil) != (test.want == "") || !strings.Contains(fmt.Sprint(err), test.want) || err != nil && !errors.Is(err, ErrNotReadyInTime) {
						t.Errorf("ended with %v, want %q", err, test.want)
					}
					if took := time.Since(began); took != test.took {
						t.Errorf("waited for %s, want %s", took, test.took)
					}
				})
			}
		})
	}
}
