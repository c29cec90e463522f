package hub

import (
	"context"
	"encoding/json"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apimachineryversion "k8s.io/apimachinery/pkg/version"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/crds"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Scope selects the objects to check.
type Scope struct {
	// System is the namespace of the controllers.
	System string
	// Workspace limits the objects to one workspace. Empty means all.
	Workspace string
}

// Check reads a hub and returns the rows of all checks. If its API server does not answer, only one request is sent.
func Check(ctx context.Context, cluster *access.Cluster, scope Scope, now time.Time) ([]check.Row, error) {
	embedded, err := crds.Embedded(charts.FS)
	if err != nil {
		return nil, err
	}
	g := &gatherer{cluster: cluster, Facts: &Facts{Now: now, System: scope.System, Workspace: scope.Workspace, Embedded: embedded}}
	if err := g.readVersion(ctx); err != nil {
		return nil, access.Explain("reading the version of the hub's API server", err)
	}
	missing := check.Gather(ctx, g.readers())
	return check.Run(Checks(), g.Facts, missing), nil
}

// gatherer reads the facts. Each reader writes fields of its own.
type gatherer struct {
	*Facts
	cluster *access.Cluster
}

func (g *gatherer) readers() []check.Reader {
	return []check.Reader{
		{Source: sourceCRDs, Right: check.Right{Verb: "list", Group: apiextensions.GroupName, Resource: "customresourcedefinitions"}, Read: g.readCRDs},
		{Source: sourceLeases, Right: check.Right{Verb: "list", Group: coordinationv1.GroupName, Resource: "leases", Namespace: g.System}, Read: g.readLeases},
	}
}

func (g *gatherer) readVersion(ctx context.Context) error {
	body, err := g.get(ctx, "/version")
	if err != nil {
		return err
	}
	var found apimachineryversion.Info
	if err := json.Unmarshal(body, &found); err != nil {
		return err
	}
	g.Kubernetes = found.GitVersion
	return nil
}

// get reads a path of the API server.
func (g *gatherer) get(ctx context.Context, path string) ([]byte, error) {
	return g.cluster.Core.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
}

func (g *gatherer) readCRDs(ctx context.Context) error {
	body, err := g.get(ctx, "/apis/"+apiextensions.SchemeGroupVersion.String()+"/customresourcedefinitions")
	if err != nil {
		return err
	}
	var list apiextensions.CustomResourceDefinitionList
	if err := json.Unmarshal(body, &list); err != nil {
		return err
	}
	for _, crd := range list.Items {
		if crd.Spec.Group == fleet.GroupName {
			g.CRDs = append(g.CRDs, crd)
		}
	}
	return nil
}

func (g *gatherer) readLeases(ctx context.Context) error {
	list, err := g.cluster.Core.CoordinationV1().Leases(g.System).List(ctx, metav1.ListOptions{})
	if err == nil {
		g.Leases = list.Items
	}
	return err
}
