package capi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/remote"
	"github.com/fleet-hub/fleet/internal/config"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const ws = "team-a"

var errServer = errors.New("the server is on fire")

// bench is a handler with its hub, and a watch that the test fills.
type bench struct {
	*hubtest.Hub
	*handler

	t testing.TB
	// behind is the cluster to which every kubeconfig leads, and asked is how often it was.
	behind types.UID
	silent error
	asked  int
	// stored is the Cluster of Cluster API on the API server that the watch does not have, and unreadable the error instead.
	stored     *capirule.Cluster
	unreadable error
}

// cluster is what a kubeconfig leads to.
type cluster struct {
	hub.Downstream

	b *bench
}

func (c cluster) NamespaceUID(context.Context, string) (types.UID, error) {
	c.b.asked++
	return c.b.behind, c.b.silent
}

func (cluster) Close() {}

func newBench(t testing.TB) *bench {
	t.Helper()
	server := hubtest.New(t)
	h := newHandler(server.App)
	h.groups = newGroups(h)
	h.watch = newWatch(server.App.Log, source{}, h.seen, h.synced)
	h.watch.running, h.watch.store = "v1beta2", cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	b := &bench{Hub: server, handler: h, t: t, behind: "system-1"}
	h.watch.source.find = func(_ context.Context, version string, key types.NamespacedName) (*capirule.Cluster, error) {
		if version != "v1beta2" || key != (types.NamespacedName{Namespace: ws, Name: "east"}) {
			t.Errorf("version %q of %s is read", version, key)
		}
		return b.stored, b.unreadable
	}
	server.App.Dial = func(context.Context, []byte, string, bool) (hub.Downstream, error) { return cluster{b: b}, nil }
	h.submit = func(job remote.Job) {
		if job.Workspace != ws {
			t.Errorf("a job counts for workspace %q", job.Workspace)
		}
		kubeconfig, err := job.Kubeconfig(t.Context())
		job.Do(t.Context(), kubeconfig, err)
	}
	h.version = func(name types.NamespacedName) string {
		if secret := hubtest.Get[*corev1.Secret](server, name.Namespace, name.Name); secret != nil {
			return secret.ResourceVersion
		}
		return ""
	}
	server.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ws, Labels: map[string]string{"team": "a"}}})
	server.Have(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "system-hub"}})
	if _, err := server.App.Identities.Own(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Requests()
	return b
}

func capiCluster(modifiers ...func(*capirule.Cluster)) *capirule.Cluster {
	c := &capirule.Cluster{
		ObjectMeta:  metav1.ObjectMeta{Namespace: ws, Name: "east", UID: "capi-1", Labels: map[string]string{"env": "dev"}},
		Selectable:  map[string]string{"env": "dev"},
		Initialized: true, ControlPlane: capirule.Reference{Group: "g.io", Kind: "K", Name: "cp"},
	}
	for _, modify := range modifiers {
		modify(c)
	}
	return c
}

func kubeconfigSecret(modifiers ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ws, Name: "east-kubeconfig", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "east"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "g.io/v1", Kind: "K", Name: "cp", UID: "cp-1"}},
		},
		Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": []byte("a kubeconfig")},
	}
	for _, modify := range modifiers {
		modify(s)
	}
	return s
}

// have stores a Cluster of Cluster API as its watch does.
func (b *bench) have(c *capirule.Cluster) {
	b.t.Helper()
	if err := b.watch.store.Add(c); err != nil {
		b.t.Fatal(err)
	}
	b.seen(c, false)
}

// lose deletes it.
func (b *bench) lose(c *capirule.Cluster) {
	b.t.Helper()
	if err := b.watch.store.Delete(c); err != nil {
		b.t.Fatal(err)
	}
	b.seen(c, true)
}

