package heartbeat

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Time in a bubble begins at midnight of the year 2000.
func TestRun(t *testing.T) {
	down := errors.New("connection refused")
	busy := apierrors.NewTooManyRequests("too many requests", 90)
	tests := map[string]struct {
		interval time.Duration
		chance   io.Reader
		answers  []error // of the first heartbeats; the others are accepted
		until    time.Duration
		want     []string
	}{
		"first heartbeat at once, then every interval": {
			interval: 15 * time.Minute, until: 40 * time.Minute,
			want: []string{"00:00:00 sent", "first", "00:15:00 sent", "00:30:00 sent"},
		},
		"no interval: every 15 minutes": {
			interval: 0, until: 40 * time.Minute,
			want: []string{"00:00:00 sent", "first", "00:15:00 sent", "00:30:00 sent"},
		},
		"negative interval: every 15 minutes": {
			interval: -time.Second, until: 20 * time.Minute,
			want: []string{"00:00:00 sent", "first", "00:15:00 sent"},
		},
		"intervals have jitter": {
			interval: 1000 * time.Second, chance: bytes.NewReader([]byte{0, 255, 128}), until: 50 * time.Minute,
			want: []string{"00:00:00 sent", "first", "00:15:00 sent", "00:33:19 sent", "00:49:59 sent"},
		},
		"failure: retried with growing pauses": {
			interval: 15 * time.Minute, answers: []error{down, down, down, down, down, down, down, down, down}, until: 20 * time.Minute,
			want: []string{
				"00:00:00 failed", "00:00:01 failed", "00:00:03 failed", "00:00:07 failed", "00:00:15 failed", "00:00:31 failed",
				"00:01:01 failed", "00:01:31 failed", "00:02:01 failed", "00:02:31 sent", "first", "00:17:31 sent",
			},
		},
		"success resets the pause": {
			interval: time.Minute, answers: []error{nil, down, down, nil, down, nil}, until: 200 * time.Second,
			want: []string{
				"00:00:00 sent", "first", "00:01:00 failed", "00:01:01 failed", "00:01:03 sent", "00:02:03 failed", "00:02:04 sent", "00:03:04 sent",
			},
		},
		"Retry-After of the hub": {
			interval: 15 * time.Minute, answers: []error{down, busy, busy, down}, until: 20 * time.Minute,
			want: []string{"00:00:00 failed", "00:00:01 failed", "00:01:31 failed", "00:03:01 failed", "00:03:09 sent", "first", "00:18:09 sent"},
		},
		"Retry-After above the interval": {
			interval: time.Minute, answers: []error{nil, busy}, until: 4 * time.Minute,
			want: []string{"00:00:00 sent", "first", "00:01:00 failed", "00:02:30 sent", "00:03:30 sent"},
		},
		"agents that failed together return spread out": {
			interval: 15 * time.Minute, answers: []error{down, down, down, down, down, down}, chance: bytes.NewReader([]byte{0, 255, 0, 255, 0, 255, 128}), until: 2 * time.Minute,
			want: []string{
				"00:00:00 failed", "00:00:00 failed", "00:00:03 failed", "00:00:05 failed", "00:00:17 failed", "00:00:25 failed", "00:01:10 sent", "first",
			},
		},
		"pause is at most the interval": {
			interval: 3 * time.Second, answers: []error{down, down, down, down}, until: 11 * time.Second,
			want: []string{"00:00:00 failed", "00:00:01 failed", "00:00:03 failed", "00:00:06 failed", "00:00:09 sent", "first"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.until)
				defer cancel()
				var got, told []string
				answers := test.answers
				o := Options{
					Interval: test.interval, Random: test.chance, AgentNamespace: "ns",
					Clock:   time.Now,
					OnFirst: func() { got = append(got, "first") },
					OnBeat: func(at time.Time, err error) {
						what := " sent"
						if err != nil {
							what = " failed"
						}
						told = append(told, at.UTC().Format(time.TimeOnly)+what)
					},
				}
				err := run(ctx, o.withDefaults(), func(context.Context, []byte) error {
					var answer error
					if len(answers) > 0 {
						answer, answers = answers[0], answers[1:]
					}
					what := " sent"
					if answer != nil {
						what = " failed"
					}
					got = append(got, o.Clock().UTC().Format(time.TimeOnly)+what)
					return answer
				})
				if err != nil {
					t.Errorf("ended with %v", err)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("heartbeats (-want +got):\n%s", diff)
				}
				beats := slices.DeleteFunc(got, func(what string) bool { return what == "first" })
				if diff := cmp.Diff(beats, told); diff != "" {
					t.Errorf("told (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestRun_CanceledHeartbeatIsNotAFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var lines bytes.Buffer
	o := Options{
		Clock:   func() time.Time { return time.Time{} },
		Log:     slog.New(slog.NewTextHandler(&lines, nil)),
		OnFirst: func() { t.Error("none was accepted") },
		OnBeat:  func(time.Time, error) { t.Error("none was answered") },
	}
	err := run(ctx, o.withDefaults(), func(ctx context.Context, _ []byte) error {
		cancel()
		return ctx.Err()
	})
	if err != nil || lines.Len() > 0 {
		t.Errorf("error %v, log:\n%s", err, lines.String())
	}
}

func TestPatch(t *testing.T) {
	east := time.FixedZone("east", 2*60*60)
	count := func(n int32) *int32 { return &n }
	tests := map[string]struct {
		now       time.Time
		namespace string
		expires   time.Time
		key       string
		ticket    string
		serial    int64
		facts     fleet.ClusterFacts
		want      string
	}{
		"recovery key and serial of the hub document": {
			now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), namespace: "ns", key: "MFkw_-", ticket: "2026-01-01T00:00:00Z/x", serial: 1767323045,
			want: `[{"op":"add","path":"/status/agent","value":{"lastSeen":"2026-01-02T03:04:05Z","namespace":"ns","recoveryKey":"MFkw_-","recoveryTicket":"2026-01-01T00:00:00Z/x","hubSerial":1767323045}}]`,
		},
		"expiring credential": {
			now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), namespace: "ns", expires: time.Date(2026, 1, 3, 5, 4, 5, 0, east),
			want: `[{"op":"add","path":"/status/agent","value":{"lastSeen":"2026-01-02T03:04:05Z","namespace":"ns","credentialExpires":"2026-01-03T03:04:05Z"}}]`,
		},
		"time in UTC, in seconds": {
			now: time.Date(2026, 11, 21, 9, 44, 29, 123456789, east), namespace: "cattle-fleet-system",
			want: `[{"op":"add","path":"/status/agent","value":{"lastSeen":"2026-11-21T07:44:29Z","namespace":"cattle-fleet-system"}}]`,
		},
		"another agent namespace": {
			now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), namespace: "cattle-fleet-local-system",
			want: `[{"op":"add","path":"/status/agent","value":{"lastSeen":"2026-01-02T03:04:05Z","namespace":"cattle-fleet-local-system"}}]`,
		},
		"facts of the cluster": {
			now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), namespace: "ns",
			facts: fleet.ClusterFacts{KubernetesVersion: "v1.35.1+k3s1", Platform: "linux/arm64", Nodes: count(3), ReadyNodes: count(0), AgentVersion: "v1.2.3"},
			want: `[{"op":"add","path":"/status/agent","value":{"lastSeen":"2026-01-02T03:04:05Z","namespace":"ns",` +
				`"kubernetesVersion":"v1.35.1+k3s1","platform":"linux/arm64","nodes":3,"readyNodes":0,"agentVersion":"v1.2.3"}}]`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := Options{AgentNamespace: test.namespace, Status: func() fleet.AgentStatus {
				status := fleet.AgentStatus{RecoveryKey: test.key, RecoveryTicket: test.ticket, HubSerial: test.serial}
				if !test.expires.IsZero() {
					status.CredentialExpires = &metav1.Time{Time: test.expires}
				}
				return status
			}}
			got, err := patch(o.status(test.now, test.facts))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

// The next heartbeat is sent at least five minutes after the last one, and only if the facts differ from those that
// were reported.
func TestChangedFacts_BringTheHeartbeatForward(t *testing.T) {
	type change struct {
		at    time.Duration
		nodes int32
	}
	tests := map[string]struct {
		interval time.Duration
		changes  []change
		refused  int // so many heartbeats
		until    time.Duration
		want     []string
	}{
		"no change: every interval": {15 * time.Minute, nil, 0, 31 * time.Minute, []string{"00:00:00 1", "00:15:00 1", "00:30:00 1"}},
		"change: at once, but at most every five minutes": {
			15 * time.Minute, []change{{7 * time.Minute, 2}, {8 * time.Minute, 3}, {9 * time.Minute, 4}}, 0, 30 * time.Minute,
			[]string{"00:00:00 1", "00:07:00 2", "00:12:00 4", "00:27:00 4"},
		},
		"change in the first minute: waits": {15 * time.Minute, []change{{time.Second, 2}}, 0, 19 * time.Minute, []string{"00:00:00 1", "00:05:00 2"}},
		"change that was undone: ignored":   {15 * time.Minute, []change{{time.Minute, 2}, {2 * time.Minute, 1}, {8 * time.Minute, 1}}, 0, 16 * time.Minute, []string{"00:00:00 1", "00:15:00 1"}},
		"shorter interval: kept":            {time.Minute, []change{{10 * time.Second, 2}}, 0, 110 * time.Second, []string{"00:00:00 1", "00:01:00 2"}},
		"unreachable hub: a change causes no earlier retry": {
			15 * time.Minute, []change{{500 * time.Millisecond, 2}, {6 * time.Second, 3}}, 3, 10 * time.Minute,
			[]string{"00:00:00 1", "00:00:01 2", "00:00:03 2", "00:00:07 3"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.until)
				defer cancel()
				var nodes atomic.Int32
				nodes.Store(1)
				changed := make(chan struct{}, 1)
				for _, c := range test.changes {
					time.AfterFunc(c.at, func() {
						nodes.Store(c.nodes)
						select {
						case changed <- struct{}{}:
						default:
						}
					})
				}
				var got []string
				o := Options{
					Interval: test.interval, Clock: time.Now, FactsChanged: changed,
					Facts: func() fleet.ClusterFacts { n := nodes.Load(); return fleet.ClusterFacts{Nodes: &n} },
				}
				err := run(ctx, o.withDefaults(), func(_ context.Context, body []byte) error {
					var said []struct{ Value fleet.AgentStatus }
					if err := json.Unmarshal(body, &said); err != nil {
						t.Error(err)
					}
					got = append(got, fmt.Sprintf("%s %d", said[0].Value.LastSeen.UTC().Format(time.TimeOnly), *said[0].Value.Nodes))
					if len(got) <= test.refused {
						return errors.New("connection refused")
					}
					return nil
				})
				if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
					t.Errorf("error %v, heartbeats (-want +got):\n%s", err, diff)
				}
			})
		})
	}
}

