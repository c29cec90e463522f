package swarm

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/protocol"
)

// play starts one agent with a fake hub, in fake time. The agent ends with the test.
func play(t *testing.T, h *fakeHub, settings Settings) *Agent {
	t.Helper()
	s := New(Options{Values: testValues(), Resources: 1})
	settings.ClientID = "c"
	settings.Wrap = func(http.RoundTripper) http.RoundTripper { return h }
	a := s.Add(settings)
	ctx, cancel := context.WithCancel(t.Context())
	s.Start(ctx, a)
	t.Cleanup(func() {
		cancel()
		s.Wait()
	})
	return a
}

func TestAgentRequests_MatchTheGoldens(t *testing.T) {
	own := deployment("a", "30", "s-1:2", "")
	tests := map[string]struct {
		golden   string
		hub      *fakeHub
		settings Settings
	}{
		"agent registers, verifies, sends heartbeats, watches and reports": {
			golden: "joins", hub: &fakeHub{hidden: 2, withheld: 1, deployments: []string{own}}, settings: Settings{Labels: map[string]string{"env": "dev"}},
		},
		"Rancher Fleet's agent polls its credential, and lists before it watches": {
			golden: "polls", hub: &fakeHub{hidden: 1, withheld: 1, deployments: []string{own}}, settings: Settings{Poll: true, Pod: "other-0"},
		},
		"restarted agent keeps its identity": {
			golden: "restarted", hub: &fakeHub{deployments: []string{deployment("a", "30", "s-1:2", "s-1:2")}},
			settings: Settings{Credential: &protocol.Credential{Token: keptToken(), DeploymentNamespace: clusterSpace, ClusterNamespace: workspace, ClusterName: "c1"}},
		},
		"Bundle with values in a Secret: agent reads the Secret": {
			golden: "values", hub: &fakeHub{deployments: []string{deployment("a", "30", "s-1:2", "", `,"valuesHash":"h"`)}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := play(t, test.hub, test.settings)
				within(t, a, func(s State) bool { return Joined(s) && s.Watching })
				synctest.Wait()
				// Two goroutines of an agent send requests at the same time. The test separates them, because
				// their order is undefined.
				parts := append(test.hub.lines("clusterregistrations", "/secrets", "limit=1"), test.hub.lines("/clusters/")...)
				got := strings.Join(append(parts, test.hub.lines("bundledeployments?watch", "limit=500", "/contents/", "/bundledeployments/")...), "\n") + "\n"
				golden.Expect(t, test.golden+".txt", got)
				if told, all := strings.Count("\n"+got, "\n")-1-strings.Count(got, "\n  "), len(test.hub.lines()); told != all {
					t.Errorf("%d requests, the golden file has %d", all, told)
				}
			})
		})
	}
}

