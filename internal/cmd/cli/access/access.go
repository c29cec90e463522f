// Package access gives commands access to clusters: the flags that select one, and its clients.
//
//	--kubeconfig, --context, -n, -A ─► Flags ─► Cluster (clients, namespace)
package access

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/pager"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/version"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// defaultNamespace is the workspace if -n is not given.
const defaultNamespace = "fleet-default"

// defaultServer is the server that client-go uses without a kubeconfig outside of a cluster.
const defaultServer = "http://localhost:8080"

// Flags select a cluster and a namespace. Only these flags of kubectl exist: the others would contain secrets.
type Flags struct {
	config *genericclioptions.ConfigFlags
	// All means the objects of all namespaces.
	All bool
	// Timeout limits each request. 0 means no limit.
	Timeout time.Duration
}

// NewFlags returns flags with their defaults.
func NewFlags() *Flags {
	config := genericclioptions.NewConfigFlags(false)
	namespace := defaultNamespace
	return &Flags{config: &genericclioptions.ConfigFlags{
		KubeConfig: config.KubeConfig, Context: config.Context, Namespace: &namespace, Timeout: config.Timeout,
	}}
}

// Bind declares --kubeconfig, --context and -n of a command that works on the hub.
func (f *Flags) Bind(flags *pflag.FlagSet) {
	flags.StringVar(f.config.KubeConfig, "kubeconfig", "", "kubeconfig file (default: KUBECONFIG, then ~/.kube/config)")
	flags.StringVar(f.config.Context, "context", "", "context of the hub (default: the current context)")
	flags.StringVarP(f.config.Namespace, "namespace", "n", f.Namespace(), "workspace on the hub")
}

// BindCluster declares the same flags for a command that works on another cluster than the hub.
func (f *Flags) BindCluster(flags *pflag.FlagSet) {
	f.Bind(flags)
	flags.Lookup("context").Usage = "context of the cluster (default: the current context)"
}

// SetNamespace changes the value of -n, and its default if the flags are not bound yet.
func (f *Flags) SetNamespace(namespace string) { *f.config.Namespace = namespace }

// BindAll declares -A.
func (f *Flags) BindAll(flags *pflag.FlagSet) {
	flags.BoolVarP(&f.All, "all-namespaces", "A", false, "in all workspaces")
}

// In returns flags for another context of the same kubeconfig. They need not be bound.
func (f *Flags) In(context string) *Flags {
	other := NewFlags()
	*other.config.KubeConfig, *other.config.Context, *other.config.Namespace = *f.config.KubeConfig, context, *f.config.Namespace
	return other
}

// Namespace returns the value of -n.
func (f *Flags) Namespace() string { return *f.config.Namespace }

// Context returns the value of --context.
func (f *Flags) Context() string { return *f.config.Context }

// Target returns the flags for the commands that fix problems of the cluster.
func (f *Flags) Target() remedy.Target {
	return remedy.Target{Kubeconfig: *f.config.KubeConfig, Context: *f.config.Context}
}

// HubContext is the flag that selects the hub of a command whose --context selects another cluster.
const HubContext = "hub-context"

// TargetOf returns the target of the flags of a command, for the commands that fix its errors. It is empty for a command with
// --hub-context, which says itself which cluster they are for.
func TargetOf(flags *pflag.FlagSet) remedy.Target {
	context, kubeconfig := flags.Lookup("context"), flags.Lookup("kubeconfig")
	if context == nil || kubeconfig == nil || flags.Lookup(HubContext) != nil {
		return remedy.Target{}
	}
	return remedy.Target{Kubeconfig: kubeconfig.Value.String(), Context: context.Value.String()}
}

// CurrentContext returns the value of --context. If that is empty, it returns the name of the current context, or "" if there
// is none.
func (f *Flags) CurrentContext() string {
	if name := f.Context(); name != "" {
		return name
	}
	loaded, err := f.RawConfig()
	if err != nil {
		return "" // Open reports the error
	}
	return loaded.CurrentContext
}

// RawConfig returns the whole kubeconfig.
func (f *Flags) RawConfig() (clientcmdapi.Config, error) {
	return f.config.ToRawKubeConfigLoader().RawConfig()
}

// Cluster is a cluster with its clients.
type Cluster struct {
	Config *rest.Config
	// Core is the client for built-in kinds. Metadata reads the metadata of objects of all kinds, and deletes them.
	Core     kubernetes.Interface
	Metadata metadata.Interface
	// Namespace is the value of -n, or empty with -A.
	Namespace string

	fleet rest.Interface
}

// Open returns the cluster that the flags select. It sends no request.
func (f *Flags) Open() (*Cluster, error) {
	cfg, err := f.config.ToRESTConfig()
	if err != nil {
		return nil, exit.Errorf(exit.Preflight, "reading the kubeconfig: %w", err).With("kubectl config get-contexts")
	}
	if cfg.Host == defaultServer && f.CurrentContext() == "" {
		files := f.config.ToRawKubeConfigLoader().ConfigAccess().GetLoadingPrecedence()
		return nil, exit.Errorf(exit.Preflight, "no kubeconfig with a current context was found in %s", strings.Join(files, ", ")).
			With("select a context with --context: kubectl config get-contexts")
	}
	namespace := f.Namespace()
	if f.All {
		namespace = ""
	}
	cfg.Timeout = f.Timeout
	cfg.QPS = -1 // the API server limits clients; the default of client-go delays commands that read many objects
	cfg.UserAgent = "fleet/" + version.Version
	core, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building client: %w", err)
	}
	all, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building client: %w", err)
	}
	ours, err := kube.FleetClient(cfg, nil)
	if err != nil {
		return nil, fmt.Errorf("building client: %w", err)
	}
	return &Cluster{Config: cfg, Core: core, Metadata: all, Namespace: namespace, fleet: ours}, nil
}

