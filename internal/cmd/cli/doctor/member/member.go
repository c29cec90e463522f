// Package member contains the checks of `fleet doctor cluster` on the hub: what does the hub know of one Cluster, and what
// does its agent need there?
//
//	hub ─► Gather (the objects of one Cluster) ─► Facts ─► Checks (pure functions) ─► rows
package member

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	clusterrules "github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Scope says what is checked, and where commands are meant to run.
type Scope struct {
	// System is the namespace of the hub's controllers.
	System string
	// Here is the context of the cluster in commands. The caller adds its own flags to commands without a context.
	Here remedy.Target
	// Repair is the command that gives the agent an identity again.
	Repair string
}

// Facts is what the checks know about a Cluster.
type Facts struct {
	Scope
	Now     time.Time
	Cluster *fleet.Cluster
	// UID is that of the hub's namespace kube-system.
	UID types.UID
	// Config is the configuration of the hub. Version is its version.
	Config  config.Config
	Version string
	// Siblings are the Clusters of the workspace with the same client ID, which include this one.
	Siblings []*fleet.Cluster
	// Registrations are those of the Cluster or of its client ID.
	Registrations []*fleet.ClusterRegistration
	// Place is the Cluster's namespace, or nil. Accounts and Deployments are in it.
	Place       *corev1.Namespace
	Accounts    []*corev1.ServiceAccount
	Deployments []*fleet.BundleDeployment
	// Tokens are those that were created for the Cluster.
	Tokens     []*fleet.ClusterRegistrationToken
	Kubeconfig check.Kubeconfig
}

// The sources of facts. Those of the cluster have other names.
const (
	sourceSiblings    check.Source = "hub: Clusters"
	sourcePlace       check.Source = "hub: Cluster's namespace"
	sourceDeployments check.Source = "hub: BundleDeployments"
	sourceTokens      check.Source = "hub: ClusterRegistrationTokens"
	sourceController  check.Source = "hub: controllers"
	// The comparison with the cluster needs these, too.
	SourceSystem        check.Source = "hub: namespace kube-system"
	SourceConfig        check.Source = "hub: configuration"
	SourceRegistrations check.Source = "hub: ClusterRegistrations"
	SourceAccounts      check.Source = "hub: ServiceAccounts"
	SourceKubeconfig    check.Source = "hub: kubeconfig"
)

// Checks returns all checks, in the order of their rows.
func Checks() []check.Check[*Facts] { return append(stateChecks(), identityChecks()...) }

func sources(all ...check.Source) []check.Source { return all }

// Object returns the Cluster as the object of a row.
func (f *Facts) Object() check.Object {
	return check.OfFleet("Cluster", f.Cluster)
}

// AgentNamespace returns the namespace of a Cluster's agent.
func AgentNamespace(cluster *fleet.Cluster) string {
	return cmp.Or(remedy.NameOr(cluster.Status.Agent.Namespace, ""), remedy.NameOr(cluster.Spec.AgentNamespace, ""), names.SystemNamespace)
}

// Imported reports whether the hub installs the agent of the Cluster.
func (f *Facts) Imported() bool { return f.Cluster.Spec.KubeConfigSecret != "" }

// Namespace returns the name of the Cluster's namespace as the hub computes it.
func (f *Facts) Namespace() string { return clusterrules.NamespaceOf(f.Cluster) }

// Granted returns the registrations that were granted, which have an account.
func (f *Facts) Granted() (granted []*fleet.ClusterRegistration) {
	for _, request := range f.Registrations {
		if request.Status.Granted && request.Status.ClusterName == f.Cluster.Name && request.DeletionTimestamp == nil {
			granted = append(granted, request)
		}
	}
	return granted
}

// accountOf returns the account of a granted registration, or nil.
func (f *Facts) accountOf(request *fleet.ClusterRegistration) *corev1.ServiceAccount {
	for _, account := range f.Accounts {
		if account.Name == names.RequestAccount(request.Name, string(request.UID)) {
			return account
		}
	}
	return nil
}
