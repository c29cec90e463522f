package leader

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

// leases is an API server that knows one Lease.
type leases struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	broken  bool
	holders []string    // in the order in which they took or released it
	events  chan string // types of events to send to a watch
	told    func(holder string)
}

func (l *leases) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") != "" {
		l.watch(w, r)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.broken:
		kubetest.Answer(w, http.StatusInternalServerError, status("broken"))
	case r.Method == http.MethodGet && l.lease == nil:
		kubetest.Answer(w, http.StatusNotFound, status(metav1.StatusReasonNotFound))
	case r.Method == http.MethodGet:
		kubetest.Answer(w, http.StatusOK, l.lease)
	default:
		var next coordinationv1.Lease
		if err := json.NewDecoder(r.Body).Decode(&next); err != nil {
			kubetest.Answer(w, http.StatusBadRequest, status(metav1.StatusReasonBadRequest))
			return
		}
		if l.lease != nil && next.ResourceVersion != l.lease.ResourceVersion {
			kubetest.Answer(w, http.StatusConflict, status(metav1.StatusReasonConflict))
			return
		}
		l.note(&next)
		kubetest.Answer(w, http.StatusOK, l.lease)
	}
}

// watch sends the lease as it is with each event that the test tells, or nothing.
func (l *leases) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case event := <-l.events:
			l.mu.Lock()
			lease := l.lease
			if lease == nil {
				lease = heldByAnother() // what is deleted is sent as it was
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"type": event, "object": lease})
			l.mu.Unlock()
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (l *leases) note(next *coordinationv1.Lease) {
	holder, before := "", ""
	if next.Spec.HolderIdentity != nil {
		holder = *next.Spec.HolderIdentity
	}
	if l.lease != nil && l.lease.Spec.HolderIdentity != nil {
		before = *l.lease.Spec.HolderIdentity
	}
	if holder != before {
		l.holders = append(l.holders, strings.SplitN(holder, "_", 2)[0])
		if l.told != nil {
			l.told(l.holders[len(l.holders)-1])
		}
	}
	next.ResourceVersion += "1"
	l.lease = next
}

func (l *leases) setBroken(broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = broken
}

func (l *leases) history() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.holders, " ")
}

func status(reason metav1.StatusReason) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: reason}
}

func election(t *testing.T, l *leases, identity string) Options {
	t.Helper()
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	return Options{
		Config: &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, Namespace: "system", Name: "lock", Identity: identity,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 50 * time.Millisecond,
	}
}

// untilDone is work that says when it began and ends with its context.
func untilDone(began chan<- struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	}
}

func TestLead_ReleasesTheLeaseAfterTheWork(t *testing.T) {
	l := &leases{}
	ctx, cancel := context.WithCancel(t.Context())
	began := make(chan struct{})
	var duringStop string
	ended := make(chan error)
	go func() {
		ended <- Lead(ctx, election(t, l, "one"), func(ctx context.Context) error {
			err := untilDone(began)(ctx)
			duringStop = l.history()
			return err
		})
	}()
	<-began
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("being told to stop is no error: %v", err)
	}
	if duringStop != "one" {
		t.Errorf("while the work was ending the lease went %q", duringStop)
	}
	if got := l.history(); got != "one " {
		t.Errorf("the lease went %q, want it released", got)
	}
}

func TestLead_NextReplicaLeadsAfterTheRelease(t *testing.T) {
	l := &leases{}
	handOver(t, election(t, l, "one"), election(t, l, "two"))
	if got := l.history(); got != "one  two " {
		t.Errorf("the lease went %q", got)
	}
}

// handOver lets one lead while another stands by, and then the other.
func handOver(t *testing.T, first, second Options) {
	t.Helper()
	standby := make(chan struct{})
	second.OnStandby = sync.OnceFunc(func() { close(standby) })
	ctx, cancel := context.WithCancel(t.Context())
	firstBegan, secondBegan := make(chan struct{}), make(chan struct{})
	firstEnded, secondEnded := make(chan error), make(chan error)
	go func() { firstEnded <- Lead(ctx, first, untilDone(firstBegan)) }()
	<-firstBegan
	secondCtx, cancelSecond := context.WithCancel(t.Context())
	go func() { secondEnded <- Lead(secondCtx, second, untilDone(secondBegan)) }()
	<-standby
	select {
	case <-secondBegan:
		t.Fatal("two lead at a time")
	default:
	}
	cancel()
	if err := <-firstEnded; err != nil {
		t.Error(err)
	}
	<-secondBegan
	cancelSecond()
	if err := <-secondEnded; err != nil {
		t.Error(err)
	}
}