func TestPause(t *testing.T) {
	tests := map[string]struct {
		interval time.Duration
		failed   int
		want     time.Duration
	}{
		"after one failure":           {time.Hour, 1, time.Second},
		"after two":                   {time.Hour, 2, 2 * time.Second},
		"after five":                  {time.Hour, 5, 16 * time.Second},
		"after many":                  {time.Hour, 1000, 30 * time.Second},
		"never more than an interval": {20 * time.Second, 1000, 20 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := pause(test.interval, test.failed); got != test.want {
				t.Errorf("pause %s, want %s", got, test.want)
			}
		})
	}
}

func TestAgain(t *testing.T) {
	tests := map[string]struct {
		pause, asked time.Duration
		chance       io.Reader
		want         time.Duration
	}{
		"the pause":                        {10 * time.Second, 0, nil, 10 * time.Second},
		"half shorter at most":             {10 * time.Second, 0, bytes.NewReader([]byte{0}), 5 * time.Second},
		"nearly half longer":               {10 * time.Second, 0, bytes.NewReader([]byte{255}), 14960937500 * time.Nanosecond},
		"what was asked for":               {10 * time.Second, time.Minute, nil, time.Minute},
		"never less than was asked for":    {10 * time.Second, time.Minute, bytes.NewReader([]byte{0}), 65 * time.Second},
		"what was asked for, and a chance": {10 * time.Second, time.Minute, bytes.NewReader([]byte{255}), 64960937500 * time.Nanosecond},
		"less is asked for than is waited": {10 * time.Second, time.Second, nil, 10 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := again(test.pause, test.asked, test.chance); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestTenMinuteOutage_AgentsReturnSpreadWithin45Seconds(t *testing.T) {
	const outage = 10 * time.Minute
	returns := map[time.Duration]int{}
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), outage+15*time.Minute)
			defer cancel()
			began, tries, back := time.Now(), 0, time.Duration(0)
			o := Options{Clock: time.Now, Interval: 15 * time.Minute, Random: rand.NewChaCha8([32]byte{byte(seed)})}
			err := run(ctx, o.withDefaults(), func(context.Context, []byte) error {
				since := time.Since(began)
				if since < outage {
					tries++
					return errors.New("connection refused")
				}
				if back == 0 {
					back = since - outage
				}
				return nil
			})
			if err != nil {
				t.Errorf("ended with %v", err)
			}
			if tries < 15 || tries > 35 {
				t.Errorf("%d requests while the hub was gone", tries)
			}
			if back == 0 || back > lastRetry+lastRetry/2 {
				t.Errorf("the hub was found again after %s", back)
			}
			returns[back.Truncate(time.Second)]++
		})
	}
	for second, agents := range returns {
		if agents > 25 { // of 200
			t.Errorf("%d of 200 agents come back in second %s", agents, second)
		}
	}
}

