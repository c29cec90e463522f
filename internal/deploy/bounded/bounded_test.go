package bounded

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

var (
	web        = placement.Release{Namespace: "web", Name: "web"}
	own, users = placement.AgentSet(""), placement.SetOf("web", "")
)

// limited returns Renderings that are not recorded.
func limited(stopped <-chan struct{}) *Renderings {
	return New(Options{Stopped: stopped, Agent: own, Clock: time.Now, Log: slog.New(slog.DiscardHandler)})
}

// expectTooLong fails the test unless the error tells the user about an endless template.
func expectTooLong(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || outcome.ReasonOf(err) != conditions.ReasonRenderingFailed {
		t.Errorf("error %v, want %q with reason %s", err, want, conditions.ReasonRenderingFailed)
	}
}

func TestRender_ReturnsTheResult(t *testing.T) {
	failure := errors.New("no good")
	for name, r := range map[string]*Renderings{"limited": limited(nil), "without a limit": nil} {
		t.Run(name, func(t *testing.T) {
			for range 2 * mostLeft { // those that end do not count
				rendered, err := r.Render(users, "", web, "1", func() (map[string]string, error) { return map[string]string{"a": "b"}, failure })
				if rendered["a"] != "b" || !errors.Is(err, failure) {
					t.Errorf("rendered %v, error %v", rendered, err)
				}
			}
		})
	}
}

func TestPanic_IsAnError(t *testing.T) {
	if _, err := limited(nil).Render(users, "", web, "1", func() (map[string]string, error) { panic("boom") }); err == nil || err.Error() != "panic: boom" {
		t.Errorf("error %v", err)
	}
}

func TestEndlessTemplates_DoNotKeepTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, endless := limited(nil), make(chan struct{})
		render := func(release placement.Release, deployment string) error {
			_, err := r.Render(users, "", release, deployment, func() (map[string]string, error) {
				<-endless
				return nil, nil
			})
			return err
		}
		began := time.Now()
		for i := range mostLeft {
			expectTooLong(t, render(web, fmt.Sprint(i)), "release web/web has not ended within 5m0s")
			if took := time.Since(began); took != time.Duration(i+1)*Limit {
				t.Errorf("the worker is free after %s", took)
			}
			expectTooLong(t, render(web, fmt.Sprint(i)), "release web/web is still being rendered by an earlier attempt")
		}
		expectTooLong(t, render(web, "another"), "by an earlier attempt")
		if took := time.Since(began); took != mostLeft*Limit {
			t.Errorf("repetitions keep the worker: %s", took)
		}
		expectTooLong(t, render(placement.Release{Namespace: "web", Name: "other"}, "1"), "release web/other has not ended within")
		close(endless)
		synctest.Wait()
		if err := render(web, "1"); err != nil || len(r.running) > 0 {
			t.Errorf("after the end: error %v, %d are remembered", err, len(r.running))
		}
	})
}

func TestEndlessTemplatesOfOneAccount_AreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, endless, running := limited(nil), make(chan struct{}), atomic.Int32{}
		render := func(account string, i int) error {
			_, err := r.Render(users, account, placement.Release{Namespace: account, Name: fmt.Sprint(i)}, "1", func() (map[string]string, error) {
				defer running.Add(-1)
				running.Add(1)
				if account == "tenant" {
					<-endless
				}
				return nil, nil
			})
			return err
		}
		const want = "8 renderings of service account tenant have not ended"
		var waiting sync.WaitGroup
		var refused atomic.Int32
		for i := range 50 {
			waiting.Go(func() {
				if err := render("tenant", i); strings.Contains(err.Error(), want) {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		if err := render("other", 0); err != nil || time.Since(began) > 0 || running.Load() != perAccount {
			t.Errorf("another account: error %v after %s, %d are running", err, time.Since(began), running.Load())
		}
		waiting.Wait()
		if took := time.Since(began); took != Limit || refused.Load() != 50-perAccount {
			t.Errorf("%d are refused after %s", refused.Load(), took)
		}
		expectTooLong(t, render("tenant", 50), want)
		if took := time.Since(began); took != Limit {
			t.Errorf("repetitions keep the worker: %s", took)
		}
		close(endless)
		synctest.Wait()
		if err := render("tenant", 50); err != nil || len(r.running)+len(r.accounts) > 0 {
			t.Errorf("after the end: error %v, %d are remembered", err, len(r.running)+len(r.accounts))
		}
	})
}

func TestEndlessTemplatesWithoutAnAccount_LeaveTheAgentsBundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, endless := limited(nil), make(chan struct{})
		var waiting sync.WaitGroup
		for i := range perAccount {
			waiting.Go(func() {
				_, _ = r.Render(users, "", placement.Release{Name: fmt.Sprint(i)}, "1", func() (map[string]string, error) {
					<-endless
					return nil, nil
				})
			})
		}
		synctest.Wait()
		rendered, err := r.Render(own, "", placement.Release{Name: "fleet-agent-east"}, "1", func() (map[string]string, error) { return map[string]string{"a": "b"}, nil })
		if err != nil || rendered["a"] != "b" {
			t.Errorf("rendered %v, error %v", rendered, err)
		}
		close(endless)
		waiting.Wait()
	})
}

func TestStoppingAgent_DoesNotWait(t *testing.T) {
	stopped, endless := make(chan struct{}), make(chan struct{})
	defer close(endless)
	close(stopped)
	_, err := limited(stopped).Render(users, "", web, "1", func() (map[string]string, error) {
		<-endless
		return nil, nil
	})
	if !errors.Is(err, access.ErrStopped) {
		t.Errorf("error %v", err)
	}
}
