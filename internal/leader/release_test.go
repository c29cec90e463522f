package leader

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

// unrenewable is an API server on which renewals fail while the lease can be read and released.
type unrenewable struct {
	overloaded
	renew atomic.Pointer[renewing] // nil renews
}

type renewing func(request *http.Request) (*http.Response, error)

func (u *unrenewable) renews(as renewing) { u.renew.Store(&as) }

func (u *unrenewable) RoundTrip(request *http.Request) (*http.Response, error) {
	renew := u.renew.Load()
	if request.Method != http.MethodPut || renew == nil {
		return u.overloaded.RoundTrip(request)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	var sent coordinationv1.Lease
	if err := json.Unmarshal(body, &sent); err != nil {
		return nil, err
	}
	if *sent.Spec.HolderIdentity != "" {
		return (*renew)(request)
	}
	request.Body = io.NopCloser(strings.NewReader(string(body)))
	return u.overloaded.RoundTrip(request)
}

func (u *unrenewable) election(identity string) Options {
	o := u.overloaded.election(identity)
	o.Config.Transport = u
	return o
}

func refuse(*http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	kubetest.Answer(answer, http.StatusInternalServerError, status(metav1.StatusReasonInternalError))
	return answer.Result(), nil
}

func TestLostLease_IsReleasedOnlyAfterTheWork(t *testing.T) {
	tests := map[string]struct {
		works   time.Duration // after the end of its context
		history string
	}{
		"the work ends soon: released afterwards": {works: stopGrace - time.Second, history: "one "},
		"the work does not end: not released":     {works: time.Hour, history: "one"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &unrenewable{}
				one := server.election("one")
				began := time.Now()
				err := Lead(t.Context(), one, func(ctx context.Context) error {
					server.renews(refuse)
					<-ctx.Done()
					if after := time.Since(began); after > chartRetry+chartDeadline+time.Second {
						t.Errorf("the work was canceled after %s", after)
					}
					<-time.After(test.works)
					if got := server.history(); got != "one" {
						t.Errorf("while the work was ending, the lease went %q", got)
					}
					if err := one.Fence.check(http.MethodPut); !errors.Is(err, ErrLeaseLost) {
						t.Errorf("a write of the lost lease: %v", err)
					}
					return ctx.Err()
				})
				if !errors.Is(err, ErrLeaseLost) {
					t.Errorf("error %v", err)
				}
				<-time.After(2 * test.works)
				if got := server.history(); got != test.history {
					t.Errorf("in the end, the lease went %q, want %q", got, test.history)
				}
			})
		})
	}
}

func TestWorkOfSeveralLeasesDoesNotEnd_NoneIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &unrenewable{}
		outer := server.election("one").withDefaults()
		err := lead(t.Context(), outer, func(context.Context) error { return errors.Join(ErrLeaseLost, errNotEnded) })
		if got := server.history(); !errors.Is(err, ErrLeaseLost) || got != "one" {
			t.Errorf("error %v, the lease went %q", err, got)
		}
	})
}

func TestFrozenRenewal_SuccessorKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &unrenewable{}
		err := Lead(t.Context(), server.election("one"), func(ctx context.Context) error {
			server.renews(func(request *http.Request) (*http.Response, error) {
				<-time.After(chartDeadline + time.Second) // frozen: the context has ended, too
				if server.history() == "one" {
					server.mu.Lock()
					defer server.mu.Unlock()
					next := server.lease.DeepCopy()
					*next.Spec.HolderIdentity = "two"
					server.note(next)
				}
				return nil, request.Context().Err()
			})
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, ErrLeaseLost) {
			t.Errorf("error %v", err)
		}
		if got := server.history(); got != "one two" {
			t.Errorf("the lease went %q", got)
		}
	})
}

func TestReleasedLease_RefusesWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &unrenewable{}
		one := server.election("one")
		if err := Lead(t.Context(), one, func(context.Context) error { return one.Fence.check(http.MethodPut) }); err != nil {
			t.Fatal(err)
		}
		if got := server.history(); got != "one " {
			t.Errorf("the lease went %q", got)
		}
		if err := one.Fence.check(http.MethodPut); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("a write after the release: %v", err)
		}
	})
}
