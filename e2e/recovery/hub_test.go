package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/e2e/framework/replica"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// hub is a hub with one process of the controllers, and its agents.
type hub struct {
	*framework.User
	plane *plane.Plane
	// prefix starts the names of its agents, and is the name of their token.
	prefix string
	// front is the address at which agents register. later is the one to which the hub moves.
	front, later *faults.Proxy
	// cluster is how agents reach their cluster. west is the client of a person there.
	cluster *rest.Config
	west    kubernetes.Interface
	// bootstrap is what agents register with.
	bootstrap protocol.Bootstrap

	controllers *replica.Replica
	starts      int
	agents      []*agent
	workloads   workloads
	// stopPods ends the agents that the hub has installed.
	stopPods func()
	// registrations counts the requests that agents have made. steps counts the writes of a person on both clusters.
	registrations, steps atomic.Int64

	// clusters maps agents to the names of their Clusters. known are the registrations that were counted for them.
	clusters map[*agent]string
	known    map[string]bool
}

// newHub installs the product on the plane's hub. Everything ends with the test.
func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{
		plane: hubs.Plane(t), cluster: wests.Plane(t).Hub.Config(), prefix: strings.ToLower(strings.Split(t.Name(), "_")[0]),
		clusters: map[*agent]string{}, known: map[string]bool{}, stopPods: func() {},
	}
	h.cluster.QPS, h.workloads = -1, workloads{hub: h, seen: traces{}}
	h.front, h.later = h.newFront(t), h.newFront(t)
	t.Cleanup(func() { h.end(t) })
	var err error
	h.User, err = framework.NewUser(h.plane.LogDir, framework.Site{
		Name: framework.HubName, URL: h.later.URL, CA: slices.Concat(h.later.CA, h.later.OtherCA), Kubeconfig: h.plane.Hub.Kubeconfig, Config: h.counted(h.plane.Hub.Config()),
	})
	if err != nil {
		t.Fatal(err)
	}
	if h.west, err = kubernetes.NewForConfig(h.counted(h.cluster)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(h.configure(t.Context(), nil), h.startControllers(t.Context()), h.newToken(t.Context(), h.prefix)); err != nil {
		t.Fatal(err)
	}
	return h
}

