package expiry

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/framework/swarm"
	"github.com/fleet-hub/fleet/internal/deploy/access"
	"github.com/fleet-hub/fleet/internal/deploy/hub"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register"
	"github.com/fleet-hub/fleet/internal/register/heartbeat"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
)

// errNoRenewal means that an identity does not expire, so that its token cannot be replaced by a shorter one.
var errNoRenewal = errors.New("the token does not expire")

// agent is one agent with an identity.
type agent struct {
	namespace string // in the cluster
	identity  swarm.Identity
	access    hubclient.Access
	values    protocol.Values
	wire      http.RoundTripper
	local     *cluster
	clock     func() time.Time
	log       *slog.Logger
	pulse     heartbeat.Pulse

	mu    sync.Mutex // guards the fields below
	beat  time.Time  // the last accepted heartbeat
	token string     // with which it was accepted
	home  string     // the namespace on the hub that belongs to it
	since time.Time  // the first heartbeat with the account of that token
}

func newAgent(namespace string, identity swarm.Identity, o Options, local *cluster) *agent {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(o.Values.APIServerCA))
	return &agent{
		namespace: namespace, identity: identity, values: o.Values, local: local, clock: o.Clock,
		access: hubclient.Access{
			Server: o.Values.APIServerURL, CA: []byte(o.Values.APIServerCA),
			Token: identity.Credential.Token, Namespace: identity.Credential.DeploymentNamespace,
		},
		// as client-go makes it, but not shared by agents with the same CA
		wire: utilnet.SetTransportDefaults(&http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 25, DisableCompression: true,
		}),
		log: slog.New(slog.DiscardHandler),
	}
}

// own returns the configuration with the agent's own connection.
func (a *agent) own(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = swarm.UserAgent
	cfg.TLSClientConfig, cfg.Transport = rest.TLSClientConfig{}, a.wire
	return cfg
}

func (a *agent) connect(cfg *rest.Config) (hubclient.Hub, error) {
	return hubclient.Connect(a.own(cfg))
}

// shorten replaces the token by one that expires after lifetime, as a renewal does.
func (a *agent) shorten(ctx context.Context, lifetime time.Duration) error {
	of, expires := protocol.RenewalOf(a.access.Token)
	if !expires {
		return fmt.Errorf("agent %s: %w", a.namespace, errNoRenewal)
	}
	hub, err := a.connect(a.access.Config())
	if err != nil {
		return err
	}
	token, err := hub.Renew(ctx, of.Namespace, of.Account, lifetime)
	if err != nil {
		return fmt.Errorf("replacing the token of agent %s: %w", a.namespace, err)
	}
	a.access.Token = token
	return nil
}

// install stores the identity in the cluster, as an earlier process did.
func (a *agent) install(ctx context.Context) error {
	kubeconfig, err := a.access.Kubeconfig()
	if err != nil {
		return err
	}
	key, err := a.identity.Key.Encode()
	if err != nil {
		return err
	}
	credential := a.identity.Credential
	recovery := map[string][]byte{protocol.RecoveryKeyKey: key}
	maps.Copy(recovery, protocol.RecoveryData{
		Recovery: a.identity.Recovery, APIServerURL: a.values.APIServerURL, APIServerCA: []byte(a.values.APIServerCA),
		ClusterNamespace: a.values.ClusterNamespace, SystemRegistrationNamespace: a.values.SystemRegistrationNamespace,
	}.Encode())
	for _, secret := range []*corev1.Secret{{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: names.Agent},
		Data: protocol.Identity{
			Kubeconfig: kubeconfig, DeploymentNamespace: credential.DeploymentNamespace,
			ClusterNamespace: credential.ClusterNamespace, ClusterName: credential.ClusterName,
		}.Encode(),
	}, {
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: names.RecoverySecret(a.namespace)},
		Type:       protocol.SecretTypeRecovery, Data: recovery,
	}} {
		if _, err := a.local.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("storing the identity of agent %s: %w", a.namespace, err)
		}
	}
	return nil
}

// run works until ctx ends.
func (a *agent) run(ctx context.Context) error {
	return register.Run(ctx, register.Options{
		Local: a.local, Namespace: a.namespace, Pod: a.namespace, Clock: a.clock, Random: rand.Reader, Log: a.log, Connect: a.connect,
	}, a.serve)
}

// serve sends heartbeats and watches the BundleDeployments, which notices a rejected token first.
func (a *agent) serve(ctx context.Context, session register.Session) error {
	config := a.own(session.Hub)
	watching, err := hub.New(access.WithBounds(config, ctx.Done()), session.DeploymentNamespace)
	if err != nil {
		return fmt.Errorf("watching for agent %s: %w", a.namespace, err)
	}
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error {
		watching.Informer.RunWithContext(ctx)
		return nil
	})
	parts.Go(func() error {
		return heartbeat.Run(ctx, heartbeat.Options{
			Hub: config, ClusterNamespace: session.ClusterNamespace, ClusterName: session.ClusterName, AgentNamespace: names.SystemNamespace,
			Status: session.Status, Pulse: &a.pulse, Clock: a.clock, Random: rand.Reader, Log: a.log,
			OnBeat: func(_ time.Time, err error) {
				if err == nil {
					a.note(session.Token(), session.DeploymentNamespace)
				}
			},
		})
	})
	return parts.Wait()
}

// note records an accepted heartbeat.
func (a *agent) note(token, home string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock()
	before, _ := protocol.RenewalOf(a.token)
	if of, _ := protocol.RenewalOf(token); a.since.IsZero() || of.Account != before.Account {
		a.since = now
	}
	a.beat, a.token, a.home = now, token, home
}

// last returns the last accepted heartbeat, its account and the agent's namespace on the hub.
func (a *agent) last() (beat time.Time, account, home string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	of, _ := protocol.RenewalOf(a.token)
	return a.beat, of.Account, a.home
}

// returned returns the first heartbeat with the current account.
func (a *agent) returned() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.since
}
