package hub

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/reconcile"
	clusterrule "github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// whole is the length of a Cluster's namespace without workspace and name, if nothing is cut.
const whole = len("cluster---") + 12

// NamespaceTaken reports whether the computed namespace of a Cluster was made for another Cluster. Two Clusters can
// only have the same name of a namespace if that name was cut, so only long names need a lookup.
func (a *Context) NamespaceTaken(cluster *fleet.Cluster) (bool, error) {
	if len(cluster.Namespace)+len(cluster.Name)+whole <= validation.DNS1123LabelMaxLength {
		return false, nil
	}
	name := clusterrule.NamespaceOf(cluster)
	namespace, err := reconcile.Optional(a.AllNamespaces.Cache().Get(name))
	if err != nil {
		return false, fmt.Errorf("getting namespace %s: %w", name, err)
	}
	return clusterrule.ClaimOf(namespace, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}) == clusterrule.NamespaceOfAnother, nil
}
