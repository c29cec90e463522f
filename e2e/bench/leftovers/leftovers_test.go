package leftovers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/e2e/framework/inventory"
)

func TestBetween_CountsNewObjects(t *testing.T) {
	const registrations = "cattle-fleet-clusters-system"
	object := func(resource, namespace, name string) inventory.Object {
		return inventory.Object{Resource: resource, Namespace: namespace, Name: name, UID: "u"}
	}
	var now time.Time
	before := inventory.Inventory{
		object("secrets", registrations, "c-earlier"):  now,
		object("contents.fleet.cattle.io", "", "old"):  now,
		object("contents.fleet.cattle.io", "", "same"): now,
	}
	after := inventory.Inventory{
		object("secrets", registrations, "c-earlier"):                            now,
		object("contents.fleet.cattle.io", "", "same"):                           now,
		object("secrets", registrations, "c-1"):                                  now,
		object("secrets", registrations, "c-2"):                                  now,
		object("secrets", registrations, "other"):                                now,
		object("secrets", "fleet-default", "c-3"):                                now,
		object("roles.rbac.authorization.k8s.io", registrations, "request-1"):    now,
		object("roles.rbac.authorization.k8s.io", registrations, "request-2"):    now,
		object("roles.rbac.authorization.k8s.io", "fleet-default", "request-1"):  now,
		object("rolebindings.rbac.authorization.k8s.io", registrations, "rb-1"):  now,
		object("rolebindings.rbac.authorization.k8s.io", "cluster-1", "rb-1"):    now,
		object("clusterrolebindings.rbac.authorization.k8s.io", "", "request-1"): now,
		object("configmaps", registrations, "stays"):                             now,
	}
	golden.ExpectJSON(t, "left.json", Between(before, after, 2, registrations))
	if diff := cmp.Diff(Left{Kinds: []Objects{}}, Between(after, after, 2, registrations)); diff != "" {
		t.Errorf("without objects (-want +got):\n%s", diff)
	}
}