// decide reconciles the Cluster east, and once more if the cluster was asked which one it is.
func (b *bench) decide() {
	b.t.Helper()
	if err := b.step(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) step() error {
	before, key := b.asked, types.NamespacedName{Namespace: ws, Name: "east"}
	if err := b.reconcile(b.t.Context(), key); err != nil || b.asked == before {
		return err
	}
	return b.reconcile(b.t.Context(), key)
}

// expect reconciles and compares the requests, then fills the caches.
func (b *bench) expect(want ...string) {
	b.t.Helper()
	b.decide()
	hubtest.ExpectRequests(b.t, b.Hub, want...)
	b.Sync()
}

func (b *bench) reason() string {
	b.t.Helper()
	condition := conditions.Get(hubtest.MustGet[*fleet.Cluster](b.t, b.Hub, ws, "east").Status.Conditions, conditions.FollowsClusterAPI)
	if condition == nil {
		return "none"
	}
	return condition.Reason
}

func (b *bench) expectTold(reasons ...string) {
	b.t.Helper()
	told := b.Told()
	if len(told) != len(reasons) {
		b.t.Fatalf("Events: %q, want %q", told, reasons)
	}
	for i, event := range told {
		if !strings.Contains(event, " "+reasons[i]+" ") {
			b.t.Errorf("Event %q, want %q", event, reasons[i])
		}
	}
}

func TestRegistration_NeedsFewRequests(t *testing.T) {
	b := newBench(t)
	b.have(capiCluster(func(c *capirule.Cluster) { c.Initialized = false }))
	b.expect()
	b.expect()
	b.expectTold(conditions.ReasonAwaitingControlPlane)
	b.have(capiCluster())
	b.expect()
	b.expectTold(conditions.ReasonKubeconfigMissing)
	b.Put(kubeconfigSecret())
	b.expect("get Secret team-a/east-kubeconfig", "create Cluster team-a/east")
	b.expect("update Cluster/status team-a/east")
	if reason := b.reason(); reason != "" {
		t.Errorf("reason %q", reason)
	}
	b.expect()
	b.expectTold()
}

// The API server deletes Events after an hour.
func TestARefusal_IsReportedAgainBeforeItsEventExpires(t *testing.T) {
	b := newBench(t)
	queue := &delays{TypedRateLimitingInterface: b.queue}
	b.queue = queue
	b.have(capiCluster())
	b.expect()
	b.expectTold(conditions.ReasonKubeconfigMissing)
	b.Pass(eventPeriod - time.Second)
	b.expect()
	b.expectTold()
	b.Pass(time.Second)
	b.expect()
	b.expectTold(conditions.ReasonKubeconfigMissing)
	if want := []time.Duration{eventPeriod, time.Second, eventPeriod}; !slices.Equal(queue.after, want) {
		t.Errorf("enqueued after %v, want %v", queue.after, want)
	}
}

// delays is a queue that notes after how long keys are enqueued.
type delays struct {
	workqueue.TypedRateLimitingInterface[types.NamespacedName]

	after []time.Duration
}

func (d *delays) AddAfter(_ types.NamespacedName, after time.Duration) {
	d.after = append(d.after, after)
}

func TestACacheThatIsBehind_CreatesNoSecondCluster(t *testing.T) {
	b := newBench(t)
	b.Put(kubeconfigSecret())
	b.have(capiCluster())
	b.decide()
	b.decide() // without Sync
	hubtest.ExpectRequests(t, b.Hub, "get Secret team-a/east-kubeconfig", "create Cluster team-a/east", "create Cluster team-a/east")
}

func TestCluster_FromCreationToDeletion(t *testing.T) {
	b := newBench(t)
	b.Put(kubeconfigSecret())
	b.have(capiCluster())
	b.expect("get Secret team-a/east-kubeconfig", "create Cluster team-a/east")
	b.expect("update Cluster/status team-a/east")

	b.have(capiCluster(func(c *capirule.Cluster) { c.Labels = map[string]string{"env": "prod"} }))
	b.expect("patch Cluster team-a/east")
	paused := capiCluster(func(c *capirule.Cluster) { c.Paused = true })
	b.have(paused)
	b.expect("patch Cluster team-a/east", "update Cluster/status team-a/east")
	if reason := b.reason(); reason != conditions.ReasonClusterPaused {
		t.Errorf("reason %q", reason)
	}
	b.lose(paused)
	b.expect("update Cluster/status team-a/east") // only another message
	b.expect()

	b.Put(imported(ws, "east", "system-1")[1])
	b.have(capiCluster(func(c *capirule.Cluster) { c.UID = "capi-2" })) // moved back
	b.expect("get Secret team-a/east-kubeconfig", "patch Cluster team-a/east", "update Cluster/status team-a/east")
	b.expectAsked(2)
	b.have(capiCluster(func(c *capirule.Cluster) { c.UID = "capi-3" }))
	b.expect("delete Cluster team-a/east")
	b.expect("get Secret team-a/east-kubeconfig", "create Cluster team-a/east") // it is asked again which one it is
	b.lose(capiCluster(func(c *capirule.Cluster) { c.UID = "capi-3" }))
	b.expect("delete Cluster team-a/east")
	b.expect()
	if len(b.gone) != 0 || len(b.recorded) != 0 || len(b.secrets) != 0 {
		t.Errorf("remembered: %v %v %v", b.gone, b.recorded, b.secrets)
	}
}

// A Cluster that was kept for an earlier cluster of the name is not that of another cluster.
func TestAnotherClusterWithTheNameOfAMovedOne_InheritsNothing(t *testing.T) {
	b := newBench(t)
	b.Put(kubeconfigSecret())
	b.have(capiCluster())
	b.expect("get Secret team-a/east-kubeconfig", "create Cluster team-a/east")
	b.Put(imported(ws, "east", "system-1")[1])
	b.lose(capiCluster(func(c *capirule.Cluster) { c.ForMove = true }))
	b.expect("patch Cluster team-a/east", "update Cluster/status team-a/east")

	another := capiCluster(func(c *capirule.Cluster) {
		c.UID, c.Labels, c.Initialized = "capi-2", map[string]string{"env": "new"}, false
	})
	b.have(another)
	b.expect("update Cluster/status team-a/east")
	if reason := b.reason(); reason != conditions.ReasonAwaitingControlPlane {
		t.Errorf("reason %q", reason)
	}
	b.silent = errServer
	another = capiCluster(func(c *capirule.Cluster) { c.UID = "capi-2" })
	b.have(another)
	b.expect("get Secret team-a/east-kubeconfig", "update Cluster/status team-a/east")
	if reason := b.reason(); reason != conditions.ReasonNameTaken {
		t.Errorf("it does not answer: reason %q", reason)
	}
	b.silent, b.behind = nil, "system-2"
	b.Step(10*time.Minute - 1)
	b.expect()
	b.Step(1)
	b.expect("get Secret team-a/east-kubeconfig", "update Cluster/status team-a/east")
	b.expect()
	b.expectAsked(3)
	kept := hubtest.MustGet[*fleet.Cluster](t, b.Hub, ws, "east")
	told := conditions.Get(kept.Status.Conditions, conditions.FollowsClusterAPI)
	if kept.Labels["env"] != "dev" || kept.Annotations[annotation.CAPICluster] != "team-a/east/capi-1" || kept.Annotations[annotation.CAPIKept] != conditions.ReasonClusterPaused ||
		told.Reason != conditions.ReasonNameTaken || !strings.Contains(told.Message, "the new one is another cluster") {
		t.Errorf("labels %v, annotations %v, told %+v", kept.Labels, kept.Annotations, told)
	}

	b.Remove(kept)
	b.expect("create Cluster team-a/east")
	if created := hubtest.MustGet[*fleet.Cluster](t, b.Hub, ws, "east"); created.Annotations[annotation.CAPICluster] != "team-a/east/capi-2" {
		t.Errorf("annotations %v", created.Annotations)
	}
}

func TestAMoveThatIsSeenOnlyAtItsEnd_KeepsTheCluster(t *testing.T) {
	b := newBench(t)
	b.Put(kubeconfigSecret())
	b.have(capiCluster())
	b.expect("get Secret team-a/east-kubeconfig", "create Cluster team-a/east")
	b.lose(capiCluster(func(c *capirule.Cluster) { c.ForMove = true }))
	b.expect("patch Cluster team-a/east", "update Cluster/status team-a/east")
	b.expect() // although nothing remembers the last state now
}

func TestADeletionThatNothingWatched_IsNoticed(t *testing.T) {
	b := newBench(t)
	b.Put(capirule.NewCluster(capiCluster()), &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "own"}})
	b.synced()
	if b.queue.Len() != 1 {
		t.Errorf("%d keys are enqueued", b.queue.Len())
	}
	b.expect("delete Cluster team-a/east")
}

