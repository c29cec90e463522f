package join

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/reconcile"
	capirule "github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/capi/joining"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Joiner keeps the tokens and Secrets of clusters that join with a manifest.
type Joiner struct {
	app     *hub.App
	version func(types.NamespacedName) string

	mu      sync.Mutex
	written map[types.NamespacedName]written
}

// New returns a Joiner. version returns the last watched version of a Secret, or "" if it does not exist.
func New(a *hub.App, version func(types.NamespacedName) string) *Joiner {
	return &Joiner{app: a, version: version, written: map[types.NamespacedName]written{}}
}

// Request describes a Cluster that follows Cluster API.
type Request struct {
	// From is the Cluster of Cluster API, and Version the version of its API that is watched.
	From    *capirule.Cluster
	Version string
	Cluster *fleet.Cluster
	// ByManifest means that the cluster joins with a manifest.
	ByManifest bool
}

func (r Request) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.From.Namespace, Name: r.From.Name}
}

// Result says what a cluster waits for, if anything, and when to call Reconcile again.
type Result struct {
	Reason, Message string
	Again           time.Time
}

// Watch enqueues the Clusters whose tokens, values or Secrets change. Call it in a Register.
func (j *Joiner) Watch(enqueue func(types.NamespacedName)) error {
	if err := reconcile.Watch(j.app.ClusterRegistrationTokens.Informer(), clusterOfToken, enqueue); err != nil {
		return err
	}
	if err := reconcile.Watch(j.app.ValuesSecrets.Informer(), j.clusterOfValues, enqueue); err != nil {
		return err
	}
	return j.app.OnSecret(j.clustersOfSecret, enqueue)
}

func clusterOfToken(token *fleet.ClusterRegistrationToken) []types.NamespacedName {
	cluster := joining.ClusterOfToken(token)
	if cluster == "" {
		return nil
	}
	return []types.NamespacedName{{Namespace: token.Namespace, Name: cluster}}
}

func (j *Joiner) clusterOfValues(secret *corev1.Secret) []types.NamespacedName {
	token, err := reconcile.Optional(j.app.ClusterRegistrationTokens.Cache().Get(secret.Namespace, secret.Name))
	if err != nil || token == nil {
		return nil // the token is an event of its own
	}
	return clusterOfToken(token)
}

// clustersOfSecret returns the Cluster of a Secret with a manifest. For a pull Secret of the hub, it returns all Clusters
// that have a token.
func (j *Joiner) clustersOfSecret(secret types.NamespacedName) (keys []types.NamespacedName) {
	if cluster := joining.ClusterOfSecret(secret.Name); cluster != "" {
		return []types.NamespacedName{{Namespace: secret.Namespace, Name: cluster}}
	}
	if !j.app.IsPullSecret(secret) {
		return nil
	}
	tokens, err := j.app.ClusterRegistrationTokens.Cache().List("", labels.Everything())
	if err != nil {
		return nil // the cache has not started; its start enqueues every Cluster
	}
	for _, token := range tokens {
		keys = append(keys, clusterOfToken(token)...)
	}
	return keys
}

// Reconcile makes the token and the Secret of a Cluster what they have to be.
func (j *Joiner) Reconcile(ctx context.Context, r Request) (Result, error) {
	in, err := j.gather(r)
	if err != nil {
		return Result{}, err
	}
	out := joining.Decide(in)
	if err := j.writeToken(in, out); err != nil {
		return Result{}, err
	}
	result := Result{Reason: out.Reason, Message: out.Message, Again: out.Again}
	problem, err := j.writeSecret(ctx, r, out)
	if problem.Reason != "" {
		result.Reason, result.Message = problem.Reason, problem.Message
	}
	return result, err
}

// End deletes the token of a Cluster whose agent has reported, also if nothing else of the Cluster may be changed: as long
// as the token exists, its holder can take the place of the agent.
func (j *Joiner) End(cluster *fleet.Cluster) error {
	token, err := reconcile.Optional(j.app.ClusterRegistrationTokens.Cache().Get(cluster.Namespace, joining.TokenName(cluster.Name)))
	if err != nil {
		return err
	}
	in := joining.Input{Now: j.app.Clock(), Cluster: cluster, Token: token}
	return j.writeToken(in, joining.Outcome{DeleteToken: joining.HasEnded(in)})
}

// gather reads the caches.
func (j *Joiner) gather(r Request) (joining.Input, error) {
	conf := j.app.Config.Get()
	in := joining.Input{
		Now: j.app.Clock(), Cluster: r.Cluster, Wanted: r.ByManifest, PullSecrets: map[string]string{},
		Config: conf, Defaults: j.app.AgentDefaults(), Namespaces: j.app.Namespaces,
	}
	token := joining.TokenName(r.Cluster.Name)
	var err error
	if in.Token, err = reconcile.Optional(j.app.ClusterRegistrationTokens.Cache().Get(r.Cluster.Namespace, token)); err != nil {
		return in, err
	}
	if in.Values, err = reconcile.Optional(j.app.ValuesSecrets.Cache().Get(r.Cluster.Namespace, token)); err != nil {
		return in, err
	}
	for _, name := range importing.PropagatedPullSecrets(r.Cluster, conf) {
		in.PullSecrets[name] = j.version(types.NamespacedName{Namespace: j.app.Namespaces.System, Name: name})
	}
	return in, nil
}

// writeToken creates, prolongs or deletes the token. Each is an event.
func (j *Joiner) writeToken(in joining.Input, out joining.Outcome) error {
	tokens, token := j.app.ClusterRegistrationTokens, in.Token
	var err error
	switch {
	case out.CreateToken != nil:
		if _, err = tokens.Create(out.CreateToken); apierrors.IsAlreadyExists(err) {
			return nil // the cache will have it, which is an event
		}
	case out.DeleteToken:
		err = reconcile.Delete(tokens, token)
	case out.TTL != nil:
		_, err = reconcile.Patch(tokens, token, func(t *fleet.ClusterRegistrationToken) { t.Spec.TTL = out.TTL })
	}
	if err != nil {
		return fmt.Errorf("token of cluster %s/%s: %w", in.Cluster.Namespace, in.Cluster.Name, err)
	}
	return nil
}
