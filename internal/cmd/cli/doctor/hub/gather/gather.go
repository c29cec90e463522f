// Package gather reads the objects of a hub for `fleet doctor hub`.
//
//	API server ─► readers (each list once, in pages) ─► hub.Facts, and which sources are missing
//
// The facts contain no kubeconfig, no token and no resources of Bundles.
package gather

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/hub"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubconfig"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/crds"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	clusterrules "github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	// namesPage is the number of objects in a page of names and labels, which are small.
	namesPage = 2000
	// bundlesPage is the number of Bundles in a page, which may be large.
	bundlesPage = 250
	// fewNamespaces is the number of namespaces up to which Secrets are listed namespace by namespace. Otherwise they are
	// listed in all namespaces together, which needs more rights.
	fewNamespaces = 5
)

// Facts reads a hub. If its API server does not answer, only one request is sent.
func Facts(ctx context.Context, cluster *access.Cluster, scope hub.Scope, clock func() time.Time) (*hub.Facts, check.Missing, error) {
	embedded, err := crds.Embedded(charts.FS)
	if err != nil {
		return nil, nil, err
	}
	g := &gatherer{cluster: cluster, clock: clock, Facts: &hub.Facts{
		Scope: scope, Now: clock(), Server: cluster.Config.Host, Embedded: embedded, Kubeconfigs: map[*fleet.Cluster]check.Kubeconfig{},
	}}
	if g.Kubernetes, err = cluster.Version(ctx); err != nil {
		return nil, nil, access.Explain("reading the version of the hub's API server", err)
	}
	missing := check.Gather(ctx, g.readers())
	return g.Facts, missing, nil
}

// gatherer reads the facts. Each reader writes fields of its own.
type gatherer struct {
	*hub.Facts
	cluster *access.Cluster
	clock   func() time.Time
	// serviceHost is the address of the hub's API server within its own cluster, or empty.
	serviceHost string
}

