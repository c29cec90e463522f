package grant

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/grant/requestqueue"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// numbered is one of many requests; the lower the number, the older it is.
func numbered(hub *hubtest.Hub, n int, modifiers ...func(*fleet.ClusterRegistration)) *fleet.ClusterRegistration {
	name := fmt.Sprintf("n%04d", n)
	return request(append([]func(*fleet.ClusterRegistration){named(name), func(r *fleet.ClusterRegistration) {
		r.CreationTimestamp = metav1.NewTime(hub.Now().Add(time.Duration(n-10000) * time.Millisecond).Truncate(time.Second))
	}}, modifiers...)...)
}

func ofClient(client string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) { r.Spec.ClientID = client }
}

func withToken(token string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) { r.Labels[fleet.LabelRegistrationToken] = token }
}

// look lets the controller look at requests in this order.
func look(t *testing.T, hub *hubtest.Hub, requests ...*fleet.ClusterRegistration) {
	t.Helper()
	for _, one := range requests {
		if err := hub.Handle("ClusterRegistration", one.Namespace+"/"+one.Name); err != nil {
			t.Fatal(err)
		}
		hub.Told() // nobody else reads the Events, and there is room for few
	}
}

// put lets the hub have requests, and the controller look at them in this order.
func put(t *testing.T, hub *hubtest.Hub, requests ...*fleet.ClusterRegistration) {
	t.Helper()
	for _, one := range requests {
		hub.Put(one)
	}
	look(t, hub, requests...)
}

// made returns how many of the requests begin with a text.
func made(requests []string, prefix string) (count int) {
	for _, one := range requests {
		if strings.HasPrefix(one, prefix) {
			count++
		}
	}
	return count
}

func reasonOf(t *testing.T, hub *hubtest.Hub, name string) string {
	t.Helper()
	said := conditions.Get(hubtest.MustGet[*fleet.ClusterRegistration](t, hub, "ws", name).Status.Conditions, conditions.Granted)
	if said == nil {
		return ""
	}
	return said.Reason
}

func TestManyRequestsOfOneClient_TenAreWorkedOn(t *testing.T) {
	hub := start(t, cluster(), asked())
	var all []*fleet.ClusterRegistration
	for n := range 30 {
		all = append(all, numbered(hub, n))
	}
	put(t, hub, all...)
	if got := made(hub.Requests(), "create ServiceAccount"); got != 10 {
		t.Errorf("%d accounts created, want 10", got)
	}
	hub.Pass(10 * time.Second)
	look(t, hub, all...)
	hub.Sync()
	for n, want := range map[string]string{"n0009": "AwaitingRights", "n0010": "TooManyRequests", "n0029": "TooManyRequests"} {
		if got := reasonOf(t, hub, n); got != want {
			t.Errorf("reason of %s: %q, want %q", n, got, want)
		}
	}
	hub.Requests()
	look(t, hub, all[10:]...)
	if got := hub.Requests(); len(got) > 0 {
		t.Errorf("those that wait cause %v", got)
	}

	hub.Woken()
	hub.Remove(all[3])
	look(t, hub, all[3])
	if woken := hub.AwaitWoken(); !slices.Contains(woken, kindRequest+" ws/n0010") {
		t.Errorf("woken %v, want n0010, which has a place now", woken)
	}
	look(t, hub, all[10:12]...)
	if got := made(hub.Requests(), "create ServiceAccount"); got != 1 {
		t.Errorf("%d accounts created, want that of the oldest", got)
	}
}

func TestManyRequestsOfOneToken_HundredAreWorkedOn(t *testing.T) {
	hub := start(t, asked())
	var all []*fleet.ClusterRegistration
	for n := range 150 {
		all = append(all, numbered(hub, n, ofClient(fmt.Sprint("client-", n))))
	}
	put(t, hub, all...)
	if got := made(hub.Requests(), "create Cluster "); got != 100 {
		t.Errorf("%d Clusters created, want 100", got)
	}
	hub.Pass(10 * time.Second)
	look(t, hub, all...)
	if got := reasonOf(t, hub, "n0100"); got != "TooManyRequests" {
		t.Errorf("reason %q", got)
	}
}

// The label is what the client claims. Tokens that do not exist count as one.
func TestRequestsWithInventedTokens_ShareOneLine(t *testing.T) {
	hub := start(t, asked())
	var all []*fleet.ClusterRegistration
	for n := range 150 {
		all = append(all, numbered(hub, n, ofClient(fmt.Sprint("client-", n)), withToken(fmt.Sprint("invented-", n))))
	}
	put(t, hub, all...)
	if got := made(hub.Requests(), "create Cluster "); got != 100 {
		t.Errorf("%d Clusters created, want 100", got)
	}
	put(t, hub, numbered(hub, 1000, ofClient("another")))
	if got := made(hub.Requests(), "create Cluster "); got != 1 {
		t.Error("a request with a token that exists waits for those with invented ones")
	}
}

