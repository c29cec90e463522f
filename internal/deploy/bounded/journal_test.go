package bounded

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	"github.com/fleet-hub/fleet/internal/deploy/placement"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// pod is where the processes of one pod follow each other.
type pod struct {
	t   *testing.T
	dir string
	// killed is closed at the end of the test, and ends what the processes have rendered until then.
	killed chan struct{}
}

func newPod(t *testing.T) *pod {
	t.Helper()
	p := &pod{t: t, dir: filepath.Join(t.TempDir(), "journal"), killed: make(chan struct{})}
	t.Cleanup(func() { close(p.killed) })
	return p
}

func (p *pod) process() *Renderings {
	return New(Options{Agent: own, Journal: p.dir, Clock: time.Now, Log: slog.New(slog.DiscardHandler)})
}

// render begins a rendering that does not end before the test, as if the process were killed meanwhile. The result is closed
// when it runs.
func (p *pod) render(r *Renderings, set placement.Set, release placement.Release, deployment string) (running chan struct{}) {
	return p.renderAs("", r, set, release, deployment)
}

// renderAs is render for a service account.
func (p *pod) renderAs(account string, r *Renderings, set placement.Set, release placement.Release, deployment string) (running chan struct{}) {
	running = make(chan struct{})
	go func() {
		_, _ = r.Render(set, account, release, deployment, func() (map[string]string, error) {
			close(running)
			<-p.killed
			return nil, nil
		})
	}()
	synctest.Wait()
	return running
}

func runs(running chan struct{}) bool {
	select {
	case <-running:
		return true
	default:
		return false
	}
}

// rendered renders something that ends at once.
func rendered(r *Renderings, set placement.Set, release placement.Release, deployment string) error {
	_, err := r.Render(set, "", release, deployment, func() (map[string]string, error) { return nil, nil })
	return err
}

func TestRenderingThatEndsProcesses_IsRefusedForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPod(t)
		for attempt := range mostEnded {
			if !runs(p.render(p.process(), users, web, "1")) {
				t.Fatalf("attempt %d did not run", attempt)
			}
		}
		last := p.process()
		err := rendered(last, users, web, "1")
		if err == nil || !strings.Contains(err.Error(), "has ended 3 times") || outcome.ReasonOf(err) != conditions.ReasonRenderingFailed {
			t.Errorf("error %v, want that the process has ended three times", err)
		}
		if err := rendered(last, users, web, "2"); err != nil {
			t.Errorf("another deployment of the release: %v", err)
		}
		<-time.After(refusal)
		if err := rendered(last, users, web, "1"); err != nil {
			t.Errorf("after an hour: %v", err)
		}
		if err := rendered(p.process(), users, web, "1"); err != nil {
			t.Errorf("in the next process, after a success: %v", err)
		}
	})
}

// Templates are rendered before each kustomization, and must not hide what that does.
func TestKustomizationThatEndsProcesses_IsRefusedAlthoughItsTemplatesRender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPod(t)
		templates := func(r *Renderings) {
			if err := rendered(r, users, web, "1"); err != nil {
				t.Errorf("the templates: %v", err)
			}
		}
		for range mostEnded {
			r := p.process()
			templates(r)
			go func() {
				_ = r.Run(users, "", web, "1", func() error {
					<-p.killed
					return nil
				})
			}()
			synctest.Wait()
		}
		last := p.process()
		templates(last)
		if err := last.Run(users, "", web, "1", func() error { return nil }); err == nil || !strings.Contains(err.Error(), "has ended 3 times") {
			t.Errorf("the kustomization: error %v, want that the process has ended three times", err)
		}
	})
}