// newFront returns an address of the hub for agents.
func (h *hub) newFront(t *testing.T) *faults.Proxy {
	t.Helper()
	front, err := faults.NewProxy(faults.Server{URL: h.plane.Hub.URL, CA: h.plane.Hub.CA}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	front.Add(faults.Rule{Match: faults.Match{Verb: "create", Resource: "clusterregistrations"}, Fault: faults.After(func(_ faults.Request, code int) {
		if code < 300 {
			h.registrations.Add(1)
		}
	})})
	return front
}

// configure installs or upgrades the hub with values.
func (h *hub) configure(ctx context.Context, values map[string]any) error {
	all := map[string]any{"bootstrap": map[string]any{"enabled": false}, "agentCredential": map[string]any{"lifetime": "24h"}}
	for key, value := range values {
		all[key] = value
	}
	return h.InstallHub(ctx, all)
}

// startControllers starts the controllers with a new token of their account, as a pod of their Deployment.
func (h *hub) startControllers(ctx context.Context) error {
	if err := h.killControllers(ctx); err != nil {
		return err
	}
	token, err := h.Hub.Kube.CoreV1().ServiceAccounts(names.SystemNamespace).CreateToken(ctx, "fleet-controller", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	h.starts++
	name := fmt.Sprintf("controllers-%s-%d", h.prefix, h.starts)
	file := filepath.Join(h.plane.Hub.LogDir, name+".kubeconfig")
	content, err := pki.Access{Name: "hub", URL: h.plane.Hub.URL, CA: h.plane.Hub.CA, Token: token.Status.Token}.Kubeconfig()
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return err
	}
	h.controllers, err = replica.Start(replica.Options{
		Name: name, Folder: h.plane.Hub.LogDir, Kubeconfig: file, Args: []string{"--disable-bootstrap", "--debug"},
	})
	return err
}

// killControllers kills the controllers, and lets the next ones lead at once.
func (h *hub) killControllers(ctx context.Context) error {
	if h.controllers == nil {
		return nil
	}
	h.controllers.Kill()
	return h.controllers.Bury(ctx, h.Hub.Kube)
}

// newToken creates the token of all agents.
func (h *hub) newToken(ctx context.Context, name string) error {
	values, err := h.TokenValues(ctx, name)
	if err != nil {
		return err
	}
	text := func(key string) string { value, _ := values[key].(string); return value }
	h.bootstrap = protocol.Bootstrap{
		APIServerURL: h.front.URL, APIServerCA: h.front.CA, ClusterNamespace: framework.Workspace, Token: text("token"), TokenName: name,
		SystemRegistrationNamespace: names.RegistrationNamespace(names.SystemNamespace),
	}
	return nil
}

// agentName returns the name of an agent.
func (h *hub) agentName(i int) string { return fmt.Sprintf("%s-%03d", h.prefix, i) }

// join installs agents and waits until they have reported.
func (h *hub) join(t *testing.T, from, to int) []*agent {
	t.Helper()
	var joined []*agent
	for i := from; i < to; i++ {
		a, err := h.newAgent(h.agentName(i))
		if err == nil {
			err = a.install(t.Context(), h.bootstrap)
		}
		if err != nil {
			t.Fatal(err)
		}
		a.start()
		joined = append(joined, a)
	}
	h.awaitJoined(t, joined)
	return joined
}

// awaitJoined waits until agents have reported for the first time.
func (h *hub) awaitJoined(t *testing.T, joined []*agent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	h.agents = append(h.agents, joined...)
	for _, a := range joined {
		if _, err := a.awaitReturn(ctx, time.Time{}, "", false); err != nil {
			t.Fatal(err)
		}
		name, err := h.clusterOf(ctx, a)
		if err != nil {
			t.Fatal(err)
		}
		h.clusters[a] = name
	}
	h.registeredBy(h.agents)
}

// clusterOf returns the name of the Cluster in the agent's Secret.
func (h *hub) clusterOf(ctx context.Context, a *agent) (string, error) {
	secret, err := h.west.CoreV1().Secrets(a.name).Get(ctx, names.Agent, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	stored, err := protocol.ParseIdentity(secret.Data)
	return stored.ClusterName, err
}

// awaitRecoverable waits until every agent has what it needs to recover.
func (h *hub) awaitRecoverable(t *testing.T, agents []*agent) {
	t.Helper()
	for _, a := range agents {
		_, err := client.Until(t.Context(), client.Await{
			From: h.west.CoreV1().RESTClient(), Resource: "secrets", Namespace: metav1.NamespaceSystem, Name: names.RecoverySecret(a.name),
			For: "the recovery data of agent " + a.name, Within: patience,
		}, func(s *corev1.Secret) bool { return len(s.Data["recoveryTicket"]) > 0 })
		if err != nil {
			t.Fatal(err)
		}
	}
}

// awaitAddressKnown waits until the hub knows that each agent has the current address.
func (h *hub) awaitAddressKnown(t *testing.T, agents []*agent) {
	t.Helper()
	for _, a := range agents {
		_, err := client.Until(t.Context(), client.Await{
			From: h.Hub.Fleet, Resource: client.Clusters, Namespace: framework.Workspace, Name: h.clusters[a],
			For: "AddressKnown of agent " + a.name, Within: patience,
		}, func(c *fleet.Cluster) bool {
			known := conditions.Get(c.Status.Conditions, conditions.AddressKnown)
			return known != nil && known.Status == corev1.ConditionTrue
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// registeredBy returns how many registrations of these agents exist that were not counted before.
func (h *hub) registeredBy(agents []*agent) (found int) {
	var all fleet.ClusterRegistrationList
	if err := h.Hub.List(context.Background(), client.ClusterRegistrations, framework.Workspace, &all); err != nil {
		return -1
	}
	of := map[string]bool{}
	for _, a := range agents {
		of[h.clusters[a]] = true
	}
	for i := range all.Items {
		if r := &all.Items[i]; of[r.Status.ClusterName] && !h.known[string(r.UID)] {
			h.known[string(r.UID)] = true
			found++
		}
	}
	return found
}

// expectSameClusters checks that each agent belongs to the Cluster of before, and that there is no other.
func (h *hub) expectSameClusters(t *testing.T) {
	t.Helper()
	for _, a := range h.agents {
		name, err := h.clusterOf(t.Context(), a)
		if err != nil || name != h.clusters[a] {
			t.Errorf("agent %s belongs to Cluster %q, before to %q: %v", a.name, name, h.clusters[a], err)
		}
	}
	var all fleet.ClusterList
	if err := h.Hub.List(t.Context(), client.Clusters, framework.Workspace, &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Items) != len(h.agents) {
		t.Errorf("%d Clusters for %d agents", len(all.Items), len(h.agents))
	}
}

// accountOf returns the account of an agent on the hub.
func (h *hub) accountOf(ctx context.Context, a *agent) (*corev1.ServiceAccount, error) {
	secret, err := h.west.CoreV1().Secrets(a.name).Get(ctx, names.Agent, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	stored, err := protocol.ParseIdentity(secret.Data)
	if err != nil {
		return nil, err
	}
	token, err := protocol.ParseAccountToken(a.token())
	if err != nil {
		return nil, err
	}
	accounts, err := h.Hub.Kube.CoreV1().ServiceAccounts(stored.DeploymentNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range accounts.Items {
		if string(accounts.Items[i].UID) == token.AccountUID {
			return &accounts.Items[i], nil
		}
	}
	return nil, fmt.Errorf("the account of agent %s does not exist", a.name)
}

// deleteAccount deletes the account of an agent on the hub.
func (h *hub) deleteAccount(ctx context.Context, a *agent) error {
	account, err := h.accountOf(ctx, a)
	if err != nil {
		return err
	}
	return h.Hub.Kube.CoreV1().ServiceAccounts(account.Namespace).Delete(ctx, account.Name, metav1.DeleteOptions{})
}

// expire makes the hub reject an agent's stored token, while its account stays, as after its expiry: it replaces the
// token with one that was bound to a Secret that no longer exists.
func (h *hub) expire(ctx context.Context, a *agent) error {
	account, err := h.accountOf(ctx, a)
	if err != nil {
		return err
	}
	namespace, name := account.Namespace, account.Name
	secrets := h.Hub.Kube.CoreV1().Secrets(namespace)
	bound, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "expires"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	token, err := h.Hub.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: bound.Name, UID: bound.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := secrets.Delete(ctx, bound.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	own := h.west.CoreV1().Secrets(a.name)
	stored, err := own.Get(ctx, names.Agent, metav1.GetOptions{})
	if err != nil {
		return err
	}
	access, err := clientcmd.Load(stored.Data[protocol.KubeconfigKey])
	if err != nil {
		return err
	}
	for _, user := range access.AuthInfos {
		user.Token = token.Status.Token
	}
	if stored.Data[protocol.KubeconfigKey], err = clientcmd.Write(*access); err != nil {
		return err
	}
	_, err = own.Update(ctx, stored, metav1.UpdateOptions{})
	return err
}

// end ends the agents and the controllers.
func (h *hub) end(t *testing.T) {
	t.Helper()
	h.stopPods()
	var stopping sync.WaitGroup
	for _, a := range h.agents {
		stopping.Go(a.stop)
	}
	stopping.Wait()
	if err := errors.Join(h.killControllers(context.Background()), h.front.Close(), h.later.Close()); err != nil {
		t.Error(err)
	}
}

// each does something for each agent, some at a time.
func each(agents []*agent, do func(*agent) error) error {
	var working sync.WaitGroup
	limit, failed := make(chan struct{}, 16), make([]error, len(agents))
	for i, a := range agents {
		limit <- struct{}{}
		working.Go(func() { failed[i] = do(a); <-limit })
	}
	working.Wait()
	return errors.Join(failed...)
}