func TestAWatchThatIsBehind_DeletesNothing(t *testing.T) {
	older := capiCluster(func(c *capirule.Cluster) { c.UID = "capi-0" })
	for name, watched := range map[string]*capirule.Cluster{"none": nil, "an earlier cluster": older} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Put(capirule.NewCluster(capiCluster()))
			if watched != nil {
				b.have(watched)
			}
			b.stored = capiCluster()
			if err := b.step(); !errors.Is(err, errBehind) {
				t.Errorf("error %v", err)
			}
			b.stored, b.unreadable = nil, errServer
			if err := b.step(); !errors.Is(err, errServer) {
				t.Errorf("error %v", err)
			}
			hubtest.ExpectRequests(t, b.Hub)
			b.stored, b.unreadable = older, nil
			b.expect("delete Cluster team-a/east")
		})
	}
}

func TestWithoutAWatch_NothingIsDeleted(t *testing.T) {
	b := newBench(t)
	b.configure(func(c *config.Config) { c.CAPI.Enabled = true })
	b.Put(capirule.NewCluster(capiCluster()))
	b.watch.store = nil
	b.expect()
	b.enqueueAll()
	b.enqueue(types.NamespacedName{Namespace: ws, Name: "east"})
	if b.queue.Len() != 0 {
		t.Errorf("%d keys are enqueued", b.queue.Len())
	}
}

