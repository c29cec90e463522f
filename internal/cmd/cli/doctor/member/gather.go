package member

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
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
	return Report{Facts: g.Facts, Missing: missing}
}

// gatherer reads the facts. Each reader writes fields of its own.
type gatherer struct {
	*Facts
	hub *access.Cluster
}

func (g *gatherer) readers() []check.Reader {
	in := func(source check.Source, verb, group, resource, namespace string, read func(context.Context) error) check.Reader {
		return check.Reader{Source: source, Right: check.Right{Verb: verb, Group: group, Resource: resource, Namespace: namespace}, Read: read}
	}
	workspace := g.Cluster.Namespace
	readers := []check.Reader{
		in(sourceSiblings, "list", fleet.GroupName, "clusters", workspace, g.readSiblings),
		in(SourceRegistrations, "list", fleet.GroupName, "clusterregistrations", workspace, g.readRegistrations),
		in(sourceTokens, "list", fleet.GroupName, "clusterregistrationtokens", workspace, g.readTokens),
		in(sourceDeployments, "list", fleet.GroupName, "bundledeployments", g.Namespace(), g.readDeployments),
		in(SourceAccounts, "list", "", "serviceaccounts", g.Namespace(), g.readAccounts),
		in(sourcePlace, "get", "", "namespaces", "", g.readPlace),
		in(SourceSystem, "get", "", "namespaces", "", g.readSystem),
		in(SourceConfig, "get", "", "configmaps", g.System, g.readConfig),
	}
	if g.Imported() {
		readers = append(readers, in(SourceKubeconfig, "get", "", "secrets", remedy.SecretNamespace(g.Cluster), g.readKubeconfig))
	}
	return readers
}

func (g *gatherer) readSiblings(ctx context.Context) error {
	if g.Cluster.Spec.ClientID == "" {
		return nil
	}
	_, err := access.Each(ctx, g.hub.Clusters(g.Cluster.Namespace), metav1.ListOptions{}, func(c *fleet.Cluster) error {
		if c.Spec.ClientID == g.Cluster.Spec.ClientID && c.DeletionTimestamp == nil {
			g.Siblings = append(g.Siblings, c)
		}
		return nil
	})
	return err
}

func (g *gatherer) readRegistrations(ctx context.Context) error {
	_, err := access.Each(ctx, g.hub.Registrations(g.Cluster.Namespace), metav1.ListOptions{}, func(r *fleet.ClusterRegistration) error {
		same := r.Spec.ClientID != "" && r.Spec.ClientID == g.Cluster.Spec.ClientID
		if r.Status.ClusterName == g.Cluster.Name || r.Status.ClusterName == "" && same {
			g.Registrations = append(g.Registrations, r)
		}
		return nil
	})
	return err
}

func (g *gatherer) readTokens(ctx context.Context) error {
	_, err := access.Each(ctx, g.hub.Tokens(g.Cluster.Namespace), metav1.ListOptions{}, func(t *fleet.ClusterRegistrationToken) error {
		if t.Annotations[fleet.AnnotationTokenForCluster] == g.Cluster.Name {
			g.Tokens = append(g.Tokens, t)
		}
		return nil
	})
	return err
}

func (g *gatherer) readDeployments(ctx context.Context) error {
	_, err := access.Each(ctx, g.hub.BundleDeployments(g.Namespace()), metav1.ListOptions{}, func(d *fleet.BundleDeployment) error {
		d.ManagedFields = nil
		g.Deployments = append(g.Deployments, d)
		return nil
	})
	return err
}

func (g *gatherer) readAccounts(ctx context.Context) error {
	list, err := g.hub.Core.CoreV1().ServiceAccounts(g.Namespace()).List(ctx, metav1.ListOptions{})
	if err == nil {
		g.Accounts = list.Items
	}
	return err
}

func (g *gatherer) readPlace(ctx context.Context) error {
	place, err := g.hub.Core.CoreV1().Namespaces().Get(ctx, g.Namespace(), metav1.GetOptions{})
	if err == nil {
		g.Place = place
	}
	return optional(err)
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
		return optional(err) // check hub-config reports it
	}
	g.Version = found.Annotations[fleet.AnnotationVersion]
	g.Config, _, err = config.Parse([]byte(found.Data[names.ConfigKey]), config.Default(g.Version))
	return err
}

func (g *gatherer) readKubeconfig(ctx context.Context) error {
	secret, err := g.hub.Core.CoreV1().Secrets(remedy.SecretNamespace(g.Cluster)).Get(ctx, g.Cluster.Spec.KubeConfigSecret, metav1.GetOptions{})
	if err == nil {
		g.Kubeconfig = readKubeconfig(secret)
	}
	return optional(err)
}

// optional returns nil for an error that means that an object does not exist.
func optional(err error) error {
	if apierrors.IsNotFound(err) && !access.IsMissingKind(err) {
		return nil
	}
	return err
}
