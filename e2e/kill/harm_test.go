package kill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// while is the duration of a fault. A client that retries with growing pauses tries about nine times in it.
const while = 1500 * time.Millisecond

// often is more attempts than a client with pauses can make while a fault lasts.
const often = 20

// harm is a failure of a hub while an agent registers.
type harm struct {
	// begin starts the failure, heal ends it. Agents join after that.
	begin func(ctx context.Context, h *hub) (heal func() error, err error)
	// tries matches requests that are retried during the failure. Nil means that retries are not checked.
	tries *faults.Match
}

// on adds a rule to both replicas' proxies.
func (h *hub) on(match faults.Match, fault faults.Fault) (end func() error) {
	var active []*faults.Active
	for _, s := range h.slots {
		active = append(active, s.proxy.Add(faults.Rule{Match: match, Fault: fault}))
	}
	return func() error {
		for _, a := range active {
			a.End()
		}
		return nil
	}
}

// refusing returns a failure by a webhook that rejects requests or does not answer.
func refusing(group, resource string, silent bool) func(context.Context, *hub) (func() error, error) {
	return func(ctx context.Context, h *hub) (func() error, error) {
		w, err := h.refuse(ctx, group, resource, silent)
		if err != nil {
			return nil, err
		}
		return func() error { return w.end(ctx) }, nil
	}
}

// harms returns the failures, which happen one after another on one hub.
func harms() map[string]harm {
	creates := func(resource string) *faults.Match { return &faults.Match{Verb: "create", Resource: resource} }
	return map[string]harm{
		"the resource versions of all watches have expired": {
			tries: &faults.Match{Resource: "clusterregistrations", If: func(r faults.Request) bool { return r.Verb == "watch" || r.Verb == "list" }},
			begin: func(_ context.Context, h *hub) (func() error, error) {
				goesOn := func(r faults.Request) bool { return r.Version != "" }
				end := h.on(faults.Match{Verb: "watch", If: goesOn}, faults.ExpiredWatch())
				h.cut()
				return end, nil
			},
		},
		"connections die without a reset": {begin: func(_ context.Context, h *hub) (func() error, error) {
			for _, s := range h.slots {
				s.wire.Abandon()
			}
			return func() error { return nil }, nil
		}},
		"all connections are cut": {begin: func(_ context.Context, h *hub) (func() error, error) {
			h.cut()
			return func() error { return nil }, nil
		}},
		"a webhook denies credentials":       {tries: creates("secrets"), begin: refusing("", "secrets", false)},
		"a webhook denies accounts":          {tries: creates("serviceaccounts"), begin: refusing("", "serviceaccounts", false)},
		"a webhook denies Clusters":          {tries: creates("clusters"), begin: refusing("fleet.cattle.io", "clusters", false)},
		"a webhook is silent about accounts": {tries: creates("serviceaccounts"), begin: refusing("", "serviceaccounts", true)},
		"the API server answers 500 to every write": {tries: creates("clusters"), begin: func(_ context.Context, h *hub) (func() error, error) {
			return h.on(faults.Match{Verb: "write", If: countsAsWrite}, faults.Answer(http.StatusInternalServerError)), nil
		}},
		"the API server answers 429 to everything": {tries: creates("clusters"), begin: func(_ context.Context, h *hub) (func() error, error) {
			return h.on(faults.Match{If: countsAsWrite}, faults.Answer(http.StatusTooManyRequests)), nil
		}},
		"the answer to every creation is lost": {tries: creates("serviceaccounts"), begin: func(_ context.Context, h *hub) (func() error, error) {
			return h.on(faults.Match{Verb: "create", If: countsAsWrite}, faults.LostAfter()), nil
		}},
	}
}

// cut resets the replicas' connections.
func (h *hub) cut() {
	for _, s := range h.slots {
		s.proxy.Cut()
	}
}

// capped requests a token with a shorter lifetime, as a hub does that limits lifetimes.
func capped(request *http.Request, _ faults.Request, next func() (*http.Response, error)) (*http.Response, error) {
	request.Header.Set("Accept", "application/json")
	answer, err := next()
	if err != nil || answer.StatusCode >= 300 {
		return answer, err
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	_ = answer.Body.Close() // the body was read
	var given authenticationv1.TokenRequest
	if err := json.Unmarshal(body, &given); err != nil {
		return nil, fmt.Errorf("%w: %s", err, answer.Header.Get("Content-Type"))
	}
	hour := int64(3600)
	given.Spec.ExpirationSeconds = &hour
	if body, err = json.Marshal(given); err != nil {
		return nil, err
	}
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer.Header.Del("Content-Length")
	return answer, nil
}

// witness records all credentials and ServiceAccounts that ever existed, and reports forbidden states.
type witness struct {
	mu     sync.Mutex
	never  []string
	ending sync.WaitGroup
}

// see starts the watches. done ends them.
func (w *witness) see(ctx context.Context, h *hub) (done func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	secrets, err := h.Hub.Kube.CoreV1().Secrets(names.RegistrationNamespace(names.SystemNamespace)).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		return nil, err
	}
	accounts, err := h.Hub.Kube.CoreV1().ServiceAccounts("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		return nil, err
	}
	w.ending.Go(func() {
		for event := range secrets.ResultChan() {
			secret, ok := event.Object.(*corev1.Secret)
			if ok && event.Type != watch.Deleted && secret.Type == protocol.SecretTypeCredential && len(secret.Data["token"]) == 0 {
				w.saw("a credential without a token: " + secret.Name)
			}
		}
	})
	w.ending.Go(func() {
		for event := range accounts.ResultChan() {
			account, ok := event.Object.(*corev1.ServiceAccount)
			if ok && event.Type == watch.Deleted && account.Labels["fleet.cattle.io/managed"] == "true" {
				w.saw("an account that was deleted: " + account.Namespace + "/" + account.Name)
			}
		}
	})
	return func() {
		cancel()
		w.ending.Wait()
	}, nil
}

