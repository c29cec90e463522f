package machines

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/dev/machines/api"
)

// The rule demands full access of the core to the provider's group, by a role with the aggregation label.
func TestContract_AllResources_APIGroup(t *testing.T) {
	objects, err := manifests()
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	for _, object := range objects {
		if object.GetKind() == "ClusterRole" && object.GetLabels()["cluster.x-k8s.io/aggregate-to-manager"] == "true" {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(role.Rules) != 1 || !slices.Equal(role.Rules[0].APIGroups, []string{api.GroupVersion().Group}) {
		t.Fatalf("rules %+v, want one of group %s", role.Rules, api.GroupVersion().Group)
	}
	if want := []string{"create", "delete", "get", "list", "patch", "update", "watch"}; !slices.Equal(role.Rules[0].Verbs, want) {
		t.Errorf("verbs %v, want %v", role.Rules[0].Verbs, want)
	}
	crds, err := api.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		if resource, _, _ := strings.Cut(crd.Name, "."); !slices.Contains(role.Rules[0].Resources, resource) {
			t.Errorf("the core has no access to %s", resource)
		}
	}
}
