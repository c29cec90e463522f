package hub

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/reconcile"
	clusterrule "github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// whole is the length of a Cluster's namespace without the workspace and the name, if nothing is cut.
const whole = len("cluster---") + 12

// NamespaceTaken reports whether the computed namespace of a Cluster was made for another Cluster. Only a name that was
// cut can be that of two Clusters: a shorter one contains the workspace and the name. So few Clusters cost a look.
func (a *Context) NamespaceTaken(cluster *fleet.Cluster) (bool, error) {
	if len(cluster.Namespace)+len(cluster.Name)+whole <= validation.DNS1123LabelMaxLength {
		return false, nil
	}
	name := clusterrule.NamespaceOf(cluster)
	namespace, err := reconcile.Optional(a.AllNamespaces.Cache().Get(name))
	if err != nil {
		return false, fmt.Errorf("looking for namespace %s: %w", name, err)
	}
	return clusterrule.ClaimOf(namespace, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}) == clusterrule.NamespaceOfAnother, nil
}
