package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

// several is an API server that knows some Leases, each of which can be broken by itself.
type several struct {
	byName map[string]*leases

	mu  sync.Mutex
	log []string // "<lease> <holder>", in order
}

func newSeveral(names ...string) *several {
	s := &several{byName: map[string]*leases{}}
	for _, name := range names {
		s.byName[name] = &leases{events: make(chan string), told: func(holder string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.log = append(s.log, strings.TrimSpace(name+" "+holder))
		}}
	}
	return s
}

func (s *several) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		kubetest.Answer(w, http.StatusBadRequest, status(metav1.StatusReasonBadRequest))
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var sent coordinationv1.Lease
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	switch {
	case name != "":
	case r.Method == http.MethodPost:
		_ = json.Unmarshal(body, &sent)
		name = sent.Name
	default:
		name = path.Base(r.URL.Path)
	}
	one, known := s.byName[name]
	if !known {
		kubetest.Answer(w, http.StatusForbidden, status(metav1.StatusReasonForbidden))
		return
	}
	one.ServeHTTP(w, r)
}

func (s *several) history() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// hold lets somebody hold a lease that runs out after so many seconds.
func (s *several) hold(name, identity string, seconds int32) {
	lease := heldByAnother()
	lease.Name = name
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &identity, &seconds
	s.byName[name].lease = lease
}

// giveBack frees a lease, and tells those who watch it.
func (s *several) giveBack(name string) {
	one := s.byName[name]
	one.mu.Lock()
	one.lease.Spec.HolderIdentity = new(string)
	one.mu.Unlock()
	one.events <- "MODIFIED"
}

// candidate wants all of the leases first, second and last.
func candidate(t *testing.T, s *several, identity string) Options {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return Options{
		Config:    &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		Namespace: "system", Before: []string{"first", "second"}, Name: "last", Identity: identity,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 50 * time.Millisecond,
	}
}

func TestSeveralLeases_AreAcquiredAndReleasedInOrder(t *testing.T) {
	s := newSeveral("first", "second", "last")
	ctx, cancel := context.WithCancel(t.Context())
	began, ended := make(chan struct{}), make(chan error)
	o := candidate(t, s, "one")
	var log lockedBuffer
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	var duringStop []string
	go func() {
		ended <- Lead(ctx, o, func(ctx context.Context) error {
			err := untilDone(began)(ctx)
			duringStop = s.history()
			return err
		})
	}()
	<-began
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("being told to stop is no error: %v", err)
	}
	taken := []string{"first one", "second one", "last one"}
	if diff := cmp.Diff(taken, duringStop); diff != "" {
		t.Errorf("until the work had ended (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(append(taken, "last", "second", "first"), s.history()); diff != "" {
		t.Errorf("in the end (-want +got):\n%s", diff)
	}
	if said := strings.Count(log.String(), "msg=leading"); said != 1 {
		t.Errorf("it is said %d times who leads:\n%s", said, log.String())
	}
}

