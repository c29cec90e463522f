// Package hub contains the checks of `fleet doctor hub`: what is wrong on the hub and with the objects of its workspaces?
//
//	package gather ─► Facts ─► Checks (pure functions) ─► rows
package hub

import (
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/config"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Scope selects the objects to check.
type Scope struct {
	// System is the namespace of the controllers.
	System string
	// Workspace limits the objects to one workspace. Empty means all.
	Workspace string
	// Chosen means that the user has chosen the workspace: it is not the default.
	Chosen bool
}

// Facts is what the checks know about a hub.
type Facts struct {
	Scope
	Now time.Time
	// Server is the address of the hub in the kubeconfig of the user.
	Server string

	// Kubernetes is the version of the API server.
	Kubernetes string
	// CRDs are those of the API group. Embedded are those of this release.
	CRDs, Embedded []apiextensions.CustomResourceDefinition
	Config         Configuration
	Address        Probe
	Leases         []*coordinationv1.Lease
	Deployments    []*appsv1.Deployment
	Validating     []*admissionregistrationv1.ValidatingWebhookConfiguration
	Mutating       []*admissionregistrationv1.MutatingWebhookConfiguration

	Clusters      []*fleet.Cluster
	Groups        []*fleet.ClusterGroup
	Tokens        []*fleet.ClusterRegistrationToken
	Registrations []*fleet.ClusterRegistration
	Bundles       []Bundle
	Mappings      []*fleet.BundleNamespaceMapping
	// Kubeconfigs are those of the Clusters in the list above. Two Clusters may name one Secret, which the hub may refuse for one of
	// them only.
	Kubeconfigs map[*fleet.Cluster]check.Kubeconfig

	// These are read without their content.
	BundleDeployments, Namespaces, Accounts, Services, Credentials, Values, GitRepos, HelmOps []*metav1.PartialObjectMetadata
}

// Configuration is ConfigMap fleet-controller.
type Configuration struct {
	// Exists is false if there is no such ConfigMap.
	Exists bool
	// Version is the release that the configuration was written for.
	Version string
	// Release is the Helm release of the hub's chart.
	Release string
	config.Config
	Warnings []string
	// Err is why the configuration cannot be read.
	Err error
}

// Bundle is what the checks need of a Bundle. Its resources are dropped, because they may be large.
type Bundle struct {
	*fleet.Bundle
	// Changed is when a client last changed the Bundle, apart from its status.
	Changed time.Time
	// Size is the size of the whole object as JSON, in bytes.
	Size int
}

// The sources of facts.
const (
	SourceCRDs        check.Source = "CRDs"
	SourceConfig      check.Source = "ConfigMap"
	SourceAddress     check.Source = "address"
	SourceLeases      check.Source = "Leases"
	SourceDeployments check.Source = "Deployments"
	SourceClusters    check.Source = "Clusters"
	SourceGroups      check.Source = "ClusterGroups"
	SourceTokens      check.Source = "ClusterRegistrationTokens"
	SourceRequests    check.Source = "ClusterRegistrations"
	SourceBundles     check.Source = "Bundles"
	SourceMappings    check.Source = "BundleNamespaceMappings"
	SourceDelivery    check.Source = "BundleDeployments"
	SourceNamespaces  check.Source = "Namespaces"
	SourceAccounts    check.Source = "ServiceAccounts"
	SourceCredentials check.Source = "credentials"
	SourceValues      check.Source = "values Secrets"
	SourceKubeconfigs check.Source = "kubeconfig Secrets"
	SourceGitRepos    check.Source = "GitRepos"
	SourceHelmOps     check.Source = "HelmOps"
	SourceValidating  check.Source = "ValidatingWebhookConfigurations"
	SourceMutating    check.Source = "MutatingWebhookConfigurations"
	SourceServices    check.Source = "Services"
)

// Checks returns all checks, in the order of their rows.
func Checks() []check.Check[*Facts] {
	all := slices.Concat(installationChecks(), addressChecks(), clusterChecks(), kubeconfigChecks(), registrationChecks(), bundleChecks(), orphanChecks())
	for i := range all {
		all[i].Judge = withMigration(all[i].Judge)
	}
	return all
}

// sources lists what a check needs.
func sources(needed ...check.Source) []check.Source { return needed }

// older reports whether an object was created more than an age ago.
func (f *Facts) older(object metav1.Object, age time.Duration) bool {
	return f.Now.Sub(object.GetCreationTimestamp().Time) > age
}

// inScope reports whether a workspace is one that is checked.
func (f *Facts) inScope(workspace string) bool { return f.Workspace == "" || f.Workspace == workspace }