func TestRequestsOfOneClientWithManyTokens_TenAreWorkedOn(t *testing.T) {
	hub := start(t, cluster(), asked())
	var all []*fleet.ClusterRegistration
	for n := range 30 {
		all = append(all, numbered(hub, n, withToken(fmt.Sprint("invented-", n))))
	}
	put(t, hub, all...)
	if got := made(hub.Requests(), "create ServiceAccount"); got != 10 {
		t.Errorf("%d accounts created, want 10", got)
	}
}

func TestTokenAppears_ItsRequestsLeaveTheLineOfUnknownOnes(t *testing.T) {
	hub := start(t)
	var all []*fleet.ClusterRegistration
	for n := range 101 {
		all = append(all, numbered(hub, n, ofClient(fmt.Sprint("client-", n)), withToken(fmt.Sprint("invented-", n))))
	}
	late := numbered(hub, 1000, ofClient("another"))
	put(t, hub, append(all, late)...)
	hub.Requests()
	hub.Put(asked())
	look(t, hub, late) // it is woken by its token
	if got := made(hub.Requests(), "create Cluster "); got != 1 {
		t.Errorf("%d Clusters created, want that of the request whose token exists", got)
	}
}

func TestManyRequests_LeaveRoomForOthers(t *testing.T) {
	t2 := asked()
	t2.Name, t2.UID = "t2", "u-t2"
	hub := start(t, asked(), t2)
	var flood []*fleet.ClusterRegistration
	for n := range 300 {
		flood = append(flood, numbered(hub, n))
	}
	put(t, hub, flood...)
	hub.Requests()
	put(t, hub, numbered(hub, 1000, ofClient("another")), numbered(hub, 1001, ofClient("third"), withToken("t2")))
	if got := made(hub.Requests(), "create Role "); got != 2 {
		t.Errorf("%d of the two others are worked on, another client of the token and the client with another token", got)
	}
}

func TestQueuedRequest_IsDeletedAfterItsLife(t *testing.T) {
	hub := start(t, cluster(), asked())
	var all []*fleet.ClusterRegistration
	for n := range 11 {
		all = append(all, numbered(hub, n))
	}
	put(t, hub, all...)
	hub.Pass(41 * time.Minute)
	hub.Requests()
	look(t, hub, all[10])
	expectRequests(t, hub, "delete ClusterRegistration ws/n0010")
}

// Agents of some releases create a request at each start. Were the old ones kept, no new one would ever be answered.
func TestGrantsThatWereNeverUsed_GiveWay(t *testing.T) {
	hub := start(t, cluster(), asked())
	var all []*fleet.ClusterRegistration
	for n := range 10 {
		all = append(all, numbered(hub, n))
	}
	put(t, hub, all...)
	catchUp(t, hub)
	look(t, hub, all...)
	catchUp(t, hub)
	hub.Pass(41 * time.Minute)
	look(t, hub, all...)
	if got := made(hub.Requests(), "delete ClusterRegistration"); got != 0 {
		t.Fatalf("%d are deleted though nothing needs their place", got)
	}
	hub.Woken()
	late := numbered(hub, 5000)
	put(t, hub, late)
	if got := made(hub.Requests(), "create ServiceAccount"); got != 0 {
		t.Error("the eleventh is worked on at once")
	}
	if woken := hub.AwaitWoken(); !slices.Contains(woken, kindRequest+" ws/n0000") {
		t.Errorf("woken %v, want the oldest", woken)
	}
	for _, one := range all {
		look(t, hub, one)
		if hub.Sync(); hubtest.Get[*fleet.ClusterRegistration](hub, "ws", one.Name) == nil {
			look(t, hub, one)
		}
	}
	if got := made(hub.Requests(), "delete ClusterRegistration "); got != 1 {
		t.Errorf("%d are deleted, want 1", got)
	}
	look(t, hub, late)
	if got := made(hub.Requests(), "create ServiceAccount"); got != 1 {
		t.Error("the eleventh is not worked on")
	}
}

// What is done about one request must not grow with how many there are.
func TestManyRequestsOfOneClient_CostTheSameEach(t *testing.T) {
	cost := func(others int) int64 {
		hub := start(t, cluster(), asked())
		var all []*fleet.ClusterRegistration
		for n := range others {
			all = append(all, numbered(hub, n))
		}
		put(t, hub, all...)
		last := kindRequest + " ws/" + all[others-1].Name
		hub.Pass(10 * time.Second)
		look(t, hub, all...)
		hub.Sync()
		return testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				if err := hub.Handle(kindRequest, strings.TrimPrefix(last, kindRequest+" ")); err != nil {
					b.Fatal(err)
				}
			}
		}).AllocedBytesPerOp()
	}
	few, many := cost(20), cost(1000)
	if many > 2*few+1024 {
		t.Errorf("%d bytes are allocated for one request of 20, and %d for one of 1000", few, many)
	}
}

