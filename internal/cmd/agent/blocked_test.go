package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/health"
	"github.com/fleet-hub/fleet/internal/leader"
)

const (
	namespace = "cattle-fleet-system"
	pod       = "fleet-agent-67c6bbb6d9-6448l"
)

func lease(holder *string) *coordinationv1.Lease {
	seconds := int32(30)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleet-agent", ResourceVersion: "7"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: holder, LeaseDurationSeconds: &seconds},
	}
}

// fullCluster is an API server with one Lease, or none, that refuses writes. Requests to it need no network, so that the time is
// that of a bubble.
type fullCluster struct {
	mu         sync.Mutex
	lease      *coordinationv1.Lease
	accepts    bool
	unwatched  bool // it refuses watches
	unreadable bool
}

func (c *fullCluster) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.URL.Query().Get("watch") != "" && !c.unwatched:
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: untilEnd{r.Context().Done()}}, nil
	case r.URL.Query().Get("watch") != "":
		return refusal(http.StatusForbidden, metav1.StatusReasonForbidden, "no watches"), nil
	case r.Method == http.MethodGet && c.unreadable:
		return refusal(http.StatusForbidden, metav1.StatusReasonForbidden, "no reads"), nil
	case r.Method == http.MethodGet && c.lease == nil:
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "not found"), nil
	case r.Method != http.MethodGet && !c.accepts:
		return refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcdserver: mvcc: database space exceeded"), nil
	case r.Method != http.MethodGet:
		c.lease = &coordinationv1.Lease{}
		if err := json.NewDecoder(r.Body).Decode(c.lease); err != nil {
			return nil, err
		}
	}
	return response(http.StatusOK, c.lease), nil
}

// hold makes the Lease one that this process has just renewed.
func (c *fullCluster) hold(holder string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := metav1.NowMicro()
	c.lease = lease(&holder)
	c.lease.Spec.RenewTime, c.lease.Spec.AcquireTime = &now, &now
}

func refusal(code int, reason metav1.StatusReason, message string) *http.Response {
	return response(code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

func response(code int, object any) *http.Response {
	if l, ok := object.(*coordinationv1.Lease); ok {
		l.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	}
	body, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body))}
}

// untilEnd is the body of a watch without events.
type untilEnd struct{ done <-chan struct{} }

func (u untilEnd) Read([]byte) (int, error) {
	<-u.done
	return 0, io.EOF
}

func (u untilEnd) Close() error { return nil }

func TestLeaseThatCannotBeWritten_AgentIsNotReadyAndLogsTheCause(t *testing.T) {
	const full = "etcdserver: mvcc: database space exceeded"
	const other = "fleet-agent-67c6bbb6d9-abcde_" + "abcdefghijklmnopqrstuvwxyz"
	tests := map[string]struct {
		holder                         string
		unwatched, unreadable, accepts bool
		later                          func(c *fullCluster) // two minutes after the start
		after                          time.Duration
		ready                          bool
		reason                         string
		logged                         string // before the end
	}{
		"held by this pod's earlier process, not expired": {holder: pod + "_abc", after: 10 * time.Second, reason: full, logged: full},
		"held by this pod's earlier process, expired":     {holder: pod + "_abc", after: time.Minute, reason: full, logged: full},
		"held by this pod's earlier process, and the cluster accepts writes: the agent works": {
			holder: pod + "_abc", accepts: true, after: time.Second, reason: "registering",
		},
		"Leases cannot be read":                         {unreadable: true, after: 10 * time.Second, reason: "no reads", logged: "no reads"},
		"held by another pod, not expired":              {holder: other, after: 10 * time.Second, ready: true, reason: "standing by", logged: "standing by"},
		"held by another pod, expired":                  {holder: other, after: time.Minute, reason: full, logged: full},
		"held by another pod, expired, without watches": {holder: other, unwatched: true, after: time.Minute, reason: full, logged: full},
		"does not exist":                                {after: time.Minute, reason: full, logged: full},
		"cluster accepts writes again: the agent works": {
			holder: pod + "_abc", after: 3 * time.Minute, reason: "registering", logged: full,
			later: func(c *fullCluster) { c.accepts = true },
		},
		"another pod gets the Lease: standby": {
			holder: pod + "_abc", after: 125 * time.Second, ready: true, reason: "standing by", logged: full,
			later: func(c *fullCluster) { c.hold(other) },
		},
		"the holder releases the Lease, without watches: not ready": {
			holder: other, unwatched: true, after: 125 * time.Second, reason: full, logged: full,
			later: func(c *fullCluster) { c.hold("") },
		},
		"the holder renews again, without watches: standby": {
			holder: other, unwatched: true, after: 125 * time.Second, ready: true, reason: "standing by", logged: full,
			later: func(c *fullCluster) { c.hold(other) },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := &fullCluster{unwatched: test.unwatched, unreadable: test.unreadable, accepts: test.accepts}
				if test.holder != "" {
					cluster.hold(test.holder)
				}
				var log bytes.Buffer
				config := &rest.Config{Host: "https://east.example:6443", Transport: cluster, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
				p := &process{
					options: env.Agent{Namespace: namespace, LeaderElect: true, Identity: pod},
					own:     config, log: slog.New(slog.NewTextHandler(&log, nil)), clock: time.Now, fence: leader.NewFence(time.Now),
					ready: &readiness{state: &health.State{}},
				}
				if test.later != nil {
					time.AfterFunc(2*time.Minute, func() { test.later(cluster) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), test.after)
				defer cancel()
				if err := p.lead(ctx, func(ctx context.Context) error {
					p.ready.leading()
					<-ctx.Done()
					return nil
				}); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if ready, reason := p.ready.state.Ready(); ready != test.ready || !strings.Contains(reason, test.reason) {
					t.Errorf("ready %t: %s; want %t: %s", ready, reason, test.ready, test.reason)
				}
				if !strings.Contains(log.String(), test.logged) {
					t.Errorf("the log does not contain %q:\n%s", test.logged, log.String())
				}
				if n := strings.Count(log.String(), "level=ERROR"); n > 2 {
					t.Errorf("%d errors in the log, want one for each cause:\n%s", n, log.String())
				}
			})
		})
	}
}
