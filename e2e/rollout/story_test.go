package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/e2e/framework/replica"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// hub is a hub with one process of the controllers at a time: replica ─► proxy ─► API server.
type hub struct {
	*framework.User
	cluster    *plane.Cluster
	proxy      *faults.Proxy
	kubeconfig string

	// turn lets one BundleDeployment be written after the other, so that it is known what was written before the end
	// of a replica, and that nothing is after it.
	turn sync.Mutex

	mu      sync.Mutex // guards what follows
	now     *replica.Replica
	started int
	dead    bool
	story   *story
	idle    *sync.Cond // underWay has become 0
	// underWay is how many writes of BundleDeployments have reached the proxy and have no answer.
	underWay int
}

// newHub installs the product and starts the controllers.
func newHub(t testing.TB, ctx context.Context) *hub {
	t.Helper()
	cluster := control.Plane(t).Hub
	user, err := framework.NewUser(cluster.LogDir, framework.Site{
		Name: framework.HubName, URL: cluster.URL, CA: cluster.CA, Kubeconfig: cluster.Kubeconfig, Config: cluster.Config(),
	})
	must(t, err)
	h := &hub{User: user, cluster: cluster, kubeconfig: filepath.Join(cluster.LogDir, "controllers-kubeconfig")}
	h.idle = sync.NewCond(&h.mu)
	must(t, h.InstallHub(ctx, map[string]any{"bootstrap": map[string]any{"enabled": false}}))
	account, err := h.Hub.Kube.CoreV1().ServiceAccounts(names.SystemNamespace).CreateToken(ctx, "fleet-controller", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	h.proxy, err = faults.NewProxy(faults.Server{URL: cluster.URL, CA: cluster.CA}, time.Now())
	must(t, err)
	content, err := pki.Access{Name: "hub", URL: h.proxy.URL, CA: h.proxy.CA, Token: account.Status.Token}.Kubeconfig()
	must(t, err)
	must(t, os.WriteFile(h.kubeconfig, content, 0o600))
	h.proxy.Add(faults.Rule{Match: faults.Match{Verb: "write", Resource: "bundledeployments"}, Fault: h.oneByOne})
	h.proxy.Add(faults.Rule{Match: faults.Match{Verb: "watch", Resource: "bundledeployments"}, Fault: late})
	must(t, h.start())
	t.Cleanup(func() {
		h.now.Kill()
		must(t, h.proxy.Close())
	})
	return h
}

func (h *hub) start() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started++
	r, err := replica.Start(replica.Options{
		Name: fmt.Sprintf("replica-%d", h.started), Folder: h.cluster.LogDir, Kubeconfig: h.kubeconfig,
		Args: []string{"--disable-bootstrap", "--debug"},
	})
	h.now, h.dead = r, false
	return err
}

// listen tells a story of every write from now on.
func (h *hub) listen(s *story) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.died = make(chan struct{}, 1)
	s.next = s.random.Intn(7) + 1
	h.story = s
}

// oneByOne sends writes on one after the other. What a dead replica has asked for, and was not sent yet, is lost.
func (h *hub) oneByOne(_ *http.Request, _ faults.Request, next func() (*http.Response, error)) (*http.Response, error) {
	h.mu.Lock()
	h.underWay++
	h.mu.Unlock()
	h.turn.Lock()
	defer h.turn.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.underWay--; h.underWay == 0 {
			h.idle.Broadcast()
		}
	}()
	h.mu.Lock()
	lost := h.dead
	h.mu.Unlock()
	if lost {
		return nil, faults.ErrLost
	}
	answer, err := next()
	if err == nil && answer.StatusCode < http.StatusMultipleChoices {
		h.wrote()
	}
	return answer, err
}

// wrote counts a write that was taken, and of which its writer does not know yet. It may be the writer's last.
func (h *hub) wrote() {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.story
	if s == nil || s.left == 0 {
		return
	}
	s.writes++
	if s.next--; s.next > 0 {
		return
	}
	s.left--
	s.next = s.random.Intn(7) + 1
	h.dead = true
	h.now.Kill()
	s.died <- struct{}{}
}

// quiet waits until nothing of a dead replica is on its way, and gives back the leases that it held.
func (h *hub) quiet(ctx context.Context) error {
	h.mu.Lock()
	for h.underWay > 0 {
		h.idle.Wait()
	}
	dead := h.now
	h.mu.Unlock()
	return dead.Bury(ctx, h.Hub.Kube)
}

// story is what happens during a rollout.
type story struct {
	hub    *hub
	agents *agents
	random *rand.Rand
	// left is how many kills are still to come, next after how many writes the next one does.
	left, next     int
	killed, writes int
	died           chan struct{}
	// ill is the cluster that has failed by itself, if one has.
	ill string
}

// tell lets the rollout go on, from one replica to the next, until no cluster is to have the first deployment ID.
func (s *story) tell(ctx context.Context, first string) error {
	through := make(chan error, 1)
	go func() {
		through <- s.agents.until(ctx, "the rollout to end", func(now map[string]*fleet.BundleDeployment) bool {
			for _, bd := range now {
				if bd.Spec.DeploymentID == first {
					return false
				}
			}
			return true
		})
	}()
	for {
		select {
		case err := <-through:
			select {
			case <-s.died: // by the last write of all
				err = errors.Join(err, s.goOn(ctx))
			default:
			}
			return errors.Join(err, s.cure(ctx))
		case <-s.died:
			if err := s.goOn(ctx); err != nil {
				return err
			}
		}
	}
}

// goOn replaces a replica that was killed. Every fourth time another cluster fails by itself meanwhile, and the one that
// did so before recovers.
func (s *story) goOn(ctx context.Context) error {
	s.killed++
	if err := s.hub.quiet(ctx); err != nil {
		return err
	}
	if s.killed%4 == 0 {
		if err := s.cure(ctx); err != nil {
			return err
		}
		if err := s.fail(ctx); err != nil {
			return err
		}
	}
	return s.hub.start()
}

// fail has a cluster that is well say that it is not.
func (s *story) fail(ctx context.Context) error {
	number := s.random.Intn(clusters)
	for range clusters {
		number = (number + 1) % clusters
		s.agents.mu.Lock()
		bd := s.agents.now[nameOf(number)]
		well := bd.Status.Ready && bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID
		s.agents.mu.Unlock()
		if well {
			s.ill = nameOf(number)
			return s.agents.turn(ctx, s.ill, false)
		}
	}
	return errors.New("no cluster is well")
}

// cure has the cluster that failed by itself recover, unless it was given something else meanwhile.
func (s *story) cure(ctx context.Context) error {
	if s.ill == "" {
		return nil
	}
	ill := s.ill
	s.ill = ""
	if s.agents.isWellOrFails(ill) {
		return nil
	}
	return s.agents.turn(ctx, ill, true)
}
