package hub

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rancher/wrangler/v3/pkg/generic"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/clusteruids"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/liveness"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/recoveries"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/remote"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/undecodable"
	"github.com/fleet-hub/fleet/internal/cmd/env"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/events"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/metrics"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	clusterrule "github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/hubaddress"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Names of the indexes on Clusters and ClusterRegistrations. Their keys are "<namespace>/<value>".
const (
	// ClustersByClientID indexes the Clusters of a workspace by client ID: "<workspace>/<clientID>".
	ClustersByClientID = "fleet.by-client-id"
	// RequestsByClientID indexes the ClusterRegistrations of a workspace by client ID: "<workspace>/<clientID>".
	RequestsByClientID = "fleet.requests-by-client-id"
	// RequestsByCluster indexes the ClusterRegistrations of a workspace by the Cluster that they were granted for:
	// "<workspace>/<cluster>".
	RequestsByCluster = "fleet.requests-by-cluster"
	// ClustersByKubeconfig indexes Clusters by the Secret that they name, in any namespace: "<namespace>/<secret>".
	ClustersByKubeconfig = "fleet.by-kubeconfig-secret"
)

// App is shared by the controllers. They read objects from the caches of its kinds and write with their clients. A
// kind is only watched if a controller uses its cache.
type App struct {
	Log        *slog.Logger
	Config     *config.Store
	Namespaces clusterrule.Namespaces
	// Clock is for times in objects. OwnClock is the local clock, which is not corrected by the API server's time: use it
	// for durations.
	Clock, OwnClock func() time.Time
	Version         string
	Env             env.Controller
	// Kube, RESTConfig and Own access the hub's own API server, without a rate limit.
	Kube       kubernetes.Interface
	RESTConfig *rest.Config
	Own        kube.Own
	Dial       remote.DialFunc
	Reach      remote.ReachFunc
	// Remote runs work on other clusters. Probes tests new Clusters: nothing is created for a Cluster before its probe has
	// ended.
	Remote *remote.Scheduler
	Probes *remote.Probes
	// Recorder writes Events for users. The log is for developers, and Metrics are for operators.
	Recorder record.EventRecorder
	Metrics  *metrics.Hub
	// Liveness tracks which agents report.
	Liveness *liveness.Tracker
	// Identities records which cluster each Cluster is.
	Identities *clusteruids.Identities
	// Recoveries holds the keys and tokens with which agents return after a loss.
	Recoveries *recoveries.Recoveries

	Clusters                  generic.ControllerInterface[*fleet.Cluster, *fleet.ClusterList]
	ClusterGroups             generic.ControllerInterface[*fleet.ClusterGroup, *fleet.ClusterGroupList]
	ClusterRegistrations      generic.ControllerInterface[*fleet.ClusterRegistration, *fleet.ClusterRegistrationList]
	ClusterRegistrationTokens generic.ControllerInterface[*fleet.ClusterRegistrationToken, *fleet.ClusterRegistrationTokenList]
	Bundles                   generic.ControllerInterface[*fleet.Bundle, *fleet.BundleList]
	BundleDeployments         generic.ControllerInterface[*fleet.BundleDeployment, *fleet.BundleDeploymentList]
	BundleNamespaceMappings   generic.ControllerInterface[*fleet.BundleNamespaceMapping, *fleet.BundleNamespaceMappingList]
	// Contents are cached without their data. Use Get to read it.
	Contents generic.NonNamespacedControllerInterface[*fleet.Content, *fleet.ContentList]

	// AllNamespaces are all Namespaces of the hub.
	AllNamespaces generic.NonNamespacedControllerInterface[*corev1.Namespace, *corev1.NamespaceList]
	// ServiceAccounts, Roles, RoleBindings and ClusterRoleBindings are those with label fleet.LabelManaged.
	ServiceAccounts     generic.ControllerInterface[*corev1.ServiceAccount, *corev1.ServiceAccountList]
	Roles               generic.ControllerInterface[*rbacv1.Role, *rbacv1.RoleList]
	RoleBindings        generic.ControllerInterface[*rbacv1.RoleBinding, *rbacv1.RoleBindingList]
	ClusterRoleBindings generic.NonNamespacedControllerInterface[*rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBindingList]
	// ClusterRoles are those of set DataSetID.
	ClusterRoles generic.NonNamespacedControllerInterface[*rbacv1.ClusterRole, *rbacv1.ClusterRoleList]
	// ConfigMaps contains only the ConfigMap of the controllers. Deployments contains only their Deployment.
	ConfigMaps  generic.ControllerInterface[*corev1.ConfigMap, *corev1.ConfigMapList]
	Deployments generic.ControllerInterface[*appsv1.Deployment, *appsv1.DeploymentList]
	// CredentialSecrets are those of type protocol.SecretTypeCredential in the registration namespace.
	CredentialSecrets generic.ControllerInterface[*corev1.Secret, *corev1.SecretList]
	// ValuesSecrets are those of type protocol.SecretTypeValues in all namespaces.
	ValuesSecrets generic.ControllerInterface[*corev1.Secret, *corev1.SecretList]
	// RecoverySecrets are those of type protocol.SecretTypeRecovery that the hub has created for agents.
	RecoverySecrets generic.ControllerInterface[*corev1.Secret, *corev1.SecretList]
	// BootstrapSecrets are those of set BootstrapSetID.
	BootstrapSecrets generic.ControllerInterface[*corev1.Secret, *corev1.SecretList]

	before       []func(context.Context)
	mayReconcile atomic.Bool
	published    atomic.Pointer[hubaddress.Published]
	// onPublished are the listeners for changes of published.
	onPublished []func()
	written     reconcile.MutationCache[types.UID, reconcile.Object]
	// undecodable tracks objects that must not be reconciled.
	undecodable *undecodable.Objects
	groups      groups
	scopes      []*scope
	secrets     cache.SharedIndexInformer
	// secretsFailure is the last error of listing them.
	secretsFailure atomic.Pointer[failure]

	events   *events.Recorder
	registry prometheus.Registerer
}