func (g *gatherer) readers() []check.Reader {
	own := func(source check.Source, resource string, read func(context.Context) error) check.Reader {
		return check.NewReader(source, "list", fleet.GroupName, resource, g.Workspace, read)
	}
	in, all, core := check.NewReader, metav1.ListOptions{}, g.cluster.Core
	managed, registration := labels.Set{fleet.LabelManaged: "true"}, names.RegistrationNamespace(g.System)
	deployments := labels.Set{}
	if g.Workspace != "" {
		deployments[fleet.LabelClusterNamespace] = g.Workspace
	}
	// The largest lists come first, because some are read at once.
	return []check.Reader{
		own(hub.SourceBundles, "bundles", g.readBundles),
		own(hub.SourceClusters, "clusters", check.List(&g.Clusters, g.cluster.Clusters(g.Workspace), all, nil)),
		own(hub.SourceTokens, "clusterregistrationtokens", check.List(&g.Tokens, g.cluster.Tokens(g.Workspace), all, nil)),
		own(hub.SourceRequests, "clusterregistrations", check.List(&g.Registrations, g.cluster.Registrations(g.Workspace), all, nil)),
		in(hub.SourceCRDs, "list", apiextensions.GroupName, "customresourcedefinitions", "", g.readCRDs),
		in(hub.SourceDelivery, "list", fleet.GroupName, "bundledeployments", "", g.list(&g.BundleDeployments, ours("bundledeployments"), "", options(deployments, ""))),
		in(hub.SourceNamespaces, "list", "", "namespaces", "", g.list(&g.Namespaces, builtIn("namespaces"), "", options(nil, ""))),
		in(hub.SourceAccounts, "list", "", "serviceaccounts", "", g.list(&g.Accounts, builtIn("serviceaccounts"), "", options(managed, ""))),
		in(hub.SourceCredentials, "list", "", "secrets", registration, g.list(&g.Credentials, builtIn("secrets"), registration, options(nil, protocol.SecretTypeCredential))),
		in(hub.SourceValues, "list", "", "secrets", g.Workspace, g.list(&g.Values, builtIn("secrets"), g.Workspace, options(nil, protocol.SecretTypeValues))),
		own(hub.SourceGroups, "clustergroups", check.List(&g.Groups, g.cluster.ClusterGroups(g.Workspace), all, nil)),
		own(hub.SourceMappings, "bundlenamespacemappings", check.List(&g.Mappings, g.cluster.Mappings(g.Workspace), all, nil)),
		own(hub.SourceGitRepos, "gitrepos", g.list(&g.GitRepos, ours("gitrepos"), g.Workspace, options(nil, ""))),
		own(hub.SourceHelmOps, "helmops", g.list(&g.HelmOps, ours("helmops"), g.Workspace, options(nil, ""))),
		in(hub.SourceValidating, "list", admissionregistrationv1.GroupName, "validatingwebhookconfigurations", "", check.List(&g.Validating, core.AdmissionregistrationV1().ValidatingWebhookConfigurations(), all, nil)),
		in(hub.SourceMutating, "list", admissionregistrationv1.GroupName, "mutatingwebhookconfigurations", "", check.List(&g.Mutating, core.AdmissionregistrationV1().MutatingWebhookConfigurations(), all, nil)),
		in(hub.SourceServices, "list", "", "services", "", g.list(&g.Services, builtIn("services"), "", options(nil, ""))),
		in(hub.SourceConfig, "get", "", "configmaps", g.System, check.Read(core.CoreV1().ConfigMaps(g.System), names.ControllerConfig, g.parseConfig)),
		in(hub.SourceLeases, "list", coordinationv1.GroupName, "leases", g.System, check.List(&g.Leases, core.CoordinationV1().Leases(g.System), all, nil)),
		in(hub.SourceDeployments, "list", appsv1.GroupName, "deployments", g.System, check.List(&g.Deployments, core.AppsV1().Deployments(g.System), all, nil)),
		check.ServiceHost(&g.serviceHost, core),
		{Source: hub.SourceAddress, Right: check.Right{Verb: "connect to", Resource: "apiServerURL"}, After: []check.Source{hub.SourceConfig}, Read: g.probe},
		{
			Source: hub.SourceKubeconfigs, Right: check.Right{Verb: "list", Resource: "secrets", Namespace: g.Workspace},
			After: []check.Source{hub.SourceClusters, hub.SourceConfig, hub.SourceDeployments}, Read: g.readKubeconfigs,
		},
	}
}

// namespacesOfKubeconfigs returns the namespaces in which Clusters name Secrets. It is called after Clusters were read.
func (g *gatherer) namespacesOfKubeconfigs() []string {
	namespaces := map[string]bool{}
	for _, cluster := range g.Imported() {
		namespaces[clusterrules.KubeconfigSecret(cluster).Namespace] = true
	}
	if len(namespaces) > fewNamespaces {
		return []string{metav1.NamespaceAll}
	}
	return slices.Sorted(maps.Keys(namespaces))
}

func builtIn(resource string) schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(resource)
}

func ours(resource string) schema.GroupVersionResource {
	return fleet.SchemeGroupVersion.WithResource(resource)
}

// options returns the options of a list of the metadata of objects with these labels, or of Secrets of this type.
func options(selector labels.Set, secretType corev1.SecretType) metav1.ListOptions {
	result := metav1.ListOptions{LabelSelector: selector.String(), Limit: namesPage}
	if secretType != "" {
		result.FieldSelector = fields.OneTermEqualSelector("type", string(secretType)).String()
	}
	return result
}

// list returns a function that reads the metadata of objects into target. A kind that does not exist has no objects.
func (g *gatherer) list(target *[]*metav1.PartialObjectMetadata, resource schema.GroupVersionResource, namespace string, o metav1.ListOptions) func(context.Context) error {
	return func(ctx context.Context) error {
		err := check.List(target, g.cluster.Metadata.Resource(resource).Namespace(namespace), o, nil)(ctx)
		if resource.Group == fleet.GroupName && access.IsMissingKind(err) {
			return nil // check hub-crds reports it
		}
		return err
	}
}