// Client reads and writes objects of one kind in one namespace, or reads those of all if that is empty.
type Client[T Object, L runtime.Object] = gentype.ClientWithList[T, L]

// Object is what all objects of the API are.
type Object interface {
	runtime.Object
	metav1.Object
}

// Lister lists objects of one kind: a Client, or one of client-go.
type Lister[L any] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
}

// Each lists objects in chunks of options.Limit or 500, and calls do for each of them. It returns the resource version of the
// list. Objects that do does not keep are freed chunk by chunk.
func Each[T, L runtime.Object](
	ctx context.Context, client Lister[L], options metav1.ListOptions, do func(T) error,
) (version string, err error) {
	chunks := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list, err := client.List(ctx, options)
		if err == nil {
			version = any(list).(metav1.ListInterface).GetResourceVersion()
		}
		return list, err
	})
	chunks.PageBufferSize = 0
	return version, chunks.EachListItem(ctx, options, func(item runtime.Object) error { return do(item.(T)) })
}

// Select returns the objects of a list that wanted accepts. A nil wanted accepts all.
func Select[T Object, L runtime.Object](ctx context.Context, client *Client[T, L], options metav1.ListOptions, wanted func(T) bool) (all []T, err error) {
	_, err = Each(ctx, client, options, func(one T) error {
		if wanted == nil || wanted(one) {
			all = append(all, one)
		}
		return nil
	})
	return all, err
}

// All returns all objects of a client. kind and namespace are for errors.
func All[T Object, L runtime.Object](ctx context.Context, client *Client[T, L], kind, namespace string) ([]T, error) {
	all, err := Select(ctx, client, metav1.ListOptions{}, nil)
	where := " in all namespaces"
	if namespace != "" {
		where = " in namespace " + namespace
	}
	return all, Explain("listing "+kind+where, err)
}

// client returns the client of a resource. A T is an object, and an L a list of them.
func client[T, L any, PT interface {
	*T
	Object
}, PL interface {
	*L
	runtime.Object
}](c *Cluster, resource, namespace string) *Client[PT, PL] {
	return gentype.NewClientWithList(resource, c.fleet, metav1.ParameterCodec, namespace, func() PT { return new(T) }, func() PL { return new(L) })
}

// Clusters returns the client of Clusters.
func (c *Cluster) Clusters(namespace string) *Client[*fleet.Cluster, *fleet.ClusterList] {
	return client[fleet.Cluster, fleet.ClusterList](c, "clusters", namespace)
}

// ClusterGroups returns the client of ClusterGroups.
func (c *Cluster) ClusterGroups(namespace string) *Client[*fleet.ClusterGroup, *fleet.ClusterGroupList] {
	return client[fleet.ClusterGroup, fleet.ClusterGroupList](c, "clustergroups", namespace)
}

// Mappings returns the client of BundleNamespaceMappings.
func (c *Cluster) Mappings(namespace string) *Client[*fleet.BundleNamespaceMapping, *fleet.BundleNamespaceMappingList] {
	return client[fleet.BundleNamespaceMapping, fleet.BundleNamespaceMappingList](c, "bundlenamespacemappings", namespace)
}

// Tokens returns the client of ClusterRegistrationTokens.
func (c *Cluster) Tokens(namespace string) *Client[*fleet.ClusterRegistrationToken, *fleet.ClusterRegistrationTokenList] {
	return client[fleet.ClusterRegistrationToken, fleet.ClusterRegistrationTokenList](c, "clusterregistrationtokens", namespace)
}

// Registrations returns the client of ClusterRegistrations.
func (c *Cluster) Registrations(namespace string) *Client[*fleet.ClusterRegistration, *fleet.ClusterRegistrationList] {
	return client[fleet.ClusterRegistration, fleet.ClusterRegistrationList](c, "clusterregistrations", namespace)
}

// Bundles returns the client of Bundles.
func (c *Cluster) Bundles(namespace string) *Client[*fleet.Bundle, *fleet.BundleList] {
	return client[fleet.Bundle, fleet.BundleList](c, "bundles", namespace)
}

// BundleDeployments returns the client of BundleDeployments.
func (c *Cluster) BundleDeployments(namespace string) *Client[*fleet.BundleDeployment, *fleet.BundleDeploymentList] {
	return client[fleet.BundleDeployment, fleet.BundleDeploymentList](c, "bundledeployments", namespace)
}

// UID identifies a cluster: it is the UID of its namespace kube-system.
func (c *Cluster) UID(ctx context.Context) (types.UID, error) {
	system, err := c.Core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", Explain("reading namespace "+metav1.NamespaceSystem, err)
	}
	return system.UID, nil
}

// ReadPath reads a path of the API server as JSON into result.
func (c *Cluster) ReadPath(ctx context.Context, path string, result any) error {
	body, err := c.Core.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, result)
}

// Version returns the version of the API server.
func (c *Cluster) Version(ctx context.Context) (string, error) {
	var found apimachineryversion.Info
	err := c.ReadPath(ctx, "/version", &found)
	return found.GitVersion, err
}
