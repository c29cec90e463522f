package recovery

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/recoveries"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const clusterNamespace = "cluster-ws-c1-552959a9c359"

func agentKey(t *testing.T) string {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key.Public()
}

func cluster(modifiers ...func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c1", UID: "u-c1", Labels: map[string]string{"env": "dev"}},
		Spec:       fleet.ClusterSpec{ClientID: "client"}, Status: fleet.ClusterStatus{Namespace: clusterNamespace},
	}
	for _, modify := range modifiers {
		modify(c)
	}
	return c
}

func annotated(key, value string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, key, value) }
}

func reporting(key string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Status.Agent.RecoveryKey = key }
}

// start is a hub with a key and workspace ws.
func start(t *testing.T, objects ...hubtest.Object) *hubtest.Hub {
	t.Helper()
	hub := hubtest.New(t)
	if err := Register(t.Context(), hub.App); err != nil {
		t.Fatal(err)
	}
	if err := hub.App.Recoveries.LoadKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	hub.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ws", UID: "u-ws"}})
	hub.Put(objects...)
	hub.Requests()
	return hub
}

// settled is start after the recovery account has its token.
func settled(t *testing.T, objects ...hubtest.Object) *hubtest.Hub {
	t.Helper()
	hub := start(t, objects...)
	handle(t, hub)
	hub.Sync()
	hub.Pass(pinDelay)
	handle(t, hub)
	token := hubtest.MustGet[*corev1.Secret](t, hub, "ws", names.RecoveryToken).DeepCopy()
	token.Annotations[corev1.ServiceAccountUIDKey] = accountUID(t, hub)
	token.Data = map[string][]byte{"token": []byte(hubtest.Token(accountUID(t, hub), time.Time{}))}
	hub.Put(token)
	hub.Requests()
	hub.Woken()
	return hub
}

func accountUID(t *testing.T, hub *hubtest.Hub) string {
	t.Helper()
	return string(hubtest.MustGet[*corev1.ServiceAccount](t, hub, "ws", names.Recovery).UID)
}

func handle(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	if err := hub.Handle("Cluster", "ws/c1"); err != nil {
		t.Fatal(err)
	}
}

func TestFirstCluster_CreatesTheRecoveryAccount(t *testing.T) {
	hub := start(t, cluster())
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "create ServiceAccount ws/fleet-recovery", "create Role ws/fleet-recovery", "create RoleBinding ws/fleet-recovery")
	hub.Sync()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "get Secret ws/fleet-recovery-token", "create Secret ws/fleet-recovery-token")
	handle(t, hub)
	hubtest.ExpectRequests(t, hub)
	if account := hubtest.MustGet[*corev1.ServiceAccount](t, hub, "ws", names.Recovery); !recoveries.IsAccount(account) {
		t.Errorf("labels %v", account.Labels)
	}
}

func TestChangedRightsOfTheRecoveryAccount_AreRestored(t *testing.T) {
	hub := settled(t, cluster(), cluster(func(c *fleet.Cluster) { c.Name, c.UID = "c2", "u-c2" }))
	handle(t, hub)
	hubtest.ExpectRequests(t, hub)
	role := hubtest.MustGet[*rbacv1.Role](t, hub, "ws", names.Recovery).DeepCopy()
	role.Rules[0].Verbs = append(role.Rules[0].Verbs, "list")
	hub.Put(role)
	if err := hub.Handle("Cluster", "ws/c2"); err != nil {
		t.Fatal(err)
	}
	hubtest.ExpectRequests(t, hub, "patch Role ws/fleet-recovery")
}

func TestForeignAccount_IsLeftAloneAndReportedOnce(t *testing.T) {
	foreign := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: names.Recovery, Labels: map[string]string{fleet.LabelManaged: "true"}}}
	hub := start(t, cluster(annotated(annotation.AgentKey, agentKey(t))), foreign)
	for range 2 {
		handle(t, hub)
	}
	if got := hubtest.MustGet[*corev1.ServiceAccount](t, hub, "ws", names.Recovery); got.Labels[fleet.LabelSetHash] != "" {
		t.Error("the account was adopted")
	}
	if told := hub.Told(); len(told) != 1 || !strings.Contains(told[0], "RecoveryUnavailable") {
		t.Errorf("Events %v", told)
	}
	if hubtest.Get[*corev1.Secret](hub, clusterNamespace, names.Recovery) != nil {
		t.Error("recovery data was written")
	}
}

func TestReportedKey_IsPinnedOnce(t *testing.T) {
	key, other := agentKey(t), agentKey(t)
	for name, test := range map[string]struct {
		cluster *fleet.Cluster
		want    string
	}{
		"no key":           {cluster(reporting(key)), key},
		"another key":      {cluster(reporting(key), annotated(annotation.AgentKey, other)), other},
		"key was blocked":  {cluster(reporting(key), annotated(annotation.BlockedKey, key)), ""},
		"any key blocked":  {cluster(reporting(key), annotated(annotation.BlockedKey, other)), ""},
		"not a key":        {cluster(reporting("x")), ""},
		"nothing reported": {cluster(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			hub := settled(t, test.cluster)
			if got := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1").Annotations[annotation.AgentKey]; got != test.want {
				t.Errorf("pinned key %q, want %q", got, test.want)
			}
		})
	}
}

