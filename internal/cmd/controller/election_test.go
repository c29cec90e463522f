package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/health"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/leader"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// fullHub is an API server that contains Leases, refuses watches, and refuses writes of some of them.
type fullHub struct {
	mu      sync.Mutex
	leases  map[string]*coordinationv1.Lease
	refuses func(lease string) bool
}

func (h *fullHub) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := path.Base(r.URL.Path)
	lease := &coordinationv1.Lease{}
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(lease); err != nil {
			return nil, err
		}
		name = lease.Name
	}
	switch {
	case r.URL.Query().Get("watch") != "":
		return refusal(http.StatusForbidden, metav1.StatusReasonForbidden, "no watches")
	case r.Method == http.MethodGet && h.leases[name] == nil:
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "not found")
	case r.Method == http.MethodGet:
		return response(http.StatusOK, h.leases[name])
	case h.refuses(name):
		return refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcdserver: mvcc: database space exceeded")
	}
	h.leases[name] = lease
	return response(http.StatusOK, lease)
}

func refusal(code int32, reason metav1.StatusReason, message string) (*http.Response, error) {
	return response(int(code), &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	})
}

func response(code int, object any) (*http.Response, error) {
	if lease, ok := object.(*coordinationv1.Lease); ok {
		lease.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	}
	body, err := json.Marshal(object)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body))}, err
}

func TestLeaseThatCannotBeWritten_ControllerIsNotReadyAndLogsTheCause(t *testing.T) {
	const full = "etcdserver: mvcc: database space exceeded"
	const command = "kubectl annotate --overwrite -n cattle-fleet-system leases.coordination.k8s.io "
	const pod, other = "fleet-controller-67c6bbb6d9-6448l", "fleet-controller-67c6bbb6d9-abcde"
	every := func(string) bool { return true }
	last := func(lease string) bool { return lease == names.ControllerLease }
	tests := map[string]struct {
		holder  string // has just renewed the Leases
		refuses func(lease string) bool
		accepts time.Duration // when the hub accepts writes again
		after   time.Duration
		ready   bool
		reasons []string
		errors  int
	}{
		"held by another replica, not expired": {holder: other, refuses: every, after: 10 * time.Second, ready: true, reasons: []string{"standing by"}},
		"held by another replica, expired":     {holder: other, refuses: every, after: 2 * time.Minute, reasons: []string{full, command + names.CleanupLease}, errors: 1},
		"held by an earlier process of this pod, not expired": {
			holder: pod + "_abcdefghijklmnopqrstuvwxyz", refuses: every, accepts: -1, after: 500 * time.Millisecond, ready: true, reasons: []string{"leading"},
		},
		"no Lease exists":                               {refuses: every, after: time.Minute, reasons: []string{full, command + names.CleanupLease}, errors: 1},
		"only the last Lease cannot be written":         {refuses: last, after: time.Minute, reasons: []string{full, command + names.ControllerLease}, errors: 1},
		"hub accepts writes again: the replica leads":   {refuses: every, accepts: time.Minute, after: 2 * time.Minute, ready: true, reasons: []string{"leading"}, errors: 1},
		"hub refuses the renewals of a leading replica": {refuses: every, accepts: -1, after: 10 * time.Second, ready: true, reasons: []string{"leading"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				server := &fullHub{leases: map[string]*coordinationv1.Lease{}, refuses: func(lease string) bool {
					switch {
					case test.accepts > 0:
						return time.Since(began) < test.accepts && test.refuses(lease)
					case test.accepts < 0:
						return time.Since(began) > time.Second && test.refuses(lease)
					}
					return test.refuses(lease)
				}}
				for _, lease := range []string{names.CleanupLease, names.DeliveryLease, names.ControllerLease} {
					if holder, now, seconds := test.holder, metav1.NowMicro(), int32(45); holder != "" {
						server.leases[lease] = &coordinationv1.Lease{
							ObjectMeta: metav1.ObjectMeta{Namespace: names.SystemNamespace, Name: lease},
							Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
						}
					}
				}
				var log bytes.Buffer
				state := &health.State{}
				config := &rest.Config{Host: "https://hub.example:6443", Transport: server, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
				ctx, cancel := context.WithTimeout(t.Context(), test.after)
				defer cancel()
				err := leader.Lead(ctx, election(hub.Options{
					Own: kube.Own{Config: config}, Env: env.Controller{Namespace: names.SystemNamespace, Identity: pod},
					Log: slog.New(slog.NewTextHandler(&log, nil)),
				}, state), func(ctx context.Context) error {
					state.SetReady(true, "leading")
					<-ctx.Done()
					return nil
				})
				if err != nil {
					t.Error(err)
				}
				synctest.Wait()
				ready, reason := state.Ready()
				for _, part := range test.reasons {
					if ready != test.ready || !strings.Contains(reason, part) {
						t.Errorf("ready %t: %s; want %t: %s", ready, reason, test.ready, part)
					}
				}
				if n := strings.Count(log.String(), "level=ERROR"); n != test.errors || n > 0 && !strings.Contains(log.String(), full) {
					t.Errorf("%d errors in the log, want %d with the cause:\n%s", n, test.errors, log.String())
				}
			})
		})
	}
}
