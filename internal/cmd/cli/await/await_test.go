package await_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/await"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
)

// Just before its end, the client of an API server refuses a request that it cannot send in time.
func TestRequestThatComesTooLate_IsTheEndOfTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		err := await.Wait{For: "the heartbeat", Timeout: 10 * time.Second}.Until(t.Context(), func(context.Context) (bool, string, error) {
			if looks++; looks > 1 {
				return false, "", fmt.Errorf("reading Cluster: %w", context.DeadlineExceeded)
			}
			return false, "the agent is silent", nil
		})
		const want = "error: waited 10s for the heartbeat\nerror: the agent is silent\n"
		if err == nil || exit.Text(err) != want || exit.CodeOf(err) != exit.Timeout {
			t.Errorf("%v", err)
		}
	})
}

func TestUntil(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		happensAfter int
		fails        error
		interrupt    bool
		code         exit.Code
		text, shown  string
	}{
		"has happened already: no progress": {},
		"happens later":                     {happensAfter: 3, shown: "waiting up to 10s for the heartbeat\n"},
		"does not happen": {
			happensAfter: 100, code: exit.Timeout, shown: "waiting up to 10s for the heartbeat\n",
			text: "error: waited 10s for the heartbeat\nerror: the agent is silent\nfix: fleet doctor\n",
		},
		"fails": {fails: broken, code: exit.Failed, text: "error: broken\n"},
		"interrupted": {
			happensAfter: 100, interrupt: true, code: exit.Failed, shown: "waiting up to 10s for the heartbeat\n",
			text: "error: interrupted while waiting for the heartbeat\nfix: fleet doctor\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.interrupt {
					time.AfterFunc(2*time.Second, cancel)
				}
				var shown bytes.Buffer
				looks := 0
				w := await.Wait{For: "the heartbeat", Timeout: 10 * time.Second, Next: []string{"fleet doctor"}, Progress: &shown}
				err := w.Until(ctx, func(context.Context) (bool, string, error) {
					looks++
					return looks > test.happensAfter, "the agent is silent", test.fails
				})
				text := ""
				if err != nil {
					text = exit.Text(err)
				}
				if diff := cmp.Diff(test.text, text); diff != "" || exit.CodeOf(err) != test.code || shown.String() != test.shown {
					t.Errorf("code %d, progress %q, text (-want +got):\n%s", exit.CodeOf(err), shown.String(), diff)
				}
			})
		})
	}
}

// An API server that restarts answers nothing, or with an error of its own.
func TestErrorThatPasses_DoesNotEndTheWait(t *testing.T) {
	clusters := schema.GroupResource{Group: "fleet.cattle.io", Resource: "clusters"}
	for name, test := range map[string]struct {
		err  error
		code exit.Code
	}{
		"the connection is refused": {&url.Error{Op: "Get", URL: "https://hub", Err: syscall.ECONNREFUSED}, exit.Done},
		"error of the server":       {apierrors.NewInternalError(errors.New("etcdserver: leader changed")), exit.Done},
		"the server is overloaded":  {apierrors.NewTooManyRequests("later", 1), exit.Done},
		"the error is explained":    {access.Explain("reading Cluster", apierrors.NewServiceUnavailable("down")), exit.Done},
		"the right is missing":      {access.Explain("reading Cluster", apierrors.NewForbidden(clusters, "east", nil)), exit.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looks := 0
				w := await.Wait{For: "the heartbeat", Timeout: 10 * time.Second}
				err := w.Until(t.Context(), func(context.Context) (bool, string, error) {
					if looks++; looks < 3 {
						return false, "", test.err
					}
					return true, "", nil
				})
				if exit.CodeOf(err) != test.code {
					t.Errorf("after %d looks: %v", looks, err)
				}
			})
		})
	}
}

// The last request is not cut off, because its error would replace what is known.
func TestLookThatBeginsInTime_IsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := await.Wait{For: "the heartbeat", Timeout: time.Second}
		err := w.Until(t.Context(), func(ctx context.Context) (bool, string, error) {
			select {
			case <-ctx.Done():
				return false, "", ctx.Err()
			case <-time.After(3 * time.Second):
				return false, "the agent is rejected", nil
			}
		})
		if exit.CodeOf(err) != exit.Timeout || !strings.Contains(exit.Text(err), "the agent is rejected") {
			t.Error(exit.Text(err))
		}
	})
}

func TestLookThatHangs_IsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		w := await.Wait{For: "the heartbeat", Timeout: time.Minute}
		err := w.Until(t.Context(), func(ctx context.Context) (bool, string, error) {
			if looks++; looks > 1 {
				return true, "", nil
			}
			<-ctx.Done()
			return false, "", ctx.Err()
		})
		if err != nil || looks != 2 {
			t.Errorf("after %d looks: %v", looks, err)
		}
	})
}
