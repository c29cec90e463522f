package recoveries_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/recoveries"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const system = "cattle-fleet-system"

type world struct {
	*recoveries.Recoveries
	client *fake.Clientset
	now    time.Time
}

func newWorld() *world {
	w := &world{client: fake.NewClientset(), now: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)}
	w.Recoveries = recoveries.New(func() kubernetes.Interface { return w.client }, system, func() time.Time { return w.now })
	return w
}

func account(uid string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "fleet-recovery", UID: types.UID(uid)}}
}

func TestKey_IsCreatedOnceAndKept(t *testing.T) {
	w := newWorld()
	if w.Key().Public() != "" {
		t.Fatal("a key before it was loaded")
	}
	for range 2 {
		if err := w.LoadKey(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	again := recoveries.New(func() kubernetes.Interface { return w.client }, system, time.Now)
	if err := again.LoadKey(t.Context()); err != nil || again.Key().Public() != w.Key().Public() || again.Key().Public() == "" {
		t.Errorf("another start has another key: %v", err)
	}
}

func TestUnusableKey_IsReportedAndKept(t *testing.T) {
	for name, secret := range map[string]*corev1.Secret{
		"another type": {Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"key": []byte("x")}},
		"damaged":      {Type: protocol.SecretTypeHubKey, Data: map[string][]byte{"key": []byte("x")}},
		"empty":        {Type: protocol.SecretTypeHubKey},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			secret.ObjectMeta = metav1.ObjectMeta{Namespace: system, Name: "fleet-hub-key"}
			if err := w.client.Tracker().Add(secret); err != nil {
				t.Fatal(err)
			}
			err := w.LoadKey(t.Context())
			if !errors.Is(err, recoveries.ErrKeyUnusable) || !strings.Contains(err.Error(), "cattle-fleet-system/fleet-hub-key") {
				t.Errorf("error %v", err)
			}
			for _, action := range w.client.Actions() {
				if action.GetVerb() != "get" {
					t.Errorf("request %s", action.GetVerb())
				}
			}
		})
	}
}

func TestData_NeedsKeyAccountAndToken(t *testing.T) {
	w, ctx := newWorld(), t.Context()
	cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c1", Labels: map[string]string{"env": "dev"}}, Spec: fleet.ClusterSpec{ClientID: "client"}}
	expectPending := func(account *corev1.ServiceAccount) {
		t.Helper()
		if _, err := w.Data(ctx, cluster, "key", account); !errors.Is(err, recoveries.ErrPending) {
			t.Fatalf("error %v", err)
		}
	}
	expectPending(account("u1"))
	if err := w.LoadKey(ctx); err != nil {
		t.Fatal(err)
	}
	expectPending(nil)
	if err := w.EnsureToken(ctx, account("u1")); err != nil {
		t.Fatal(err)
	}
	expectPending(account("u1"))
	fill(t, w, "u1")
	got, err := w.Data(ctx, cluster, "key", account("u1"))
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := identity.VerifyTicket(w.Key().Public(), got.Ticket)
	if err != nil || ticket.Cluster != "c1" || ticket.Workspace != "ws" || ticket.ClientID != "client" || ticket.Key != identity.Thumbprint("key") || ticket.Labels["env"] != "dev" || !ticket.Time.Equal(w.now) {
		t.Errorf("ticket %+v, %v", ticket, err)
	}
	if got.Token != hubtest.Token("u1", time.Time{}) || got.HubKey != w.Key().Public() || string(got.WorkspaceKey) != string(w.Key().WorkspaceKey("ws")) {
		t.Error("other data")
	}
	expectPending(account("u2")) // the account was created again, and the token of the old one does not work
	cluster.Labels["large"] = strings.Repeat("x", 1<<15)
	got, err = w.Data(ctx, cluster, "key", account("u1"))
	if err != nil {
		t.Fatal(err)
	}
	if ticket, err := identity.VerifyTicket(w.Key().Public(), got.Ticket); err != nil || len(ticket.Labels) != 0 {
		t.Errorf("labels %d, %v", len(ticket.Labels), err)
	}
}