// Sets that belong to the hub itself. They are defined here because caches select by them. Changing an ID orphans the
// set's objects.
const (
	// DataSetID is the set of the ClusterRoles and namespaces that every hub has.
	DataSetID = "fleet-bootstrap-data"
	// BootstrapSetID is the set of the hub's own Cluster.
	BootstrapSetID = "fleet-bootstrap"
)

// New prepares caches and clients. It reads the configuration, unless Options contains it. Nothing is watched before Start.
func New(ctx context.Context, o Options) (*App, error) {
	o.keepTime(time.Now) //nolint:forbidigo // the only place that creates the controllers' clocks
	settings := config.NewStore(config.Default(o.Version))
	reach := func(context.Context, []byte, time.Duration, bool) error { return nil }
	if o.Dial == nil {
		foreign := func(local bool) foreign.Options {
			return remote.ForeignOptions(o.Env, settings.Get(), local, o.Clock())
		}
		o.Dial, reach = remote.Dialer(foreign, o.Guard), remote.Reacher(foreign)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewHub()
	}
	client, err := kubernetes.NewForConfig(o.Own.Config)
	if err != nil {
		return nil, fmt.Errorf("building client: %w", err)
	}
	a := &App{
		Log:        o.Log,
		Config:     settings,
		Namespaces: clusterrule.Namespaces{System: o.Env.Namespace, Registration: names.RegistrationNamespace(o.Env.Namespace)},
		Clock:      o.Clock,
		OwnClock:   o.OwnClock,
		Version:    o.Version,
		Env:        o.Env,
		Kube:       client,
		RESTConfig: o.Own.Config,
		Own:        o.Own,
		Dial:       o.Dial,
		Reach:      reach,
		Metrics:    o.Metrics,
		registry:   o.Registry,
	}
	if o.Config == nil {
		loaded, err := loadConfig(ctx, client, o.Env.Namespace, o.Version, o.Log)
		if err != nil {
			return nil, err
		}
		o.Config = &loaded
	}
	a.Config.Set(*o.Config)
	a.Identities = clusteruids.New(clusteruids.Hub{
		Kube:       func() kubernetes.Interface { return a.Kube },
		Namespaces: func() clusteruids.Namespaces { return a.AllNamespaces },
		Cluster:    func(namespace, name string) (*fleet.Cluster, error) { return a.Clusters.Cache().Get(namespace, name) },
	})
	a.Recoveries = recoveries.New(func() kubernetes.Interface { return a.Kube }, a.Namespaces.System, a.Clock)
	a.addUndecodable()
	if err := a.addKinds(); err != nil {
		return nil, err
	}
	a.addIndexes()
	a.addRemote()
	if err := a.addLiveness(); err != nil {
		return nil, err
	}
	if err := a.watchKubeconfigSecrets(); err != nil {
		return nil, err
	}
	return a, a.addRecorder()
}