func TestLead_ReturnsTheErrorOfTheWorkOrErrLeaseLost(t *testing.T) {
	failure := errors.New("no CRDs")
	tests := map[string]struct {
		run   func(l *leases) func(context.Context) error
		renew time.Duration // at the latest; empty: whenever it comes to it
		want  error
	}{
		"work fails: its error": {
			run:  func(*leases) func(context.Context) error { return func(context.Context) error { return failure } },
			want: failure,
		},
		"work is done: no error": {
			run: func(*leases) func(context.Context) error { return func(context.Context) error { return nil } },
		},
		"lease cannot be renewed: ErrLeaseLost": {
			run: func(l *leases) func(context.Context) error {
				return func(ctx context.Context) error {
					l.setBroken(true)
					<-ctx.Done()
					return ctx.Err()
				}
			},
			renew: 500 * time.Millisecond, // so that it can be lost here
			want:  ErrLeaseLost,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := &leases{}
			o := election(t, l, "one")
			if test.renew > 0 {
				o.LeaseDuration, o.RenewDeadline = 2*test.renew, test.renew
			}
			err := Lead(t.Context(), o, test.run(l))
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestLead_CanceledOnStandbyReturnsNoError(t *testing.T) {
	l := &leases{}
	waiting := election(t, l, "two")
	ctx, cancel := context.WithCancel(t.Context())
	waiting.OnStandby = cancel
	l.lease = heldByAnother()
	err := Lead(ctx, waiting, func(context.Context) error { return errors.New("must not run") })
	if err != nil {
		t.Error(err)
	}
	if got := *l.lease.Spec.HolderIdentity; got != "another" {
		t.Errorf("the lease is %s's", got)
	}
}

func TestLead_InvalidDurationsAreAnError(t *testing.T) {
	o := election(t, &leases{}, "one")
	o.RenewDeadline = o.LeaseDuration * 2
	if err := Lead(t.Context(), o, nil); err == nil {
		t.Error("want an error")
	}
}

func TestWithDefaults_IdentitiesOfOneHostDiffer(t *testing.T) {
	o := Options{Identity: "pod"}
	a, b := o.withDefaults(), o.withDefaults()
	if a.Identity == b.Identity || !strings.HasPrefix(a.Identity, "pod_") {
		t.Errorf("identities %s and %s", a.Identity, b.Identity)
	}
	if a.LeaseDuration != DefaultLeaseDuration || a.RenewDeadline != DefaultRenewDeadline || a.RetryPeriod != DefaultRetryPeriod {
		t.Errorf("defaults are %+v", a)
	}
	if (Options{}).withDefaults().Identity == "" {
		t.Error("no identity at all")
	}
}

func TestFreedLease_IsAcquiredAtOnce(t *testing.T) {
	tests := map[string]struct {
		event string
		next  func(*leases)
	}{
		"its holder gives it back": {"MODIFIED", func(l *leases) { l.lease.Spec.HolderIdentity = new(string) }},
		"it is deleted":            {"DELETED", func(l *leases) { l.lease = nil }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := &leases{lease: heldByAnother(), events: make(chan string)}
			o := election(t, l, "two")
			o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 3*time.Hour, 2*time.Hour, time.Hour // nothing comes by waiting
			standby, began := make(chan struct{}), make(chan struct{})
			o.OnStandby = sync.OnceFunc(func() { close(standby) })
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- Lead(ctx, o, untilDone(began)) }()
			<-standby
			l.events <- "ADDED" // it is still held
			l.mu.Lock()
			test.next(l)
			l.mu.Unlock()
			l.events <- test.event
			<-began
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFreedTurn_DoesNotBegin(t *testing.T) {
	o := Options{Name: "lock", RetryPeriod: time.Hour}.withDefaults()
	freed, leading := newAttempt(t.Context(), nil, o), newAttempt(t.Context(), nil, o)
	freed.free()
	if freed.begin() || !freed.ended() {
		t.Error("the attempt was ended, and begins")
	}
	if !leading.begin() {
		t.Error("the attempt does not begin")
	}
	leading.free()
	if leading.ctx.Err() != nil || leading.ended() {
		t.Error("the lease looked free for a moment, and who leads was stopped")
	}
}

func heldByAnother() *coordinationv1.Lease {
	holder, now, hour := "another", metav1.NewMicroTime(time.Now()), int32(3600)
	return &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "lock", ResourceVersion: "1"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, AcquireTime: &now, RenewTime: &now, LeaseDurationSeconds: &hour},
	}
}