func TestDisabled_OnlyClustersOfClusterAPIAreEnqueued(t *testing.T) {
	b := newBench(t)
	b.Put(capirule.NewCluster(capiCluster()), &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "own"}})
	b.watch.store = nil
	for _, name := range []string{"east", "own", "none"} {
		b.enqueue(types.NamespacedName{Namespace: ws, Name: name})
	}
	b.enqueueAll()
	if key, _ := b.queue.Get(); b.queue.Len() != 0 || key.Name != "east" {
		t.Errorf("%s and %d more keys are enqueued", key, b.queue.Len())
	}
}

func TestDisabled_TheConditionIsRemoved(t *testing.T) {
	b := newBench(t)
	b.Put(kubeconfigSecret())
	b.have(capiCluster())
	b.expect("get Secret team-a/east-kubeconfig", "create Cluster team-a/east")
	b.expect("update Cluster/status team-a/east")
	b.watch.store = nil
	b.expect("update Cluster/status team-a/east")
	if reason := b.reason(); reason != "none" {
		t.Errorf("reason %q", reason)
	}
	b.expect()
}

func TestARotatedKubeconfig_IsReadOnce(t *testing.T) {
	b := newBench(t)
	b.Put(kubeconfigSecret())
	b.have(capiCluster())
	b.expect("get Secret team-a/east-kubeconfig", "create Cluster team-a/east")
	b.expect("update Cluster/status team-a/east")
	for i := range 20 {
		b.Put(kubeconfigSecret(func(s *corev1.Secret) { s.Data["value"] = []byte(strconv.Itoa(i)) }))
		b.expect("get Secret team-a/east-kubeconfig")
		b.expect()
	}
}

func TestAnExpiringKubeconfig_IsReportedInTime(t *testing.T) {
	b := newBench(t)
	token := hubtest.Token("account", b.Now().Add(48*time.Hour))
	b.Put(kubeconfigSecret(func(s *corev1.Secret) {
		s.Data["value"] = []byte("{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: 'https://a.example'}}], users: [{name: u, user: {token: " + token + "}}]}")
	}))
	b.have(capiCluster())
	b.expect("get Secret team-a/east-kubeconfig", "create Cluster team-a/east")
	b.expect("update Cluster/status team-a/east")
	b.Pass(23 * time.Hour)
	b.expect()
	b.Pass(time.Hour)
	b.expect("update Cluster/status team-a/east")
	if reason := b.reason(); reason != conditions.ReasonKubeconfigExpiring {
		t.Errorf("reason %q", reason)
	}
	b.Put(kubeconfigSecret())
	b.expect("get Secret team-a/east-kubeconfig", "update Cluster/status team-a/east")
	if reason := b.reason(); reason != "" {
		t.Errorf("after the rotation: %q", reason)
	}
}

func TestSelectors(t *testing.T) {
	env := func(value string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{"env": value}}
	}
	team := func(value string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{"team": value}}
	}
	b := newBench(t)
	for name, test := range map[string]struct {
		conf config.CAPI
		want bool
	}{
		"none":                     {config.CAPI{}, true},
		"both":                     {config.CAPI{NamespaceSelector: team("a"), ClusterSelector: env("dev")}, true},
		"another namespace":        {config.CAPI{NamespaceSelector: team("b")}, false},
		"another label of Cluster": {config.CAPI{ClusterSelector: env("prod")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := b.selects(test.conf, capiCluster()); got != test.want || err != nil {
				t.Errorf("selected: %t, %v", got, err)
			}
		})
	}
	if got, err := b.selects(config.CAPI{}, capiCluster(func(c *capirule.Cluster) { c.Namespace = "unknown" })); got || err != nil {
		t.Errorf("in a namespace that is not known: %t, %v", got, err)
	}
}

