package recovery_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/deploy"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register"
	"github.com/fleet-hub/fleet/internal/register/heartbeat"
)

// beatInterval is the interval between two heartbeats. A return is noticed with the first one.
const beatInterval = 2 * time.Second

// agentLabel is a label of each Cluster. Its value is the name of the agent.
const agentLabel = "agent"

// agent is an agent in a namespace of its own.
type agent struct {
	name    string // of its namespace, and its client ID if it is not imported
	cluster *rest.Config
	local   kubernetes.Interface
	log     *slog.Logger
	pulse   heartbeat.Pulse
	stop    func()

	mu      sync.Mutex
	bearer  string // with which the last heartbeat was accepted
	beat    time.Time
	problem error
	changed chan struct{}
}

// newAgent returns an agent that is not installed.
func (h *hub) newAgent(name string) (*agent, error) {
	file, err := os.Create(filepath.Join(h.plane.LogDir, name+".log"))
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(file, &slog.HandlerOptions{Level: slog.LevelDebug}))
	a := &agent{name: name, cluster: h.cluster, changed: make(chan struct{}), log: log, stop: func() {}}
	a.local, err = kubernetes.NewForConfig(a.cluster)
	return a, err
}

// install installs the agent. It registers with a bootstrap secret.
func (a *agent) install(ctx context.Context, bootstrap protocol.Bootstrap) error {
	meta := func(object string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: a.name, Name: object} }
	if _, err := a.local.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.name}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	settings, err := (&config.Agent{ClientID: a.name, Labels: map[string]string{agentLabel: a.name}}).Encode()
	if err != nil {
		return err
	}
	if _, err := a.local.CoreV1().ConfigMaps(a.name).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta(names.Agent), Data: map[string]string{names.ConfigKey: settings}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = a.local.CoreV1().Secrets(a.name).Create(ctx, &corev1.Secret{ObjectMeta: meta(names.AgentBootstrap), Data: bootstrap.Encode()}, metav1.CreateOptions{})
	return err
}

// start starts the agent's process.
func (a *agent) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := register.Run(ctx, register.Options{
			Local: a.local, Namespace: a.name, Pod: "fleet-agent-0", Clock: time.Now, Random: rand.Reader, Log: a.log,
		}, a.serve)
		if err != nil {
			a.log.Error("the agent has ended", "error", err)
		}
	}()
	a.stop = func() { cancel(); <-ended }
}

// serve sends heartbeats and deploys.
func (a *agent) serve(ctx context.Context, session register.Session) error {
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error {
		return heartbeat.Run(ctx, heartbeat.Options{
			Hub: session.Hub, ClusterNamespace: session.ClusterNamespace, ClusterName: session.ClusterName, AgentNamespace: a.name,
			Interval: beatInterval, Status: session.Status, Pulse: &a.pulse, Clock: time.Now, Random: rand.Reader, Log: a.log,
			OnBeat: func(_ time.Time, err error) { a.noteBeat(session.Token(), err) },
		})
	})
	parts.Go(func() error {
		return deploy.Run(ctx, deploy.Options{
			Hub: session.Hub, Namespace: session.DeploymentNamespace, Local: a.cluster, AgentNamespace: a.name,
			OwnBundle: names.AgentBundle(session.ClusterName), Log: a.log,
		})
	})
	return parts.Wait()
}

func (a *agent) noteBeat(token string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.problem = err; err != nil {
		return
	}
	a.bearer, a.beat = token, time.Now()
	close(a.changed)
	a.changed = make(chan struct{})
}

// token returns the token with which the hub accepted the last heartbeat.
func (a *agent) token() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bearer
}

// awaitReturn waits for a heartbeat after a time, with another token than before unless the agent keeps its identity. It
// returns the time of the heartbeat.
func (a *agent) awaitReturn(ctx context.Context, after time.Time, before string, keepsIdentity bool) (time.Time, error) {
	for {
		a.mu.Lock()
		at, bearer, problem, changed := a.beat, a.bearer, a.problem, a.changed
		a.mu.Unlock()
		if at.After(after) && (keepsIdentity || bearer != before) {
			return at, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return at, fmt.Errorf("agent %s did not return; the last heartbeat was at %s, the last error is: %w: %w", a.name, at.Format(time.TimeOnly), problem, context.Cause(ctx))
		}
	}
}

// dropIdentity deletes the agent's Secret fleet-agent.
func (a *agent) dropIdentity(ctx context.Context) error {
	return a.local.CoreV1().Secrets(a.name).Delete(ctx, names.Agent, metav1.DeleteOptions{})
}
