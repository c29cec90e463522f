package kill_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/e2e/framework/replica"
	"github.com/fleet-hub/fleet/e2e/framework/swarm"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// hub is a hub with two replicas of the controllers, each behind its own proxy.
type hub struct {
	*framework.User
	cluster *plane.Cluster
	folder  string // directory of kubeconfigs and logs
	swarm   *swarm.Swarm
	added   []*swarm.Agent // by the kill story, in order; the latest of each
	slots   [2]*slot
	writes  *writes

	election replica.Election

	mu       sync.Mutex // guards the fields below
	stopped  bool
	failed   error
	replicas []*replica.Replica // all replicas that were started
}

// slot is the place of one replica at a time: replica ─► wire ─► proxy ─► API server.
type slot struct {
	wire       *faults.Wire
	proxy      *faults.Proxy
	kubeconfig string

	mu  sync.Mutex
	now *replica.Replica
}

func (s *slot) current() *replica.Replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// address is the URL that both hubs send to their agents. The hubs' real URLs differ, and so would all objects
// that contain them. The agents of this test do not use it.
const address = "https://hub.example"

// newHub installs the product on a cluster and starts two replicas with these election times.
func newHub(ctx context.Context, cluster *plane.Cluster, times replica.Election) (*hub, error) {
	user, err := framework.NewUser(cluster.LogDir, framework.Site{
		Name: framework.HubName, URL: address, CA: []byte("-----BEGIN CERTIFICATE-----\nnobody's\n-----END CERTIFICATE-----\n"), Kubeconfig: cluster.Kubeconfig, Config: cluster.Config(),
	})
	if err != nil {
		return nil, err
	}
	h := &hub{User: user, cluster: cluster, folder: cluster.LogDir, election: times, writes: newWrites()}
	if err := h.InstallHub(ctx, map[string]any{"bootstrap": map[string]any{"enabled": false}}); err != nil {
		return nil, err
	}
	account := &authenticationv1.TokenRequest{}
	account, err = h.Hub.Kube.CoreV1().ServiceAccounts(names.SystemNamespace).CreateToken(ctx, "fleet-controller", account, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	for i := range h.slots {
		if h.slots[i], err = h.newSlot(i, account.Status.Token); err != nil {
			return nil, err
		}
		if err := h.start(h.slots[i]); err != nil {
			return nil, err
		}
	}
	return h, h.gather(ctx)
}

func (h *hub) newSlot(number int, token string) (*slot, error) {
	proxy, err := faults.NewProxy(faults.Server{URL: h.cluster.URL, CA: h.cluster.CA}, time.Now())
	if err != nil {
		return nil, err
	}
	wire, err := faults.NewWire(proxy.URL)
	if err != nil {
		return nil, err
	}
	s := &slot{proxy: proxy, wire: wire, kubeconfig: filepath.Join(h.folder, fmt.Sprintf("kubeconfig-%d", number))}
	content, err := pki.Access{Name: "hub", URL: wire.URL, CA: proxy.CA, Token: token}.Kubeconfig()
	if err != nil {
		return nil, err
	}
	proxy.Add(faults.Rule{Match: faults.Match{Verb: "write", If: countsAsWrite}, Fault: faults.After(func(about faults.Request, code int) {
		if code < 300 {
			h.writes.wrote(s, about)
		}
	})})
	return s, os.WriteFile(s.kubeconfig, content, 0o600)
}

// start starts a replica in the slot, and another one whenever it ends, as a Deployment does.
func (h *hub) start(s *slot) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return nil
	}
	r, err := replica.Start(replica.Options{
		Name: fmt.Sprintf("replica-%d", len(h.replicas)+1), Folder: h.folder, Kubeconfig: s.kubeconfig, Election: h.election,
		Args: []string{"--disable-bootstrap"},
		Env:  []string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS=2", "HTTP2_PING_TIMEOUT_SECONDS=1"}, // so that a dead connection is detected soon
	})
	if err != nil {
		return err
	}
	h.replicas = append(h.replicas, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = r
	go func() {
		<-r.Ended()
		if err := h.start(s); err != nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.failed = errors.Join(h.failed, err)
		}
	}()
	return nil
}

// started returns the number of replicas that were started so far.
func (h *hub) started() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.replicas)
}

// gone returns the number of replicas that have exited without a signal so far.
func (h *hub) gone() (count int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.replicas {
		select {
		case <-r.Ended():
			if r.ExitCode() >= 0 { // no signal
				count++
			}
		default:
		}
	}
	return count
}

// gather creates a token and a swarm that uses it.
func (h *hub) gather(ctx context.Context) error {
	chart, err := h.TokenValues(ctx, "swarm")
	if err != nil {
		return err
	}
	values, err := swarm.Values(chart)
	if err != nil {
		return err
	}
	values.APIServerURL, values.APIServerCA = h.cluster.URL, string(h.cluster.CA)
	h.swarm = swarm.New(swarm.Options{Values: values})
	return nil
}

// stop stops the replicas.
func (h *hub) stop() error {
	h.mu.Lock()
	h.stopped = true
	failed := []error{h.failed}
	h.mu.Unlock()
	for _, s := range h.slots {
		if s == nil {
			continue
		}
		if r := s.current(); r != nil {
			r.Kill()
		}
		s.wire.Close()
		failed = append(failed, s.proxy.Close())
	}
	return errors.Join(failed...)
}