func TestReportedKey_IsPinnedTwoSecondsLater(t *testing.T) {
	key := agentKey(t)
	hub := settled(t, cluster())
	hub.Put(cluster(reporting(key)))
	handle(t, hub)
	hub.Pass(time.Second)
	handle(t, hub)
	hubtest.ExpectRequests(t, hub)
	hubtest.ExpectWoken(t, hub, "Cluster ws/c1 in 2s", "Cluster ws/c1 in 1s")
	hub.Pass(time.Second)
	handle(t, hub)
	if got := hubtest.MustGet[*fleet.Cluster](t, hub, "ws", "c1").Annotations[annotation.AgentKey]; got != key {
		t.Errorf("pinned key %q, want %q", got, key)
	}
}

func TestClusterWithKey_GetsRecoveryData(t *testing.T) {
	key := agentKey(t)
	hub := settled(t, cluster(annotated(annotation.AgentKey, key)))
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "get Secret ws/fleet-recovery-token", "create Secret "+clusterNamespace+"/fleet-recovery")
	ticket := func() identity.Ticket {
		t.Helper()
		secret := hubtest.MustGet[*corev1.Secret](t, hub, clusterNamespace, names.Recovery)
		data, err := protocol.ParseRecovery(secret.Data)
		if err != nil || data.Token != hubtest.Token(accountUID(t, hub), time.Time{}) || secret.Type != protocol.SecretTypeRecovery {
			t.Fatalf("token %q, type %s, %v", data.Token, secret.Type, err)
		}
		if got := protocol.ParseRecoveryData(secret.Data).SystemRegistrationNamespace; got != hub.App.Namespaces.Registration {
			t.Errorf("registration namespace %q", got)
		}
		ticket, err := identity.VerifyTicket(hub.App.Recoveries.Key().Public(), data.Ticket)
		if err != nil {
			t.Fatal(err)
		}
		return ticket
	}
	first := ticket()
	if first.Key != identity.Thumbprint(key) || first.Labels["env"] != "dev" {
		t.Errorf("ticket %+v", first)
	}
	hub.Sync()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub)

	hub.Pass(31 * 24 * time.Hour)
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "patch Secret "+clusterNamespace+"/fleet-recovery")
	if !ticket().Time.After(first.Time) {
		t.Error("the ticket is not newer")
	}
	hub.Sync()
	hub.Put(cluster(annotated(annotation.AgentKey, key), func(c *fleet.Cluster) { c.Labels["env"] = "prod" }))
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "patch Secret "+clusterNamespace+"/fleet-recovery")
	if got := ticket().Labels["env"]; got != "prod" {
		t.Errorf("label %q", got)
	}
	hub.Sync()
	hub.Put(cluster(annotated(annotation.AgentKey, key), func(c *fleet.Cluster) { c.Labels["env"], c.Spec.Paused = "prod", true }))
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "patch Secret "+clusterNamespace+"/fleet-recovery")
	if !ticket().Paused {
		t.Error("the ticket does not say that the Cluster is paused")
	}
	hub.Sync()
	hub.Put(cluster(annotated(annotation.BlockedKey, key)))
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "delete Secret "+clusterNamespace+"/fleet-recovery")
}

func TestAgentWithCurrentRecoveryData_GetsASecretOnlyWhenTheyAreOutdated(t *testing.T) {
	key := agentKey(t)
	hub := settled(t, cluster())
	public, token := hub.App.Recoveries.Key().Public(), hubtest.Token(accountUID(t, hub), time.Time{})
	holding := func(c *fleet.Cluster) {
		ticket := recoveries.TicketOf(cluster(), key)
		ticket.Time = hub.App.Clock()
		c.Status.Agent.RecoveryTicket = identity.Receipt(public, token, hub.App.Recoveries.Key().WorkspaceKey("ws"), ticket)
	}
	keyed := annotated(annotation.AgentKey, key)
	hub.Put(cluster(keyed, holding))
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "get Secret ws/fleet-recovery-token")

	hub.Put(cluster(keyed, holding, func(c *fleet.Cluster) { c.Labels["env"] = "prod" }))
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "create Secret "+clusterNamespace+"/fleet-recovery")
	hub.Sync()
	hub.Put(cluster(keyed, holding))
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "delete Secret "+clusterNamespace+"/fleet-recovery")
}

func TestRecoveryData_IsWrittenOnceUntilTheCacheShowsIt(t *testing.T) {
	hub := settled(t, cluster(annotated(annotation.AgentKey, agentKey(t))))
	handle(t, hub)
	hub.Requests()
	handle(t, hub) // the cache is behind
	hubtest.ExpectRequests(t, hub)
	hub.Sync()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub)
	hub.Remove(hubtest.MustGet[*corev1.Secret](t, hub, clusterNamespace, names.Recovery))
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "create Secret "+clusterNamespace+"/fleet-recovery")
}