func TestLabelsThatAreNotCopied_AreReported(t *testing.T) {
	hub := start(t, asked(), request(func(r *fleet.ClusterRegistration) {
		r.Spec.ClusterLabels = map[string]string{"-bad-": "x", "env": strings.Repeat("v", 64)}
		for n := range 100 {
			r.Spec.ClusterLabels[fmt.Sprintf("label-%03d", n)] = "x"
		}
	}))
	handle(t, hub)
	got := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "cluster-948fe603f61d")
	if len(got.Labels) != 66 || got.Labels["label-063"] != "x" || got.Labels["label-064"] != "" {
		t.Errorf("%d labels, want the first 64 and ours", len(got.Labels))
	}
	got = got.DeepCopy()
	got.Status.Namespace = clusterNamespace
	hub.Put(got)
	hub.Told()
	settle(t, hub, 2)
	said := conditions.Get(current(t, hub).Status.Conditions, conditions.Granted)
	if said == nil || said.Status != "True" || said.Reason != "LabelsLeftOut" {
		t.Fatalf("condition %+v", said)
	}
	const want = `38 of spec.clusterLabels are not valid or come after the first 64, and are not copied to a Cluster: "-bad-", "env", "label-064", "label-065", "label-066", …`
	if !strings.HasPrefix(said.Message, want) {
		t.Errorf("message %q, want %q", said.Message, want)
	}
	if told := hub.Told(); !slices.ContainsFunc(told, func(event string) bool { return strings.HasPrefix(event, "Warning LabelsLeftOut "+want) }) {
		t.Errorf("told %q", told)
	}
}

func TestARequestWithAnotherManagersLabel_Expires(t *testing.T) {
	hub := start(t, asked(), request(func(r *fleet.ClusterRegistration) {
		r.CreationTimestamp = metav1.NewTime(hubtest.New(t).Now())
		r.Labels[fleet.LabelClusterManagement] = "other"
	}))
	handle(t, hub)
	expectRequests(t, hub)
	hubtest.ExpectWoken(t, hub, kindRequest+" ws/r1 in 24h0m0s")
	hub.Pass(24 * time.Hour)
	handle(t, hub)
	expectRequests(t, hub, "delete ClusterRegistration ws/r1")
}

func TestARequestOfAnotherManager_ThatIsGrantedStays(t *testing.T) {
	hub := start(t, asked(), request(func(r *fleet.ClusterRegistration) {
		r.Labels[fleet.LabelClusterManagement], r.Status.Granted = "other", true
	}))
	hub.Pass(1000 * time.Hour)
	handle(t, hub)
	expectRequests(t, hub)
}

func TestARequestWithAFinalizer_Expires(t *testing.T) {
	for name, manager := range map[string]string{"ours": "", "another manager's": "other"} {
		t.Run(name, func(t *testing.T) {
			going := metav1.NewTime(hubtest.New(t).Now())
			hub := start(t, asked(), request(func(r *fleet.ClusterRegistration) {
				r.DeletionTimestamp, r.Finalizers = &going, []string{"example.com/mine"}
				r.Labels[fleet.LabelClusterManagement] = manager
			}))
			handle(t, hub)
			if got := current(t, hub).Finalizers; len(got) != 1 {
				t.Fatalf("finalizers %v", got)
			}
			hub.Pass(24 * time.Hour)
			handle(t, hub)
			if got := hubtest.Get[*fleet.ClusterRegistration](hub, "ws", "r1"); got != nil && len(got.Finalizers) > 0 {
				t.Errorf("finalizers %v", got.Finalizers)
			}
		})
	}
}

// labelled is a request of another manager, which may never process it.
func labelled(r *fleet.ClusterRegistration) { r.Labels[fleet.LabelClusterManagement] = "other" }

func TestRequestsOfAnotherManager_TakeNoPlacesAfterARestart(t *testing.T) {
	hub := start(t, asked())
	for n := range grant.OpenPerToken {
		hub.Put(numbered(hub, n, ofClient(fmt.Sprint("client-", n)), labelled))
	}
	late := numbered(hub, 5000, ofClient("late"))
	hub.Put(late)
	h := &handler{app: hub.App, queue: requestqueue.New()} // of a new process
	h.fillQueue(t.Context())
	if got := h.queue.WaitsIn(late); got != grant.NoQueue {
		t.Errorf("waits in the queue of its %s", got)
	}
}

func TestRequestThatGetsAnotherManagersLabel_FreesItsPlace(t *testing.T) {
	hub := start(t, cluster(), asked())
	var all []*fleet.ClusterRegistration
	for n := range grant.OpenPerClient + 1 {
		all = append(all, numbered(hub, n))
	}
	put(t, hub, all...)
	hub.Woken()
	first := hubtest.MustGet[*fleet.ClusterRegistration](t, hub, "ws", all[0].Name)
	labelled(first)
	put(t, hub, first)
	if woken, last := hub.AwaitWoken(), kindRequest+" ws/"+all[grant.OpenPerClient].Name; !slices.Contains(woken, last) {
		t.Errorf("woken %v, want %s, which has a place now", woken, last)
	}
}