func (w *witness) saw(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.never = append(w.never, what)
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// join adds an agent and starts its registration.
func (h *hub) join(ctx context.Context, clientID string) *swarm.Agent {
	agent := h.swarm.Add(swarm.Settings{ClientID: clientID, RegisterAgain: true})
	h.swarm.Start(ctx, agent)
	return agent
}

func TestFailuresOfAHub_DoNotBreakRegistration(t *testing.T) {
	h := harmedHub(t)
	n := 0
	told := harms()
	for _, name := range slices.Sorted(maps.Keys(told)) {
		harm := told[name]
		n++
		clientID := fmt.Sprintf("harmed-%02d", n)
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			g := NewWithT(t)
			w := &witness{}
			done, err := w.see(ctx, h)
			g.Expect(err).NotTo(HaveOccurred())
			tried := h.count(harm.tries)
			heal, err := harm.begin(ctx, h)
			g.Expect(err).NotTo(HaveOccurred())
			heal = sync.OnceValue(heal)
			defer func() { g.Expect(heal()).To(Succeed()) }()
			agent := h.join(ctx, clientID)
			defer agent.Stop()
			wait(ctx, while)
			t.Logf("%d tries in %s", tried(), while)
			g.Expect(tried()).To(BeNumerically("<", often))
			g.Expect(heal()).To(Succeed())
			g.Expect(agent.Await(ctx, swarm.Settled)).To(Succeed())
			expectRegisteredOnce(t, ctx, h, []*swarm.Agent{agent})
			done()
			g.Expect(w.never).To(BeEmpty())
		})
	}
}

// count returns a function that returns the number of requests since now.
func (h *hub) count(match *faults.Match) func() int {
	if match == nil {
		return func() int { return 0 }
	}
	var mu sync.Mutex
	counted := 0
	for _, s := range h.slots {
		s.proxy.First(faults.Rule{Match: *match, Fault: faults.Before(func(faults.Request) {
			mu.Lock()
			defer mu.Unlock()
			counted++
		})})
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return counted
	}
}

func TestShortTokensAndSlowTokenController_AgentsStillRegister(t *testing.T) {
	g, h := NewWithT(t), harmedHub(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	asks := faults.Match{Verb: "create", Resource: "serviceaccounts/token"}
	uncap := h.on(asks, capped)
	defer func() { g.Expect(uncap()).To(Succeed()) }()
	w := &witness{}
	done, err := w.see(ctx, h)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(h.cluster.HoldControllers(true)).To(Succeed())
	defer func() { g.Expect(h.cluster.HoldControllers(false)).To(Succeed()) }()
	tried := h.count(&asks)
	agent := h.join(ctx, "long-lived")
	wait(ctx, while)
	g.Expect(tried()).To(BeNumerically("<", often))
	g.Expect(agent.Credential()).To(BeNil())
	g.Expect(h.cluster.HoldControllers(false)).To(Succeed())
	g.Expect(agent.Await(ctx, swarm.Settled)).To(Succeed())
	expectRegisteredOnce(t, ctx, h, []*swarm.Agent{agent})
	done()
	g.Expect(w.never).To(BeEmpty())
	filled, err := h.Hub.Kube.CoreV1().Secrets(agent.Credential().DeploymentNamespace).List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(filled.Items).To(HaveLen(1))
	g.Expect(agent.Credential().Token).To(Equal(string(filled.Items[0].Data[corev1.ServiceAccountTokenKey])))
	agent.Stop()
}

func TestTerminatingNamespaceOfAFormerCluster_ClusterReturnsLater(t *testing.T) {
	g, h := NewWithT(t), harmedHub(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	agent := h.join(ctx, "returns")
	g.Expect(agent.Await(ctx, swarm.Settled)).To(Succeed())
	before := agent.Credential()
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept", Finalizers: []string{"example.com/wait"}}}
	kept, err := h.Hub.Kube.CoreV1().ConfigMaps(before.DeploymentNamespace).Create(ctx, kept, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	g.Expect(h.Hub.Delete(ctx, client.Clusters, framework.Workspace, before.ClusterName)).To(Succeed())
	agent.Stop()
	g.Eventually(func(g Gomega) { // otherwise the controllers could use the Cluster that is being deleted
		namespace, err := h.Hub.Kube.CoreV1().Namespaces().Get(ctx, before.DeploymentNamespace, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(namespace.DeletionTimestamp).NotTo(BeNil())
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
	agent = h.join(ctx, "returns") // the same cluster, with only its token
	defer agent.Stop()
	tried := h.count(&faults.Match{Verb: "write", If: countsAsWrite})
	wait(ctx, while)
	t.Logf("%d writes in %s", tried(), while)
	g.Expect(tried()).To(BeNumerically("<", 2*often))
	g.Expect(agent.Credential()).To(BeNil())

	_, err = h.Hub.Kube.CoreV1().ConfigMaps(kept.Namespace).Patch(ctx, kept.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(agent.Await(ctx, swarm.Settled)).To(Succeed())
	expectRegisteredOnce(t, ctx, h, []*swarm.Agent{agent})
}