// keptToken returns a token that names its ServiceAccount, as those of a hub do.
func keptToken() string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{}`)) + "." + part([]byte(`{"kubernetes.io":{"serviceaccount":{"uid":"uid-1"}}}`)) + ".c"
}

// only rejects the first n requests for a resource with a code.
func only(about string, n, code int) func(*http.Request, string, int) int {
	return func(_ *http.Request, resource string, before int) int {
		if resource == about && before < n {
			return code
		}
		return 0
	}
}

func TestAgent_RecoversFromFailures(t *testing.T) {
	own := []string{deployment("a", "30", "s-1:2", "")}
	tests := map[string]struct {
		hub      *fakeHub
		settings Settings
		want     State // without times
		least    time.Duration
		most     time.Duration
	}{
		"no failure": {
			hub: &fakeHub{deployments: own}, want: State{Registrations: 1, Beats: 1, Watches: 1, Reports: 1}, least: 60 * time.Millisecond, most: 60 * time.Millisecond,
		},
		"access to the credential is granted after two seconds: retried with growing pauses": {
			hub: &fakeHub{hidden: 5, deployments: own}, want: State{Registrations: 1, Beats: 1, Watches: 1, Reports: 1}, least: 1800 * time.Millisecond, most: 2400 * time.Millisecond,
		},
		"hub rejects the registration twice: retried after pauses": {
			hub:  &fakeHub{refuse: only("registrations", 2, 503), deployments: own},
			want: State{Registrations: 1, Beats: 1, Watches: 1, Reports: 1, Failures: 2}, least: 1800 * time.Millisecond, most: 2400 * time.Millisecond,
		},
		"token is rejected while it waits: registers again": {
			hub:  &fakeHub{refuse: only("secrets", 1, 401), deployments: own},
			want: State{Registrations: 2, Beats: 1, Watches: 1, Reports: 1, Failures: 1}, least: 1800 * time.Millisecond, most: 2400 * time.Millisecond,
		},
		"no credential for half an hour: registers again": {
			hub:  &fakeHub{refuse: credentialComesTo(2), deployments: own},
			want: State{Registrations: 2, Beats: 1, Watches: 1, Reports: 1, Failures: 1}, least: 30 * time.Minute, most: 31 * time.Minute,
		},
		"credential does not work: registers again": {
			hub:  &fakeHub{refuse: only("proof", 1, 403), deployments: own},
			want: State{Registrations: 2, Beats: 1, Watches: 1, Reports: 1, Failures: 1}, least: 1800 * time.Millisecond, most: 2400 * time.Millisecond,
		},
		"three heartbeats fail: pauses of one, two and four seconds": {
			hub:  &fakeHub{refuse: only("heartbeat", 3, 500), deployments: own},
			want: State{Registrations: 1, Beats: 1, Watches: 1, Reports: 1, Failures: 3}, least: 6300 * time.Millisecond, most: 8 * time.Second,
		},
		"watch is rejected twice: opened again after pauses": {
			hub:  &fakeHub{refuse: only("watch", 2, 503), deployments: own},
			want: State{Registrations: 1, Beats: 1, Watches: 1, Reports: 1, Failures: 2}, least: 2700 * time.Millisecond, most: 3500 * time.Millisecond,
		},
		"report is rejected: repeated after a new list of BundleDeployments": {
			hub:  &fakeHub{refuse: only("report", 1, 500), deployments: own},
			want: State{Registrations: 1, Beats: 1, Watches: 2, Reports: 1, Failures: 1}, least: 900 * time.Millisecond, most: 1200 * time.Millisecond,
		},
		"content cannot be read: report is repeated after a new list": {
			hub:  &fakeHub{refuse: only("contents", 1, 500), deployments: own},
			want: State{Registrations: 1, Beats: 1, Watches: 2, Reports: 1, Failures: 1}, least: 900 * time.Millisecond, most: 1200 * time.Millisecond,
		},
		"identity is rejected for ten seconds, RegisterAgain is set: registers again": {
			hub: &fakeHub{refuse: rejects("token-1", time.Hour), deployments: own}, settings: Settings{RegisterAgain: true},
			want: State{Registrations: 2, Beats: 1, Watches: 1, Reports: 1}, least: 10 * time.Second, most: 20 * time.Second,
		},
		"identity is rejected for a moment: identity is kept": {
			hub: &fakeHub{refuse: rejects("token-1", 6*time.Second), deployments: own}, settings: Settings{RegisterAgain: true},
			want: State{Registrations: 1, Beats: 1, Watches: 1, Reports: 1}, least: 6 * time.Second, most: 16 * time.Second,
		},
		"rejections with another error in between: counted from then on": {
			hub: &fakeHub{refuse: interrupted(rejects("token-1", 20*time.Second), 2), deployments: own}, settings: Settings{RegisterAgain: true},
			want: State{Registrations: 1, Beats: 1, Watches: 1, Reports: 1}, least: 20 * time.Second, most: 40 * time.Second,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				a := play(t, test.hub, test.settings)
				got := within(t, a, Settled)
				if took := time.Since(began); took < test.least || took > test.most {
					t.Errorf("it took %s, want %s to %s", took, test.least, test.most)
				}
				if test.settings.RegisterAgain {
					got.Failures = 0 // depends on the order of its goroutines
				}
				want := test.want
				want.Watching = true
				if diff := cmp.Diff(want, withoutTimes(got)); diff != "" {
					t.Errorf("state (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func withoutTimes(s State) State {
	s.Request, s.Problem = "", ""
	s.Requested, s.Granted, s.Proven, s.Beaten = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	s.LastBeat, s.WatchingSince = time.Time{}, time.Time{}
	return s
}

// credentialComesTo hides every credential except that of the nth registration.
func credentialComesTo(nth int) func(*http.Request, string, int) int {
	made := 0
	return func(_ *http.Request, resource string, _ int) int {
		if resource == "registrations" {
			made++
		}
		if resource == "secrets" && made < nth {
			return 403
		}
		return 0
	}
}

// rejects answers 401 to a token for a while, but not to its verification before first use.
func rejects(token string, while time.Duration) func(*http.Request, string, int) int {
	var began time.Time
	return func(r *http.Request, resource string, n int) int {
		if began.IsZero() {
			began = time.Now()
		}
		if r.Header.Get("Authorization") == "Bearer "+token && (resource != "proof" || n > 0) && time.Since(began) < while {
			return 401
		}
		return 0
	}
}

// interrupted answers the nth watch after the first with code 503.
func interrupted(refuse func(*http.Request, string, int) int, nth int) func(*http.Request, string, int) int {
	return func(r *http.Request, resource string, n int) int {
		if resource == "watch" && n == nth {
			return 503
		}
		return refuse(r, resource, n)
	}
}

func TestRejectedAgentWithoutRegisterAgain_KeepsTrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		h := &fakeHub{deployments: []string{deployment("a", "30", "s-1:2", "")}}
		h.refuse = func(_ *http.Request, resource string, n int) int {
			if resource != "registrations" && resource != "secrets" && time.Since(began) < 10*time.Minute && (resource != "proof" || n > 0) {
				return 401
			}
			return 0
		}
		a := play(t, h, Settings{})
		if s := within(t, a, func(s State) bool { return s.Rejected }); s.Beats != 0 || s.Watching {
			t.Errorf("state %+v", s)
		}
		s := within(t, a, func(s State) bool { return Settled(s) && !s.Rejected })
		if s.Registrations != 1 || a.Credential() == nil {
			t.Errorf("the agent dropped its identity: %+v", s)
		}
		if late := time.Since(began) - 10*time.Minute; late > 70*time.Second {
			t.Errorf("the agent used the accepted identity again only after %s", late)
		}
	})
}

func TestEndedWatch_IsContinued(t *testing.T) {
	lost := errors.New("connection lost")
	tests := map[string]struct {
		end  error
		code int
		want []string
	}{
		"server ends the watch: continued at the last version": {
			end: nil, want: []string{"resourceVersion=40"},
		},
		"connection is lost: continued at the last version": {
			end: lost, want: []string{"resourceVersion=40"},
		},
		"version has expired: listed again": {
			end: lost, code: 410, want: []string{"resourceVersion=40", "sendInitialEvents=true"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &fakeHub{}
				h.refuse = func(_ *http.Request, resource string, n int) int {
					if resource == "watch" && n == 1 {
						return test.code
					}
					return 0
				}
				a := play(t, h, Settings{})
				within(t, a, func(s State) bool { return s.Watching && Joined(s) })
				synctest.Wait()
				h.hangUp(test.end)
				within(t, a, func(s State) bool { return s.Watching && s.Watches == 2 })
				again := h.lines("bundledeployments?watch")[1:]
				if len(again) != len(test.want) {
					t.Fatalf("watches after the first: %q", again)
				}
				for i, line := range again {
					if !strings.Contains(line, test.want[i]) {
						t.Errorf("watch %q does not contain %s", line, test.want[i])
					}
				}
			})
		})
	}
}

func TestWatchEvents_CauseReports(t *testing.T) {
	tests := map[string]struct {
		kind, object string
		want         []string // the requests that it causes, shortened
	}{
		"new deployment ID: deployed and reported":    {"MODIFIED", deployment("a", "60", "s-2:2", "s-1:2"), []string{"GET contents/s-2?resourceVersion=0", "PUT a/status"}},
		"new BundleDeployment: deployed and reported": {"ADDED", deployment("b", "60", "s-2:2", ""), []string{"GET contents/s-2?resourceVersion=0", "PUT b/status"}},
		"already reported: no request":                {"MODIFIED", deployment("a", "60", "s-1:2", "s-1:2"), nil},
		"version from before the report: no request":  {"MODIFIED", deployment("a", "45", "s-1:2", ""), nil},
		"no deployment ID: no request":                {"ADDED", deployment("b", "60", "", ""), nil},
		"paused: no request":                          {"ADDED", deployment("b", "60", "s-2:2", "", `,"paused":true`), nil},
		"off schedule: no request":                    {"ADDED", deployment("b", "60", "s-2:2", "", `,"offSchedule":true`), nil},
		"deleted: read once":                          {"DELETED", deployment("a", "60", "s-1:2", "s-1:2"), []string{"GET a"}},
		"bookmark: no request":                        {"BOOKMARK", `{"metadata":{"resourceVersion":"60"}}`, nil},
		"terminating: no request":                     {"MODIFIED", strings.Replace(deployment("a", "60", "s-2:2", ""), `"uid"`, `"deletionTimestamp":"2026-01-01T00:00:00Z","uid"`, 1), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &fakeHub{deployments: []string{deployment("a", "30", "s-1:2", "")}}
				a := play(t, h, Settings{})
				within(t, a, Settled)
				synctest.Wait()
				before := len(h.lines())
				h.say(t, test.kind, test.object)
				synctest.Wait()
				got := shortened(h.lines()[before:])
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// shortened returns the method and the subject of requests about deployments.
func shortened(lines []string) (found []string) {
	for _, line := range lines {
		first, _, _ := strings.Cut(line, "\n")
		fields := strings.Fields(first)
		parts := strings.Split(fields[2], "/")
		what := parts[len(parts)-1]
		if what == "status" || slices.Contains([]string{"contents", "secrets"}, parts[len(parts)-2]) {
			what = parts[len(parts)-2] + "/" + what
		}
		found = append(found, fields[1]+" "+what)
	}
	return found
}

func TestStaleCacheAnswers_AreRetriedFromStorage(t *testing.T) {
	const memory, put = "?resourceVersion=0", "PUT a/status"
	tests := map[string]struct {
		refuse func(*http.Request, string, int) int
		other  bool
		want   []string
	}{
		"all answers are current": {want: []string{"GET contents/s-2" + memory, "GET secrets/a" + memory, put}},
		"Content is not in the cache yet: read from storage": {
			refuse: only("contents", 1, 404), want: []string{"GET contents/s-2" + memory, "GET contents/s-2", "GET secrets/a" + memory, put}},
		"values are not in the cache yet: read from storage": {
			refuse: inMemory("/secrets/a", 404), want: []string{"GET contents/s-2" + memory, "GET secrets/a" + memory, "GET secrets/a", put}},
		"conflicting write: patched": {
			refuse: only("report", 1, 409), want: []string{"GET contents/s-2" + memory, "GET secrets/a" + memory, put, "PATCH a/status"}},
		"Rancher Fleet's agent: reads storage and patches": {
			other: true, want: []string{"GET contents/s-2", "GET secrets/a", "PATCH a/status"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &fakeHub{refuse: test.refuse}
				a := play(t, h, Settings{Poll: test.other})
				within(t, a, func(s State) bool { return s.Watching && Joined(s) })
				synctest.Wait()
				before := len(h.lines())
				h.say(t, "ADDED", deployment("a", "60", "s-2:2", "", `,"valuesHash":"h"`))
				if s := within(t, a, func(s State) bool { return s.Reports == 1 }); s.Problem != "" {
					t.Errorf("want no failure, got %s", s.Problem)
				}
				if diff := cmp.Diff(test.want, shortened(h.lines()[before:])); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// inMemory rejects requests that ask the API server for an answer from its cache.
func inMemory(path string, code int) func(*http.Request, string, int) int {
	return func(r *http.Request, _ string, _ int) int {
		if strings.HasSuffix(r.URL.Path, path) && r.URL.Query().Get("resourceVersion") == "0" {
			return code
		}
		return 0
	}
}

func TestHeartbeats_KeepTheirInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHub{}
		a := play(t, h, Settings{Checkin: time.Minute})
		began := time.Now()
		within(t, a, func(s State) bool { return s.Beats == 101 })
		if took := time.Since(began); took < 90*time.Minute || took > 110*time.Minute {
			t.Errorf("a hundred intervals took %s", took)
		}
	})
}

func TestNewIdentity_SendsALaterSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rejecting atomic.Bool
		h := &fakeHub{refuse: func(r *http.Request, _ string, _ int) int {
			if rejecting.Load() && r.Header.Get("Authorization") == "Bearer token-1" {
				return 401
			}
			return 0
		}}
		a := play(t, h, Settings{RegisterAgain: true})
		within(t, a, func(s State) bool { return Joined(s) && s.Watching })
		synctest.Wait()
		rejecting.Store(true)
		h.hangUp(nil)
		within(t, a, func(s State) bool { return s.Registrations == 2 && Joined(s) })
		beats := h.lines("/clusters/")
		if len(beats) != 2 || beats[0][strings.Index(beats[0], "lastSeen"):] == beats[1][strings.Index(beats[1], "lastSeen"):] {
			t.Errorf("heartbeats %q", beats)
		}
	})
}

func TestStoppedAgent_SendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHub{}
		a := play(t, h, Settings{Checkin: time.Second})
		within(t, a, func(s State) bool { return s.Beats == 3 })
		a.Stop()
		before := len(h.lines())
		<-time.After(time.Hour)
		if after := len(h.lines()); after != before {
			t.Errorf("%d requests after Stop", after-before)
		}
		if a.Credential() == nil {
			t.Error("the agent lost its identity")
		}
		a.Stop() // a second Stop has no effect
	})
}

func TestStopBeforeStart_DoesNothing(t *testing.T) {
	New(Options{Values: testValues()}).Add(Settings{}).Stop()
}

func TestAtOnce_LimitsConcurrentRegistrations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const agents, atOnce = 12, 3
		s := New(Options{Values: testValues(), AtOnce: atOnce})
		var mu sync.Mutex
		busy, most := 0, 0
		count := func(_ *http.Request, resource string, n int) int {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case resource == "registrations":
				busy++
				most = max(most, busy)
			case resource == "heartbeat" && n == 0:
				busy-- // before the response is sent, so that no other agent may start
			}
			return 0
		}
		for range agents {
			h := &fakeHub{hidden: 5, refuse: count}
			s.Add(Settings{ClientID: "c", Wrap: func(http.RoundTripper) http.RoundTripper { return h }})
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer s.Wait()
		defer cancel()
		s.Start(ctx, s.Agents()...)
		if err := s.Await(ctx, Joined, s.Agents()...); err != nil {
			t.Fatal(err)
		}
		if most != atOnce || busy != 0 {
			t.Errorf("%d at once, %d at the end", most, busy)
		}
	})
}

func TestRequests_AreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHub{hidden: 2, refuse: only("heartbeat", 1, 500), deployments: []string{deployment("a", "30", "s-1:2", "")}}
		a := play(t, h, Settings{})
		within(t, a, Settled)
		want := map[Request]int{
			{"import", "create", "clusterregistrations", 201}:      1,
			{"import", "get", "secrets", 403}:                      2,
			{"import", "get", "secrets", 200}:                      1,
			{"request", "list", "bundledeployments", 200}:          1,
			{"request", "watch", "bundledeployments", 200}:         1,
			{"request", "get", "contents", 200}:                    1,
			{"request", "update", "bundledeployments/status", 200}: 1,
			{"request", "patch", "clusters/status", 500}:           1,
			{"request", "patch", "clusters/status", 200}:           1,
		}
		if diff := cmp.Diff(want, a.swarm.Requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

func TestAwait_NamesTheLateAgent(t *testing.T) {
	a := New(Options{Values: testValues()}).Add(Settings{ClientID: "late"})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrUnexpectedEOF)
	err := a.swarm.Await(ctx, Joined, a)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "agent late") {
		t.Errorf("got %v", err)
	}
}

func TestValues_AreParsed(t *testing.T) {
	got, err := Values(map[string]any{"token": "x", "clusterNamespace": workspace, "labels": map[string]any{"a": "b"}})
	if diff := cmp.Diff(protocol.Values{Token: "x", ClusterNamespace: workspace}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := Values(map[string]any{}); !errors.Is(err, protocol.ErrIncomplete) {
		t.Errorf("without a token: %v", err)
	}
	if _, err := Values(map[string]any{"token": func() {}}); err == nil {
		t.Error("want an error for values that cannot be encoded")
	}
}
