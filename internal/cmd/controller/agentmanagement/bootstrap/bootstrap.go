package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/kube/accounts"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
)

// pendingDelay is the time until a token Secret without a token is read again.
const pendingDelay = 500 * time.Millisecond

// replaceDelay is the shortest time between two replacements of a token that the API server rejects: API servers with
// different keys could reject each one.
const replaceDelay = time.Minute

type handler struct {
	app *hub.App
	set *reconcile.Set
	// replaced is when a rejected token was last replaced.
	replaced time.Time
}

// Register keeps the hub's own objects, and its own Cluster unless that is disabled. Everything runs in the queue of
// Deployments under the key of the controllers' own Deployment, even if that does not exist: changes of the
// configuration, of the children and of that Deployment's tolerations all enqueue this key.
func Register(ctx context.Context, a *hub.App) error {
	if err := registerData(ctx, a); err != nil {
		return err
	}
	if a.Env.DisableBootstrap {
		return nil
	}
	h := &handler{app: a, set: reconcile.NewSet(hub.BootstrapSetID,
		reconcile.ClusterKind(a.AllNamespaces).NeverPruned().Adopting(reconcile.Any), // it only gets our marks
		reconcile.KindOf(a.BootstrapSecrets),
		reconcile.KindOf(a.Clusters).Owning("spec.kubeConfigSecret", "spec.agentNamespace", "spec.agentTolerations").TrackingLabels(),
		reconcile.KindOf(a.ClusterGroups),
	)}
	a.Deployments.OnChange(hub.Lasting(ctx), "bootstrap", func(key string, deployment *appsv1.Deployment) (*appsv1.Deployment, error) {
		if reconcile.ParseKey(key) != ownKey(a) {
			return deployment, nil // not our own
		}
		return deployment, h.onChange(ctx, deployment)
	})
	wake := func(types.NamespacedName) { reconcile.Enqueue(a.Deployments)(ownKey(a)) }
	a.Config.OnChange(func(config.Config, config.Config) { wake(ownKey(a)) })
	wake(ownKey(a))
	return h.set.Watch(wake)
}

// ownKey returns the only key that is processed.
func ownKey(a *hub.App) types.NamespacedName {
	return types.NamespacedName{Namespace: a.Namespaces.System, Name: names.ControllerConfig}
}

func (h *handler) onChange(ctx context.Context, deployment *appsv1.Deployment) error {
	in, err := h.gather(ctx, deployment)
	if err != nil {
		return err
	}
	out, err := decide(in)
	if err != nil {
		return err
	}
	return h.act(ctx, in, out)
}

func (h *handler) gather(ctx context.Context, deployment *appsv1.Deployment) (input, error) {
	in := input{now: h.app.Clock(), config: h.app.Config.Get().Bootstrap, systemNamespace: h.app.Namespaces.System}
	if !in.config.Enabled() {
		return in, nil
	}
	var err error
	if in.tolerations, err = h.tolerations(deployment, in.config.Namespace); err != nil {
		return in, err
	}
	own := h.app.Own.Config
	in.server, in.ownKubeconfig = own.Host, h.app.Own.Raw
	if in.ca, err = kube.CA(own); err != nil {
		return in, err
	}
	in.account, err = reconcile.Optional(h.app.Kube.CoreV1().ServiceAccounts(h.app.Namespaces.System).Get(ctx, names.BootstrapAccount, metav1.GetOptions{}))
	if err != nil {
		return in, fmt.Errorf("reading account %s: %w", names.BootstrapAccount, err)
	}
	if in.account == nil {
		in.ownToken, err = ownToken(own.BearerToken, own.BearerTokenFile)
		return in, err
	}
	if in.held, in.holder, err = h.heldToken(ctx, in.config.Namespace); err != nil {
		return in, err
	}
	in.rejected = works(in) && in.now.Sub(h.replaced) >= replaceDelay && h.isRejected(ctx, in.held)
	return in, nil
}

// tolerations returns those of the controllers' pods. helm uninstall deletes the Deployment while this process still runs: the
// agent then keeps its tolerations, because it may need them, and its pod would be replaced.
func (h *handler) tolerations(deployment *appsv1.Deployment, namespace string) ([]corev1.Toleration, error) {
	if deployment != nil {
		return deployment.Spec.Template.Spec.Tolerations, nil
	}
	local, err := reconcile.Optional(h.app.Clusters.Cache().Get(namespace, names.LocalCluster))
	if err != nil || local == nil {
		return nil, err
	}
	return local.Spec.AgentTolerations, nil
}

// isRejected reports whether the API server rejects a token, as after a change of the key that signs tokens. Without an
// answer the token counts as accepted.
func (h *handler) isRejected(ctx context.Context, token string) bool {
	accepted, err := accounts.Review(ctx, h.app.Kube, token)
	if err != nil {
		h.app.Log.Debug("a token could not be tried", "cluster", names.LocalCluster, "error", err)
		return false
	}
	return !accepted
}

// heldToken returns the token that was handed out before, and the UID of the Secret that holds it. It asks the API
// server before a new token is created, because the cache may not contain the Secret yet, or may not include one that
// Rancher Fleet created.
func (h *handler) heldToken(ctx context.Context, namespace string) (token string, holder types.UID, err error) {
	secret, err := reconcile.Optional(h.app.BootstrapSecrets.Cache().Get(namespace, names.LocalKubeconfig))
	if err == nil && secret == nil {
		secret, err = reconcile.Optional(h.app.Kube.CoreV1().Secrets(namespace).Get(ctx, names.LocalKubeconfig, metav1.GetOptions{}))
	}
	if err != nil {
		return "", "", fmt.Errorf("reading Secret %s/%s: %w", namespace, names.LocalKubeconfig, err)
	}
	if secret == nil {
		return "", "", nil
	}
	return tokenIn(secret.Data[protocol.KubeconfigValueKey]), secret.UID, nil
}

// ownToken returns the process's own token. It reads it from the file if there is one, because the file is renewed.
func ownToken(token, file string) (string, error) {
	if file == "" {
		return token, nil
	}
	read, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the process's own token: %w", err)
	}
	return strings.TrimSpace(string(read)), nil
}

func (h *handler) act(ctx context.Context, in input, out outcome) error {
	if out.stage == disabled {
		return nil
	}
	kubeconfig := out.kubeconfig
	if out.mint != nil {
		token, err := accounts.Mint(ctx, h.app.Kube, out.mint.Namespace, out.mint.Account, out.mint.Lifetime)
		if errors.Is(err, accounts.ErrTokenPending) {
			h.app.Deployments.EnqueueAfter(ownKey(h.app).Namespace, ownKey(h.app).Name, pendingDelay)
			return nil
		}
		if err != nil {
			return err
		}
		if kubeconfig, err = kubeconfigWith(in, token); err != nil {
			return err
		}
		h.app.Log.Info("token made for the hub's own cluster", "namespace", in.config.Namespace)
		if in.rejected {
			h.replaced = in.now
			h.app.Deployments.EnqueueAfter(ownKey(h.app).Namespace, ownKey(h.app).Name, replaceDelay)
		}
	}
	if err := h.set.Apply(reconcile.Owner{}, children(in, kubeconfig, out.holder)...); err != nil {
		return fmt.Errorf("registering the hub's own cluster: %w", err)
	}
	return nil
}