// An old controller is up to three processes, which hold one lease each.
func TestLeaseHeldByAnother_NoReplicaWorks(t *testing.T) {
	for _, held := range []string{"first", "second", "last"} {
		t.Run(held, func(t *testing.T) {
			s := newSeveral("first", "second", "last")
			s.hold(held, "an-old-controller", 3600)
			o := candidate(t, s, "one")
			o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 3*time.Hour, 2*time.Hour, time.Hour // nothing comes by waiting
			standby, began, ended := make(chan struct{}), make(chan struct{}), make(chan error)
			o.OnStandby = sync.OnceFunc(func() { close(standby) })
			ctx, cancel := context.WithCancel(t.Context())
			go func() { ended <- Lead(ctx, o, untilDone(began)) }()
			<-standby
			select {
			case <-began:
				t.Fatal("two work at a time")
			default:
			}
			s.giveBack(held)
			<-began
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOneOfSeveralLeasesIsLost_LeadershipEnds(t *testing.T) {
	for _, lost := range []string{"first", "second", "last"} {
		t.Run(lost, func(t *testing.T) {
			kubetest.Patiently(t, 500*time.Millisecond, func(deadline time.Duration) error { return loseOne(t, lost, deadline) })
		})
	}
}

// loseOne leads until one of the leases cannot be renewed, and expects that the others are given back.
func loseOne(t *testing.T, lost string, deadline time.Duration) error {
	t.Helper()
	s := newSeveral("first", "second", "last")
	o := candidate(t, s, "one")
	o.LeaseDuration, o.RenewDeadline = 2*deadline, deadline
	err := Lead(t.Context(), o, func(ctx context.Context) error {
		s.byName[lost].setBroken(true)
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, ErrLeaseLost) {
		return fmt.Errorf("it ended with %w", err)
	}
	for name, one := range s.byName {
		if want := map[bool]string{true: "one", false: "one "}[name == lost]; one.history() != want {
			return fmt.Errorf("lease %s went %q, want %q", name, one.history(), want)
		}
	}
	return nil
}

func TestSeveralLeases_NextReplicaAcquiresAll(t *testing.T) {
	s := newSeveral("first", "second", "last")
	handOver(t, candidate(t, s, "one"), candidate(t, s, "two"))
	want := []string{
		"first one", "second one", "last one", "last", "second", "first",
		"first two", "second two", "last two", "last", "second", "first",
	}
	if diff := cmp.Diff(want, s.history()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The killed replica has released none of its leases.
func TestKilledReplica_SuccessorWaitsForOneExpiry(t *testing.T) {
	s := newSeveral("first", "second", "last")
	killed := Options{Identity: "one"}.withDefaults().Identity
	s.hold("first", killed, 1)
	s.hold("second", killed, 3600)
	s.hold("last", killed, 3600)
	ctx, cancel := context.WithCancel(t.Context())
	began, ended := make(chan struct{}), make(chan error)
	go func() { ended <- Lead(ctx, candidate(t, s, "two"), untilDone(began)) }()
	<-began
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"first two", "second two", "last two", "last", "second", "first"}, s.history()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLeaseOfAnEarlierProcessOfThePod_IsAcquiredBeforeItExpires(t *testing.T) {
	const pod = "fleet-controller-67c6bbb6d9-6448l"
	tests := map[string]struct {
		holder string
		waits  bool
	}{
		"an earlier process of this pod":                {pod + "_abc", false},
		"another pod":                                   {"fleet-controller-67c6bbb6d9-abcde_abc", true},
		"a pod whose name begins with that of this pod": {pod + "2_abc", true},
		"a process whose identity is the pod's name":    {pod, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSeveral("first", "second", "last")
			for _, lease := range []string{"first", "second", "last"} {
				s.hold(lease, test.holder, 3600)
			}
			o := candidate(t, s, pod)
			o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 3*time.Hour, 2*time.Hour, time.Hour // nothing comes by waiting
			o.Predecessors = EarlierProcesses(pod, "fleet-controller")
			standby, began, ended := make(chan struct{}), make(chan struct{}), make(chan error)
			o.OnStandby = sync.OnceFunc(func() { close(standby) })
			ctx, cancel := context.WithCancel(t.Context())
			go func() { ended <- Lead(ctx, o, untilDone(began)) }()
			waits := false
			select {
			case <-began:
			case <-standby:
				waits = true
			}
			cancel()
			if err := <-ended; err != nil || waits != test.waits {
				t.Errorf("waits: %t, want %t; error %v", waits, test.waits, err)
			}
		})
	}
}

func TestEarlierProcesses_AreKnownOnlyInAPodOfTheDeployment(t *testing.T) {
	for pod, want := range map[string]string{
		"fleet-agent-67c6bbb6d9-6448l": "fleet-agent-67c6bbb6d9-6448l_",
		"fleet-agent":                  "",
		"my-laptop":                    "",
		"":                             "",
	} {
		if got := EarlierProcesses(pod, "fleet-agent"); got != want {
			t.Errorf("in %q: %q, want %q", pod, got, want)
		}
	}
}

func TestPredecessor(t *testing.T) {
	one, two := Options{Identity: "one"}.withDefaults().Identity, Options{Identity: "two"}.withDefaults().Identity
	foreign := "pod_7a73dae2-ffbc-4889-b616-1e241e62aa26"
	tests := map[string]struct {
		holders []string // of the first lease
		is      string
		want    bool
	}{
		"the holder of the first lease":                      {[]string{one}, one, true},
		"another replica":                                    {[]string{one}, two, false},
		"an earlier holder":                                  {[]string{one, two}, one, false},
		"predecessor has released the first lease":           {[]string{one, ""}, one, false},
		"a host name may belong to several processes":        {[]string{"fleet-controller-5d8f"}, "fleet-controller-5d8f", false},
		"identity of another program":                        {[]string{foreign}, foreign, false},
		"a lease without a holder belongs to no predecessor": {nil, "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := &predecessor{}
			for _, holder := range test.holders {
				p.saw(holder)
			}
			if got := p.is(test.is); got != test.want {
				t.Errorf("predecessor: %t", got)
			}
		})
	}
}

// A replica whose first lease was deleted may still work with the others.
func TestDeletedFirstLease_OthersAreNotInherited(t *testing.T) {
	s := newSeveral("first")
	holder := Options{Identity: "one"}.withDefaults().Identity
	s.hold("first", holder, 3600)
	o := candidate(t, s, "two").withDefaults()
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		t.Fatal(err)
	}
	first := &inherited{predecessor: o.predecessor, expiry: &expiry{}, first: true, Interface: &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "system", Name: "first"}, Client: client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
	}}
	if _, _, err := first.Get(t.Context()); err != nil || !o.predecessor.is(holder) {
		t.Fatalf("error %v, predecessor %q", err, o.predecessor.identity)
	}
	s.byName["first"].lease = nil
	if _, _, err := first.Get(t.Context()); !apierrors.IsNotFound(err) || o.predecessor.is(holder) {
		t.Errorf("error %v, predecessor %q", err, o.predecessor.identity)
	}
}

// lockedBuffer is written by several goroutines.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
