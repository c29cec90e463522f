// Package hub contains the checks of `fleet doctor hub`: what is wrong on the hub and with the objects of its workspaces?
//
//	API server ─► Gather (each list once, in pages) ─► Facts ─► Checks (pure functions) ─► rows
package hub

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Facts is what the checks know about a hub.
type Facts struct {
	Now time.Time
	// System is the namespace of the controllers.
	System string
	// Workspace limits the objects to one workspace. Empty means all.
	Workspace string

	// Kubernetes is the version of the API server.
	Kubernetes string
	// CRDs are those of the API group. Embedded are those of this release.
	CRDs, Embedded []apiextensions.CustomResourceDefinition
	Leases         []coordinationv1.Lease
}

// The sources of facts.
const (
	sourceCRDs   check.Source = "CRDs"
	sourceLeases check.Source = "Leases"
)

// Checks returns all checks, in the order of their rows.
func Checks() []check.Check[*Facts] {
	return []check.Check[*Facts]{
		{ID: "hub-api", About: "The API server of the hub answers.", Judge: checkAPI},
		{ID: "hub-crds", About: "The CRDs of this release exist and are established.", Needs: []check.Source{sourceCRDs}, Judge: checkCRDs},
		{ID: "hub-crds-fields", About: "The CRDs have all fields that this release writes.", Needs: []check.Source{sourceCRDs}, Judge: checkFields},
		{ID: "hub-leases", About: "A process renews each Lease of the controllers.", Needs: []check.Source{sourceLeases}, Judge: checkLeases},
	}
}

// object returns an object of the API group fleet.cattle.io.
func object(kind, namespace, name string) check.Object {
	return check.Object{Kind: kind, Group: fleet.GroupName, Namespace: namespace, Name: name}
}
