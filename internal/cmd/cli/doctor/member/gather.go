package member

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubconfig"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	clusterrules "github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// Report is what is known of a Cluster.
type Report struct {
	Facts   *Facts
	Missing check.Missing
}

// Rows returns the rows of all checks.
func (r Report) Rows() []check.Row { return check.Run(Checks(), r.Facts, r.Missing) }

// Gather reads the objects of a Cluster.
func Gather(ctx context.Context, hub *access.Cluster, cluster *fleet.Cluster, scope Scope, now time.Time) Report {
	g := &gatherer{hub: hub, Facts: &Facts{Scope: scope, Now: now, Cluster: cluster}}
	missing := check.Gather(ctx, g.readers())
	g.Kubeconfig = check.ReadKubeconfig(g.secret, g.rules())
	return Report{Facts: g.Facts, Missing: missing}
}

// gatherer reads the facts. Each reader writes fields of its own.
type gatherer struct {
	*Facts
	hub *access.Cluster
	// secret contains the kubeconfig, and controller is the Deployment of the hub's controllers. They may be nil.
	secret     *corev1.Secret
	controller *appsv1.Deployment
	// serviceHost is the address of the hub's API server within its own cluster, or empty.
	serviceHost string
	// configured means that Config is the hub's.
	configured bool
}

func (g *gatherer) readers() []check.Reader {
	in, all, workspace, place := check.NewReader, metav1.ListOptions{}, g.Cluster.Namespace, g.Namespace()
	registrations := check.List(&g.Registrations, g.hub.Registrations(workspace), all, g.isRegistration)
	tokens := check.List(&g.Tokens, g.hub.Tokens(workspace), all, func(t *fleet.ClusterRegistrationToken) bool {
		return t.Annotations[annotation.TokenForCluster] == g.Cluster.Name
	})
	readers := []check.Reader{
		in(sourceSiblings, "list", fleet.GroupName, "clusters", workspace, g.readSiblings),
		in(SourceRegistrations, "list", fleet.GroupName, "clusterregistrations", workspace, registrations),
		in(sourceTokens, "list", fleet.GroupName, "clusterregistrationtokens", workspace, tokens),
		in(sourceDeployments, "list", fleet.GroupName, "bundledeployments", place, check.List(&g.Deployments, g.hub.BundleDeployments(place), all, nil)),
		in(SourceAccounts, "list", "", "serviceaccounts", place, check.List(&g.Accounts, g.hub.Core.CoreV1().ServiceAccounts(place), all, nil)),
		in(sourcePlace, "get", "", "namespaces", "", check.Get(&g.Place, g.hub.Core.CoreV1().Namespaces(), place)),
		in(SourceSystem, "get", "", "namespaces", "", g.readSystem),
		in(SourceConfig, "get", "", "configmaps", g.System, g.readConfig),
	}
	if secret := clusterrules.KubeconfigSecret(g.Cluster); g.Imported() {
		readers = append(readers,
			in(SourceKubeconfig, "get", "", "secrets", secret.Namespace, check.Get(&g.secret, g.hub.Core.CoreV1().Secrets(secret.Namespace), secret.Name)),
			in(sourceController, "get", appsv1.GroupName, "deployments", g.System, check.Get(&g.controller, g.hub.Core.AppsV1().Deployments(g.System), names.ControllerConfig)),
			check.ServiceHost(&g.serviceHost, g.hub.Core))
	}
	return readers
}

func (g *gatherer) readSiblings(ctx context.Context) error {
	if g.Cluster.Spec.ClientID == "" {
		return nil
	}
	return check.List(&g.Siblings, g.hub.Clusters(g.Cluster.Namespace), metav1.ListOptions{}, func(c *fleet.Cluster) bool {
		return c.Spec.ClientID == g.Cluster.Spec.ClientID && c.DeletionTimestamp == nil
	})(ctx)
}

// isRegistration reports whether a request is of the Cluster, or of its client ID if it names no Cluster yet.
func (g *gatherer) isRegistration(r *fleet.ClusterRegistration) bool {
	same := r.Spec.ClientID != "" && r.Spec.ClientID == g.Cluster.Spec.ClientID
	return r.Status.ClusterName == g.Cluster.Name || r.Status.ClusterName == "" && same
}

func (g *gatherer) readSystem(ctx context.Context) error {
	system, err := g.hub.Core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err == nil {
		g.UID = system.UID
	}
	return err
}

func (g *gatherer) readConfig(ctx context.Context) error {
	found, err := g.hub.Core.CoreV1().ConfigMaps(g.System).Get(ctx, names.ControllerConfig, metav1.GetOptions{})
	if err != nil {
		return check.Optional(err) // check hub-config reports it
	}
	g.Version = found.Annotations[fleet.AnnotationVersion]
	g.Config, _, err = config.Parse([]byte(found.Data[names.ConfigKey]), config.Default(g.Version))
	g.configured = err == nil
	return err
}

// rules returns the hub's rules for the kubeconfig. What settings may permit that could not be read is not refused.
func (g *gatherer) rules() foreign.Options {
	rules := check.KubeconfigRules(g.Config, g.serviceHost, g.Cluster, g.controller == nil || hubconfig.AllowsInsecure(g.controller), g.Now)
	rules.AnyAddress = rules.AnyAddress || !g.configured
	return rules
}