func TestWorkersThatNeedOneToken_ReadItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		if err := w.EnsureToken(t.Context(), account("u1")); err != nil {
			t.Fatal(err)
		}
		fill(t, w, "u1")
		reads := 0
		w.client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			reads++ // the fake handles one request at a time
			<-time.After(time.Second)
			return false, nil, nil
		})
		var workers sync.WaitGroup
		for range 10 {
			workers.Go(func() {
				if bearer, err := w.Token(t.Context(), account("u1")); err != nil || bearer != hubtest.Token("u1", time.Time{}) {
					t.Errorf("token %q, %v", bearer, err)
				}
				if err := w.EnsureToken(t.Context(), account("u1")); err != nil {
					t.Error(err)
				}
			})
		}
		workers.Wait()
		if reads != 1 {
			t.Errorf("%d reads, want 1", reads)
		}
	})
}

func TestTokenOfADeletedWorkspace_IsForgotten(t *testing.T) {
	w := newWorld()
	if err := w.EnsureToken(t.Context(), account("u1")); err != nil {
		t.Fatal(err)
	}
	fill(t, w, "u1")
	if _, err := w.Token(t.Context(), account("u1")); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("secrets"), "ws", "fleet-recovery-token"); err != nil {
		t.Fatal(err)
	}
	w.Forget("ws")
	if bearer, err := w.Token(t.Context(), account("u1")); !errors.Is(err, recoveries.ErrPending) {
		t.Errorf("token of %d bytes and error %v, want %v", len(bearer), err, recoveries.ErrPending)
	}
}

// fill fills the token Secret as the controller-manager does.
func fill(t *testing.T, w *world, uid string) {
	t.Helper()
	secrets := w.client.CoreV1().Secrets("ws")
	secret, err := secrets.Get(t.Context(), "fleet-recovery-token", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Annotations[corev1.ServiceAccountUIDKey] = uid
	secret.Data = map[string][]byte{"token": []byte(hubtest.Token(uid, time.Time{}))}
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestForeignTokenSecret_IsLeftAlone(t *testing.T) {
	w := newWorld()
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "fleet-recovery-token"}, Type: corev1.SecretTypeServiceAccountToken}
	if err := w.client.Tracker().Add(foreign); err != nil {
		t.Fatal(err)
	}
	if err := w.EnsureToken(t.Context(), account("u1")); !errors.Is(err, recoveries.ErrTaken) {
		t.Errorf("error %v", err)
	}
}

func TestTokenIn_ReturnsOnlyTheAccountsToken(t *testing.T) {
	for name, test := range map[string]struct{ uid, token, want string }{
		"its own token":             {"u1", hubtest.Token("u1", time.Time{}), hubtest.Token("u1", time.Time{})},
		"token of another account":  {"u1", hubtest.Token("u2", time.Time{}), ""},
		"Secret of another account": {"u2", hubtest.Token("u1", time.Time{}), ""},
		"other text":                {"u1", "jwt", ""},
		"not filled":                {"u1", "", ""},
	} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.ServiceAccountNameKey: "fleet-recovery", corev1.ServiceAccountUIDKey: test.uid}},
			Type:       corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte(test.token)},
		}
		if got := recoveries.TokenIn(secret, account("u1")); got != test.want {
			t.Errorf("%s: token %q, want %q", name, got, test.want)
		}
	}
	if got := recoveries.TokenIn(nil, account("u1")); got != "" {
		t.Errorf("token %q without a Secret", got)
	}
}