func (a *App) addIndexes() {
	AddIndexes(a.Clusters.Cache())
	if a.Env.Shard == "" { // shards have nothing to do with requests, and no cache of them
		AddRequestIndexes(a.ClusterRegistrations.Cache())
	}
	clusteruids.AddIndex(a.AllNamespaces)
}

// AddIndexes adds the indexes of this package to the cache of Clusters, before it is filled.
func AddIndexes(clusters generic.CacheInterface[*fleet.Cluster]) {
	clusters.AddIndexer(ClustersByClientID, func(c *fleet.Cluster) ([]string, error) {
		if c.Spec.ClientID == "" {
			return nil, nil
		}
		return []string{c.Namespace + "/" + c.Spec.ClientID}, nil
	})
	clusters.AddIndexer(ClustersByKubeconfig, func(c *fleet.Cluster) ([]string, error) {
		if secret := clusterrule.KubeconfigSecret(c); secret.Name != "" {
			return []string{secret.String()}, nil
		}
		return nil, nil
	})
}

// AddRequestIndexes is AddIndexes for ClusterRegistrations.
func AddRequestIndexes(requests generic.CacheInterface[*fleet.ClusterRegistration]) {
	requests.AddIndexer(RequestsByClientID, func(r *fleet.ClusterRegistration) ([]string, error) {
		return []string{r.Namespace + "/" + r.Spec.ClientID}, nil
	})
	requests.AddIndexer(RequestsByCluster, func(r *fleet.ClusterRegistration) ([]string, error) {
		if r.Status.ClusterName == "" {
			return nil, nil
		}
		return []string{r.Namespace + "/" + r.Status.ClusterName}, nil
	})
}

// addRemote prepares the work on other clusters, which begins with Start.
func (a *App) addRemote() {
	a.Remote = remote.NewScheduler(a.OwnClock, func(ctx context.Context, kubeconfig []byte, connect time.Duration, local bool) error {
		return a.Reach(ctx, kubeconfig, connect, local)
	})
	a.Probes = remote.NewProbes(a.Remote, remote.Options{
		Kubeconfig: a.usableKubeconfig,
		IsLocal:    func(c *fleet.Cluster) bool { return clusterrule.IsLocal(c, a.Config.Get().Bootstrap) },
		Enqueue:    func(namespace, name string) { a.Clusters.EnqueueAfter(namespace, name, 0) },
	})
	a.BeforeControllers(func(ctx context.Context) { go a.Remote.Run(ctx) })
}

// usableKubeconfig returns the kubeconfig that a Cluster names, or nil if there is none that it may use.
func (a *App) usableKubeconfig(ctx context.Context, cluster *fleet.Cluster) ([]byte, error) {
	name := clusterrule.KubeconfigSecret(cluster)
	secret, err := reconcile.Optional(a.Kube.CoreV1().Secrets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{}))
	if err != nil || secret == nil {
		return nil, err
	}
	if refused, _ := importing.KubeconfigRefused(cluster, secret, a.Config.Get()); refused != "" {
		return nil, nil
	}
	return secret.Data[protocol.KubeconfigValueKey], nil
}