func TestJitter(t *testing.T) {
	tests := map[string]struct {
		chance io.Reader
		want   time.Duration
	}{
		"random source without data": {nil, time.Minute},
		"random source ends":         {iotest.ErrReader(io.EOF), time.Minute},
		"a tenth shorter at most":    {bytes.NewReader([]byte{0}), 54 * time.Second},
		"the interval":               {bytes.NewReader([]byte{128}), time.Minute},
		"nearly a tenth longer":      {bytes.NewReader([]byte{255}), 65953125 * time.Microsecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := jitter(time.Minute, test.chance); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestRunOverTLS_SendsOnlyStatusPatches(t *testing.T) {
	tests := map[string]struct {
		answers []int
		want    int // requests until the first is accepted
	}{
		"accepted at once":          {[]int{200}, 1},
		"accepted after an outage":  {[]int{503, 200}, 2},
		"accepted after a conflict": {[]int{409, 200}, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var asked []string
			answers := test.answers
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				asked = append(asked, fmt.Sprintf("%s %s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), r.Header.Get("Authorization"), body))
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(answers[0])
				answers = answers[1:]
				if _, err := w.Write([]byte("{}")); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			ctx, cancel := context.WithCancel(t.Context())
			err := Run(ctx, Options{
				Hub: &rest.Config{Host: server.URL, BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{
					CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
				}},
				ClusterNamespace: "fleet-default", ClusterName: "east", AgentNamespace: "cattle-fleet-system",
				Interval: 10 * time.Millisecond,
				Clock:    func() time.Time { return time.Date(2026, 11, 21, 7, 44, 29, 0, time.UTC) },
				OnFirst:  cancel,
			})
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for range test.want {
				want = append(want, "PATCH /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters/east/status?fieldValidation=Ignore application/json-patch+json Bearer t "+
					`[{"op":"add","path":"/status/agent","value":{"lastSeen":"2026-11-21T07:44:29Z","namespace":"cattle-fleet-system"}}]`)
			}
			if diff := cmp.Diff(want, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRun_InvalidConfigIsAnError(t *testing.T) {
	err := Run(t.Context(), Options{Hub: &rest.Config{Host: "https://hub", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no")}}})
	if err == nil {
		t.Error("a configuration that makes no client was accepted")
	}
}