func TestTokenSecretOfAnEarlierAccount_IsReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		filled bool
		known  string // the account in the caller's cache
		want   types.UID
	}{
		"filled":                       {true, "u2", "u2"},
		"not filled":                   {false, "u2", "u2"},
		"of the current account":       {false, "u1", "u1"},
		"cache has an earlier account": {true, "u0", "u1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, ctx := newWorld(), t.Context()
			if err := w.EnsureToken(ctx, account("u1")); err != nil {
				t.Fatal(err)
			}
			if test.filled {
				fill(t, w, "u1")
			}
			if err := w.client.Tracker().Add(account("u2")); err != nil {
				t.Fatal(err)
			}
			if err := w.EnsureToken(ctx, account(test.known)); errors.Is(err, recoveries.ErrPending) != (test.known == "u0") {
				t.Fatal(err)
			}
			got, err := w.client.CoreV1().Secrets("ws").Get(ctx, "fleet-recovery-token", metav1.GetOptions{})
			if err != nil || got.OwnerReferences[0].UID != test.want {
				t.Errorf("Secret of account %v, want %s, %v", got.OwnerReferences, test.want, err)
			}
		})
	}
}

func TestDeletedCluster_BlocksItsTickets(t *testing.T) {
	w, ctx := newWorld(), t.Context()
	blocked := func(cluster string, at time.Time) bool {
		t.Helper()
		got, err := w.IsBlocked(ctx, identity.Ticket{Workspace: "ws", Cluster: cluster, Key: "k", Time: at})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	start := w.now
	if blocked("c1", start) {
		t.Error("blocked without a deletion")
	}
	for _, cluster := range []string{"c1", "c2", "before"} {
		if err := w.Block(ctx, "ws", cluster, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if !blocked("c1", start.Add(-time.Hour)) || !blocked("c2", start) || blocked("c3", start) {
		t.Error("other tickets are blocked")
	}
	if blocked("c1", start.Add(time.Second)) {
		t.Error("a ticket of the next Cluster with the name is blocked")
	}
	w.now = start.Add(identity.TicketLife + time.Hour) // all these tickets have expired
	if err := w.Block(ctx, "ws", "c4", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if blocked("c1", start.Add(-time.Hour)) {
		t.Error("an expired entry is kept")
	}
	if other, err := w.IsBlocked(ctx, identity.Ticket{Workspace: "ws2", Cluster: "c4", Time: start}); err != nil || other {
		t.Errorf("the ticket of another workspace is blocked: %v", err)
	}
}

func TestDeletedWorkspace_BlocksAllItsTickets(t *testing.T) {
	w, ctx := newWorld(), t.Context()
	for range 2 {
		if err := w.BlockAll(ctx, "ws"); err != nil {
			t.Fatal(err)
		}
	}
	writes := 0
	for _, action := range w.client.Actions() {
		if action.GetVerb() != "get" {
			writes++
		}
	}
	if writes != 1 {
		t.Errorf("%d writes within a second, want 1", writes)
	}
	for name, test := range map[string]struct {
		workspace string
		at        time.Time
		want      bool
	}{
		"signed before the deletion": {"ws", w.now, true},
		"signed after the deletion":  {"ws", w.now.Add(time.Second), false},
		"of another workspace":       {"ws2", w.now, false},
	} {
		if got, err := w.IsBlocked(ctx, identity.Ticket{Workspace: test.workspace, Cluster: "c1", Time: test.at}); err != nil || got != test.want {
			t.Errorf("ticket %s: blocked %t, %v", name, got, err)
		}
	}
}

// After the hub's clock was set back, a deletion must not make tickets valid that an earlier one has blocked.
func TestClockIsSetBack_BlockedTicketsStayBlocked(t *testing.T) {
	for name, again := range map[string]func(*world) error{
		"Cluster is deleted again": func(w *world) error { return w.Block(t.Context(), "ws", "c1", time.Time{}) },
		"workspace is deleted":     func(w *world) error { return w.BlockAll(t.Context(), "ws") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			ahead := w.now
			if err := w.Block(t.Context(), "ws", "c1", time.Time{}); err != nil {
				t.Fatal(err)
			}
			w.now = w.now.Add(-time.Hour)
			if err := again(w); err != nil {
				t.Fatal(err)
			}
			if got, err := w.IsBlocked(t.Context(), identity.Ticket{Workspace: "ws", Cluster: "c1", Time: ahead}); err != nil || !got {
				t.Errorf("blocked %t, %v", got, err)
			}
		})
	}
}

func TestTooManyDeletions_BlockOldTickets(t *testing.T) {
	w, ctx := newWorld(), t.Context()
	start := w.now
	if err := w.Block(ctx, "ws", "last", time.Time{}); err != nil {
		t.Fatal(err)
	}
	only, err := w.client.CoreV1().ConfigMaps(system).List(ctx, metav1.ListOptions{})
	if err != nil || len(only.Items) != 1 {
		t.Fatalf("%d ConfigMaps, %v", len(only.Items), err)
	}
	for i := range 4000 {
		only.Items[0].Data[identity.Thumbprint(fmt.Sprint(i))] = start.Add(time.Duration(i) * time.Second).Format(time.RFC3339)
	}
	if _, err := w.client.CoreV1().ConfigMaps(system).Update(ctx, &only.Items[0], metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.now = start.Add(2 * time.Hour)
	if err := w.Block(ctx, "ws", "last", time.Time{}); err != nil {
		t.Fatal(err)
	}
	maps, err := w.client.CoreV1().ConfigMaps(system).List(ctx, metav1.ListOptions{})
	if err != nil || len(maps.Items) != 1 {
		t.Fatalf("%d ConfigMaps, %v", len(maps.Items), err)
	}
	size := 0
	for key, value := range maps.Items[0].Data {
		size += len(key) + len(value)
	}
	if size > 300<<10 {
		t.Errorf("%d bytes", size)
	}
	for i, want := range map[int]bool{0: true, 3999: true} {
		got, err := w.IsBlocked(ctx, identity.Ticket{Workspace: "ws", Cluster: fmt.Sprint(i), Time: start})
		if err != nil || got != want {
			t.Errorf("ticket %d: blocked %t, %v", i, got, err)
		}
	}
	if got, err := w.IsBlocked(ctx, identity.Ticket{Workspace: "ws", Cluster: "another", Time: start.Add(90 * time.Minute)}); err != nil || got {
		t.Errorf("a new ticket is blocked: %v", err)
	}
}

func TestPrune_DeletesExpiredRecords(t *testing.T) {
	w, ctx := newWorld(), t.Context()
	for _, workspace := range []string{"gone", "exists"} {
		if err := w.Block(ctx, workspace, "c1", time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	w.now = w.now.Add(time.Hour)
	if err := w.BlockAll(ctx, "later"); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Tracker().Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "fleet-deleted-clusters-of-a-user"}}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 4}, {identity.TicketLife - time.Minute, 2}, {time.Hour, 1}} {
		w.now = w.now.Add(step.after)
		if err := w.Prune(ctx); err != nil {
			t.Fatal(err)
		}
		if got := w.blockedMaps(t); len(got) != step.want {
			t.Errorf("%s later: %v, want %d", step.after, got, step.want)
		}
	}
}

// blockedMaps returns the names of the ConfigMaps with blocked tickets.
func (w *world) blockedMaps(t *testing.T) (found []string) {
	t.Helper()
	maps, err := w.client.CoreV1().ConfigMaps(system).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range maps.Items {
		found = append(found, one.Name)
	}
	return found
}

func TestDeletedWorkspace_KeepsOneEntry(t *testing.T) {
	w, ctx := newWorld(), t.Context()
	for i := range 3 {
		if err := w.Block(ctx, "ws", fmt.Sprint(i), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.BlockAll(ctx, "ws"); err != nil {
		t.Fatal(err)
	}
	maps, err := w.client.CoreV1().ConfigMaps(system).List(ctx, metav1.ListOptions{})
	if err != nil || len(maps.Items) != 1 || len(maps.Items[0].Data) != 1 {
		t.Fatalf("%v, %v", maps.Items, err)
	}
}