// The cache is behind after the change of an existing Secret.
func TestChangedRecoveryData_IsWrittenOnceUntilTheCacheShowsIt(t *testing.T) {
	keyed := annotated(annotation.AgentKey, agentKey(t))
	hub := settled(t, cluster(keyed))
	handle(t, hub)
	hub.Sync()
	hub.Put(cluster(keyed, func(c *fleet.Cluster) { c.Labels["env"] = "prod" }))
	hub.Requests()
	handle(t, hub)
	hubtest.ExpectRequests(t, hub, "patch Secret "+clusterNamespace+"/fleet-recovery")
	hub.Pass(time.Second)
	handle(t, hub)
	hubtest.ExpectRequests(t, hub)
}

func TestOtherClusters_GetNoRecovery(t *testing.T) {
	now := metav1.Now()
	for name, modify := range map[string]func(*fleet.Cluster){
		"for a Cluster that is being deleted": func(c *fleet.Cluster) { c.DeletionTimestamp, c.Finalizers = &now, []string{"x"} },
		"for a Cluster of another manager":    func(c *fleet.Cluster) { c.Labels = map[string]string{fleet.LabelClusterManagement: "another"} },
	} {
		t.Run(name, func(t *testing.T) {
			hub := start(t, cluster(modify))
			handle(t, hub)
			hubtest.ExpectRequests(t, hub)
		})
	}
}

func TestDeletedWorkspace_BlocksItsTickets(t *testing.T) {
	account := func(hub *hubtest.Hub) *corev1.ServiceAccount {
		return hubtest.MustGet[*corev1.ServiceAccount](t, hub, "ws", names.Recovery)
	}
	workspace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ws", UID: "u-ws"}}
	leaving := workspace.DeepCopy()
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"kubernetes"}
	for name, test := range map[string]struct {
		change func(*hubtest.Hub)
		want   bool
	}{
		"exists":                              {func(*hubtest.Hub) {}, false},
		"account is replaced":                 {func(h *hubtest.Hub) { h.Remove(account(h)) }, false},
		"is being deleted":                    {func(h *hubtest.Hub) { h.Put(leaving) }, true},
		"is being deleted, account was":       {func(h *hubtest.Hub) { h.Remove(account(h)); h.Put(leaving) }, true},
		"is gone":                             {func(h *hubtest.Hub) { h.Remove(account(h)); h.Remove(workspace) }, true},
		"never had an account, is gone":       {func(h *hubtest.Hub) { h.Remove(workspace) }, false},
		"never had an account, being deleted": {func(h *hubtest.Hub) { h.Put(leaving) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			hub := start(t, workspace)
			if !strings.HasPrefix(name, "never") {
				hub = settled(t, cluster())
			}
			test.change(hub)
			if err := hub.Handle("Namespace", "ws"); err != nil {
				t.Fatal(err)
			}
			got, err := hub.App.Recoveries.IsBlocked(t.Context(), identity.Ticket{Workspace: "ws", Cluster: "c9", Key: "k", Time: hub.Now().Add(-time.Hour)})
			if err != nil || got != test.want {
				t.Errorf("blocked %t, %v", got, err)
			}
		})
	}
}

// A hub that was restored may have a workspace without Clusters.
func TestDeletedWorkspaceWithoutClusters_BlocksItsTickets(t *testing.T) {
	hub := settled(t, cluster())
	if err := Register(t.Context(), hub.App); err != nil { // another process
		t.Fatal(err)
	}
	hub.Remove(cluster())
	leaving := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ws", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Finalizers: []string{"kubernetes"}}}
	hub.Put(leaving)
	hub.Requests()
	for range 2 {
		if err := hub.Handle("Namespace", "ws"); err != nil {
			t.Fatal(err)
		}
	}
	blocked := "ConfigMap cattle-fleet-system/" + names.SafeConcat(names.DeletedClusters, "ws", names.KeyHash("ws"))
	hubtest.ExpectOrder(t, hub.Requests(), "get "+blocked, "create "+blocked)
}

func TestRecordsOfDeletedClusters_ArePruned(t *testing.T) {
	hub := start(t)
	client := fake.NewClientset()
	hub.App.Recoveries = recoveries.New(func() kubernetes.Interface { return client }, hub.App.Namespaces.System, hub.Now)
	block := func(workspace string) {
		t.Helper()
		if err := hub.App.Recoveries.Block(t.Context(), workspace, "c1", time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	block("gone")
	hub.Pass(identity.TicketLife + time.Hour)
	block("ws")
	(&handler{app: hub.App}).prune(t.Context())
	left, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || left.Items[0].Annotations[fleet.AnnotationClusterNamespace] != "ws" {
		t.Errorf("%v, %v", left.Items, err)
	}
}