func TestFailures_AreReturned(t *testing.T) {
	for request, prepare := range map[string]func(*bench){
		"get Secret team-a/east-kubeconfig": func(*bench) {},
		"create Cluster team-a/east":        func(*bench) {},
		"delete Cluster team-a/east": func(b *bench) {
			b.Put(capirule.NewCluster(capiCluster(func(c *capirule.Cluster) { c.UID = "capi-0" })))
		},
		"update Cluster/status team-a/east": func(b *bench) { b.Put(capirule.NewCluster(capiCluster())) },
		"patch Cluster team-a/east": func(b *bench) {
			c := capirule.NewCluster(capiCluster())
			delete(c.Labels, "env")
			b.Put(c)
		},
	} {
		t.Run(request, func(t *testing.T) {
			b := newBench(t)
			b.Put(kubeconfigSecret())
			b.have(capiCluster())
			prepare(b)
			b.Fail(request, errServer)
			if err := b.step(); !errors.Is(err, errServer) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestEventKeys(t *testing.T) {
	for name, test := range map[string]struct {
		got  []types.NamespacedName
		want string
	}{
		"a Cluster":                     {clustersOf(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "a"}}), "[team-a/a]"},
		"a Cluster that names a Secret": {clustersOf(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "a"}, Spec: fleet.ClusterSpec{KubeConfigSecret: "b-kubeconfig"}}), "[team-a/a team-a/b]"},
		"a Cluster that names a Secret of another namespace": {clustersOf(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "a"}, Spec: fleet.ClusterSpec{KubeConfigSecret: "b-kubeconfig", KubeConfigSecretNamespace: "n"}}), "[team-a/a n/b]"},
		"a Secret with a kubeconfig":                         {clusterOfSecret(types.NamespacedName{Namespace: ws, Name: "a-kubeconfig"}), "[team-a/a]"},
		"a Secret with something else":                       {clusterOfSecret(types.NamespacedName{Namespace: ws, Name: "a-ca"}), "[]"},
		"a namespace without any":                            {newBench(t).clustersIn(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ws}}), "[]"},
	} {
		if got := fmt.Sprint(test.got); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// Whatever happens in whatever order, the hub never has two Clusters for one of Cluster API, and never deletes one that
// it did not create.
func TestRandomLives_NeverGiveTwoClusters(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 23))
		b := newBench(t)
		b.Put(kubeconfigSecret())
		uid, byHand, trace := 0, false, []string{}
		steps := []struct {
			name string
			do   func()
		}{
			{"appear", func() { b.have(capiCluster(func(c *capirule.Cluster) { c.UID = types.UID(strconv.Itoa(uid)) })) }},
			{"recreate", func() { uid++; b.have(capiCluster(func(c *capirule.Cluster) { c.UID = types.UID(strconv.Itoa(uid)) })) }},
			{"pause", func() {
				b.have(capiCluster(func(c *capirule.Cluster) { c.UID, c.Paused = types.UID(strconv.Itoa(uid)), true }))
			}},
			{"lose", func() { b.lose(capiCluster(func(c *capirule.Cluster) { c.UID = types.UID(strconv.Itoa(uid)) })) }},
			{"move", func() {
				b.lose(capiCluster(func(c *capirule.Cluster) { c.UID, c.ForMove = types.UID(strconv.Itoa(uid)), true }))
			}},
			{"rotate", func() {
				b.Put(kubeconfigSecret(func(s *corev1.Secret) { s.Data["value"] = []byte(strconv.Itoa(random.Int())) }))
			}},
			{"spoil", func() { b.Put(kubeconfigSecret(func(s *corev1.Secret) { s.Type = "Opaque" })) }},
			{"sync", b.Sync},
			{"import by hand", func() {
				b.Sync()
				if all := clustersOn(b); !byHand && len(all) == 0 {
					byHand = true
					b.Put(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "mine"}, Spec: fleet.ClusterSpec{KubeConfigSecret: "east-kubeconfig"}})
				}
			}},
		}
		for range 40 {
			step := steps[random.IntN(len(steps))]
			trace = append(trace, step.name)
			step.do()
			b.decide()
			b.Sync()
			all := clustersOn(b)
			if len(all) > 1 || byHand && !slices.Equal(all, []string{"mine"}) {
				t.Fatalf("seed %d: Clusters %v after %v", seed, all, trace)
			}
		}
	}
}

// clustersOn returns the names of the Clusters in the cache, which is filled.
func clustersOn(b *bench) (names []string) {
	b.t.Helper()
	list, err := b.App.Clusters.Cache().List(ws, labels.Everything())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range list {
		names = append(names, c.Name)
	}
	return names
}