// What waits for a place is not rendered, and a wait without success forgets nothing.
func TestRenderingThatWaits_IsNotBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPod(t)
		p.render(p.process(), users, web, "1")
		full := p.process()
		for i := range perAccount {
			p.render(full, users, placement.Release{Namespace: "other", Name: strconv.Itoa(i)}, "1")
		}
		waiting := p.render(full, users, web, "1")
		<-time.After(Limit) // it gives up
		synctest.Wait()
		if runs(waiting) {
			t.Fatal("it does not wait")
		}
		if got := p.process().journal.endedDuring(web, "1"); got != 1 {
			t.Errorf("%d processes are said to have ended, want 1", got)
		}
	})
}

func TestRenderingsThatWereInterrupted_RunOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, shop := newPod(t), placement.Release{Namespace: "shop", Name: "shop"}
		first := p.process()
		p.render(first, users, web, "1")
		p.render(first, users, shop, "1")
		next := p.process()
		if !runs(p.render(next, users, web, "1")) {
			t.Error("the first does not run")
		}
		other := p.render(next, users, shop, "1")
		if runs(other) {
			t.Error("both run at the same time")
		}
		if err := rendered(next, users, placement.Release{Namespace: "x", Name: "x"}, "1"); err != nil {
			t.Errorf("one that was not interrupted: %v", err)
		}
		<-time.After(Limit) // the first may be endless
		synctest.Wait()
		if !runs(p.render(next, users, shop, "1")) {
			t.Error("the other does not run after the first was left running")
		}
	})
}

// Each endless rendering keeps the place of those that were interrupted for the time limit.
func TestInterruptedRenderingsOfOneAccount_KeepOthersWaitingForOneOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPod(t)
		first := p.process()
		endless := func(i int) placement.Release { return placement.Release{Namespace: "endless", Name: strconv.Itoa(i)} }
		for i := range 3 {
			p.renderAs("endless", first, users, endless(i), "1")
		}
		p.renderAs("other", first, users, web, "1")
		next := p.process()
		for i := range 3 {
			p.renderAs("endless", next, users, endless(i), "1")
			<-time.After(time.Second)
		}
		other := p.renderAs("other", next, users, web, "1")
		if runs(other) {
			t.Fatal("two interrupted renderings run at the same time")
		}
		for i := range perAccount - 1 { // those that wait occupy no place
			if !runs(p.renderAs("endless", next, users, placement.Release{Namespace: "healthy", Name: strconv.Itoa(i)}, "1")) {
				t.Error("a rendering that was not interrupted has no place")
			}
		}
		<-time.After(Limit - 3*time.Second) // the first endless one ends waiting
		synctest.Wait()
		if !runs(other) {
			t.Error("it waits for a second one of the same account")
		}
	})
}

func TestClosedRenderings_HaveNotEndedTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPod(t)
		p.render(p.process(), users, web, "1")
		for range mostEnded {
			r := p.process()
			p.render(r, users, web, "1")
			r.Close()
		}
		last := p.process()
		if got := last.journal.endedDuring(web, "1"); got != 1 {
			t.Errorf("%d processes are said to have ended, want the one that was not closed", got)
		}
		if err := rendered(last, users, web, "1"); err != nil {
			t.Error(err)
		}
	})
}

func TestOwnBundle_IsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPod(t)
		for range mostEnded {
			p.render(p.process(), own, web, "1")
		}
		if err := rendered(p.process(), own, web, "1"); err != nil {
			t.Error(err)
		}
	})
}

func TestUnreadableEntries_AreRemoved(t *testing.T) {
	p := newPod(t)
	p.process()
	for name, content := range map[string]string{"empty": "", "forged": `{"release":"web/web","deployment":"1","ended":9}`} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := p.process()
	if files, err := os.ReadDir(p.dir); err != nil || len(files) > 0 {
		t.Errorf("%d files remain, error %v", len(files), err)
	}
	if err := rendered(r, users, web, "1"); err != nil {
		t.Error(err)
	}
}

func TestDirectoryThatCannotBeWritten_RecordsNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := New(Options{Agent: own, Journal: filepath.Join(file, "journal"), Clock: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err := rendered(r, users, web, "1"); err != nil {
		t.Error(err)
	}
}