func (g *gatherer) readCRDs(ctx context.Context) error {
	var list apiextensions.CustomResourceDefinitionList
	if err := g.cluster.ReadPath(ctx, "/apis/"+apiextensions.SchemeGroupVersion.String()+"/customresourcedefinitions", &list); err != nil {
		return err
	}
	for _, crd := range list.Items {
		if crd.Spec.Group == fleet.GroupName {
			g.CRDs = append(g.CRDs, crd)
		}
	}
	return nil
}

// parseConfig parses the configuration as the controllers do. found may be nil.
func (g *gatherer) parseConfig(found *corev1.ConfigMap) {
	if found != nil {
		c := hub.Configuration{Exists: true, Version: found.Annotations[fleet.AnnotationVersion], Release: found.Annotations["meta.helm.sh/release-name"]}
		c.Config, c.Warnings, c.Err = config.Parse([]byte(found.Data[names.ConfigKey]), config.Default(c.Version))
		g.Config = c
	}
}

// lastChange returns when a client last changed a Bundle, apart from its status.
func lastChange(bundle *fleet.Bundle) time.Time {
	last := bundle.CreationTimestamp.Time
	for _, entry := range bundle.ManagedFields {
		if entry.Subresource == "" && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// readBundles reads Bundles and drops their resources.
func (g *gatherer) readBundles(ctx context.Context) error {
	_, err := access.Each(ctx, g.cluster.Bundles(g.Workspace), metav1.ListOptions{Limit: bundlesPage}, func(bundle *fleet.Bundle) error {
		changed := lastChange(bundle)
		bundle.ManagedFields = nil
		encoded, err := json.Marshal(bundle)
		if err != nil {
			return err
		}
		bundle.Spec.Resources = nil
		g.Bundles = append(g.Bundles, hub.Bundle{Bundle: bundle, Changed: changed, Size: len(encoded)})
		return nil
	})
	return err
}

// probe connects to the hub as agents do.
func (g *gatherer) probe(ctx context.Context) error {
	g.Address = probe(ctx, g.Config.Config, g.cluster.Config.Timeout, g.clock)
	return ctx.Err()
}

// readKubeconfigs reads the Secrets that Clusters name. Secrets of other types than those of kubeconfigs are not read.
func (g *gatherer) readKubeconfigs(ctx context.Context) error {
	wanted, insecure := map[types.NamespacedName][]*fleet.Cluster{}, hubconfig.AllowsInsecure(g.Controllers()...)
	for _, cluster := range g.Imported() {
		secret := clusterrules.KubeconfigSecret(cluster)
		wanted[secret] = append(wanted[secret], cluster)
	}
	for _, namespace := range g.namespacesOfKubeconfigs() {
		_, err := access.Each(ctx, g.cluster.Core.CoreV1().Secrets(namespace), metav1.ListOptions{FieldSelector: otherTypes()}, func(secret *corev1.Secret) error {
			for _, cluster := range wanted[types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}] {
				g.Kubeconfigs[cluster] = check.ReadKubeconfig(secret, check.KubeconfigRules(g.Config.Config, g.serviceHost, cluster, insecure, g.Now))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// otherTypes returns the selector of Secrets that may contain kubeconfigs, which have no type of their own.
func otherTypes() string {
	var others []fields.Selector
	for _, other := range []corev1.SecretType{
		protocol.SecretTypeValues, protocol.SecretTypeCredential, corev1.SecretTypeServiceAccountToken, "helm.sh/release.v1",
		fleet.SecretTypeBundleValues, fleet.SecretTypeBundleDeployment,
	} {
		others = append(others, fields.OneTermNotEqualSelector("type", string(other)))
	}
	return fields.AndSelectors(others...).String()
}
