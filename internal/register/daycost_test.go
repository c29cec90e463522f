package register

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
)

// requestCounts counts the requests of an agent to the hub and to its own cluster.
type requestCounts struct {
	mu       sync.Mutex
	hub, own map[string]int
	version  int
}

func (c *requestCounts) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hub, c.own = map[string]int{}, map[string]int{}
}

func (c *requestCounts) toHub(request string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hub[request]++
}

// toOwn counts a request to the agent's own cluster. It gives a written object a version, as an API server does.
func (c *requestCounts) toOwn(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own[action.GetVerb()+" "+action.GetResource().Resource]++
	if write, isWrite := action.(clienttesting.UpdateAction); isWrite {
		if object, ok := write.GetObject().(metav1.Object); ok {
			c.version++
			object.SetResourceVersion(strconv.Itoa(c.version))
		}
	}
	return false, nil, nil
}

// listed returns counts as text.
func (c *requestCounts) listed() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for where, counts := range map[string]map[string]int{"hub": c.hub, "own": c.own} {
		for request, n := range counts {
			all = append(all, fmt.Sprintf("%s: %d %s", where, n, request))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// countedHub counts what an agent that has an identity sends to the hub.
type countedHub struct {
	hubclient.Hub
	*requestCounts
}

func (h countedHub) Credential(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	h.toHub("get " + name)
	return h.Hub.Credential(ctx, namespace, name)
}

func (h countedHub) Prove(ctx context.Context, namespace string) error {
	h.toHub("list bundledeployments")
	return h.Hub.Prove(ctx, namespace)
}

func (h countedHub) Document(ctx context.Context) (string, error) {
	h.toHub("get document")
	return h.Hub.Document(ctx)
}

func (h countedHub) Renew(ctx context.Context, namespace, account string, lifetime time.Duration) (string, error) {
	h.toHub("create token")
	return h.Hub.Renew(ctx, namespace, account, lifetime)
}

// An agent whose token lasts a day sends at most eight requests a day to the hub and four to its own cluster because of
// its identity: at most two renewals of four and two requests. The requests of ten days are counted, after the first day.
func TestAgentAtRest_SendsEightAndFourRequestsADay(t *testing.T) {
	for name, test := range map[string]struct {
		random   io.Reader
		renewals int // zero means any number that is possible
	}{
		"renewals after 12 hours": {byteReader(0), 20},
		"renewals after 15 hours": {zeros{}, 16},
		"renewals after 18 hours": {byteReader(255), 13},
		"renewals at random":      {rand.NewChaCha8([32]byte{1}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const day = 24 * time.Hour
				w, c := newWorld(t), &requestCounts{hub: map[string]int{}, own: map[string]int{}}
				k := w.keeper()
				k.keep(w, func(data map[string][]byte) { data["serial"] = []byte("5") })
				w.document = k.sign(w, identity.Document{URL: hubURL, CA: w.ca, Lifetime: day, Serial: 5, AddressSerial: 5})
				first := tokenFor(0, day)
				w.accounts[first] = true
				w.identitySecret(first)
				w.local.PrependReactor("*", "*", c.toOwn)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() {
					ended <- Run(ctx, Options{
						Local: w.local, Namespace: agentNS, Clock: time.Now, Random: test.random,
						Connect: func(cfg *rest.Config) (hubclient.Hub, error) {
							hub, err := w.connect(cfg)
							return countedHub{hub, c}, err
						},
					}, func(ctx context.Context, _ Session) error { <-ctx.Done(); return ctx.Err() })
				}()
				<-time.After(day + time.Hour)
				synctest.Wait()
				c.reset()
				<-time.After(10 * day)
				synctest.Wait()
				n := c.hub["create token"]
				if test.renewals > 0 && n != test.renewals || n < 13 || n > 20 {
					t.Errorf("renewed %d times", n)
				}
				want := fmt.Sprintf("hub: %d create token, hub: %d get document, hub: %d get fleet-recovery, hub: %d list bundledeployments, own: %d get secrets, own: %d update secrets", n, n, n, n, n, n)
				if got := c.listed(); got != want {
					t.Errorf("requests in ten days:\n%s\nwant:\n%s", got, want)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
