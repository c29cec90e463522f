package register

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var errKilled = errors.New("the process was killed")

// mortal is a process that is killed right after so many of its requests have done what they do, to the hub or to
// its own cluster. The dead make none.
type mortal struct {
	dies context.CancelFunc

	mu   sync.Mutex
	left int
	dead bool
	last string // request
}

// request counts one; the error is that of the dead.
func (m *mortal) request(what string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errKilled
	}
	m.left--
	m.last = what
	if m.left == 0 {
		m.dead = true
		m.dies()
	}
	return nil
}

// local counts the requests to the agent's own cluster; those of its watches apart, of which each process begins
// with some.
func (m *mortal) local(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetVerb() == "list" || action.GetVerb() == "watch" {
		return false, nil, nil
	}
	err := m.request(action.GetVerb() + " " + action.GetResource().Resource)
	return err != nil, nil, err
}

// hub counts those to the hub.
func (m *mortal) hub(h hubclient.Hub) hubclient.Hub { return mortalHub{m, h} }

type mortalHub struct {
	*mortal
	next hubclient.Hub
}

func (m mortalHub) Register(ctx context.Context, request *fleet.ClusterRegistration) (*fleet.ClusterRegistration, error) {
	if err := m.request("create clusterregistrations"); err != nil {
		return nil, err
	}
	return m.next.Register(ctx, request)
}

func (m mortalHub) Credential(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	if err := m.request("get credential"); err != nil {
		return nil, err
	}
	return m.next.Credential(ctx, namespace, name)
}

func (m mortalHub) Document(ctx context.Context) (string, error) {
	if err := m.request("get document"); err != nil {
		return "", err
	}
	return m.next.Document(ctx)
}

func (m mortalHub) WatchCredential(ctx context.Context, namespace, name string) (watch.Interface, error) {
	if err := m.request("watch credential"); err != nil {
		return nil, err
	}
	return m.next.WatchCredential(ctx, namespace, name)
}

func (m mortalHub) Prove(ctx context.Context, namespace string) error {
	if err := m.request("list bundledeployments"); err != nil {
		return err
	}
	return m.next.Prove(ctx, namespace)
}

func (m mortalHub) Renew(ctx context.Context, namespace, account string, lifetime time.Duration) (string, error) {
	if err := m.request("create serviceaccounts/token"); err != nil {
		return "", err
	}
	return m.next.Renew(ctx, namespace, account, lifetime)
}

// The next process ends with a complete working identity, without a bootstrap secret, and sends at most one more
// request. An agent that had an identity has one all the time.
func TestAgentKilledAfterAnyRequest_NextProcessHasAnIdentity(t *testing.T) {
	tests := map[string]struct {
		prepare func(t *testing.T, w *world)
		// identity is there from the beginning.
		identity bool
		// requests are those of an agent nobody kills.
		requests int
	}{
		"while it registers": {requests: 1, prepare: func(_ *testing.T, w *world) { w.bootstrapSecret("import-1") }},
		"while it registers again": {requests: 1, identity: true, prepare: func(_ *testing.T, w *world) {
			w.identitySecret("account-0") // which the hub does not know
			w.bootstrapSecret("import-1")
		}},
		"while it stores another address": {requests: 0, identity: true, prepare: func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.bootstrapSecret("import-1", at(movedURL))
		}},
		"while it deletes an unneeded bootstrap secret": {requests: 0, identity: true, prepare: func(_ *testing.T, w *world) {
			w.accounts["account-0"] = true
			w.identitySecret("account-0")
			w.bootstrapSecret("import-1")
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			killed := 0
			for steps, alive := 1, false; !alive; steps++ {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					test.prepare(t, w)
					m := &mortal{left: steps}
					w.mortal = m
					w.local.PrependReactor("*", "*", m.local)
					w.run(time.Minute)
					if alive = !m.dead; !alive {
						killed++
						w.expectIdentity(test.identity, m.last)
					}
					w.mortal, m.dead, m.left = nil, false, -1 // the next process, and requests that nobody counts
					w.run(time.Minute)
					w.expectJoined(test.requests, m.last)
				})
			}
			if killed < 4 {
				t.Errorf("killed at %d steps: it makes more requests than that", killed)
			}
		})
	}
}

// expectIdentity fails if a Secret fleet-agent is there that is not whole, or none is where there was one.
func (w *world) expectIdentity(required bool, after string) *protocol.Identity {
	w.t.Helper()
	found, err := w.local.Tracker().Get(corev1.SchemeGroupVersion.WithResource("secrets"), agentNS, names.Agent)
	if err != nil {
		if required {
			w.t.Errorf("killed after %s: no identity: %v", after, err)
		}
		return nil
	}
	secret, ok := found.(*corev1.Secret)
	if !ok {
		w.t.Fatalf("%T is no Secret", found)
	}
	identity, err := protocol.ParseIdentity(secret.Data)
	access, accessErr := hubclient.ParseKubeconfig(identity.Kubeconfig)
	if err = errors.Join(err, accessErr); err != nil {
		w.t.Errorf("killed after %s: half an identity: %v", after, err)
		return nil
	}
	want := protocol.Identity{
		Kubeconfig: identity.Kubeconfig, DeploymentNamespace: access.Namespace, ClusterNamespace: "fleet-default", ClusterName: "a",
	}
	if diff := cmp.Diff(want, identity); diff != "" {
		w.t.Errorf("killed after %s (-want +got):\n%s", after, diff)
	}
	return &identity
}

// expectJoined fails unless the agent is as one that nobody has killed, but for one request more.
func (w *world) expectJoined(requests int, after string) {
	w.t.Helper()
	identity := w.expectIdentity(true, after)
	w.expectMissing(names.AgentBootstrap)
	if made := len(w.requests); made < requests || made > requests+1 {
		w.t.Errorf("killed after %s: %d requests, %d without that", after, made, requests)
	}
	access, err := hubclient.ParseKubeconfig(identity.Kubeconfig)
	if err != nil {
		w.t.Fatal(err)
	}
	if !w.accounts[access.Token] {
		w.t.Errorf("killed after %s: the hub does not know %s", after, access.Token)
	}
}
