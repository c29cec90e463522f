package targeting_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// All criteria that are set must match.
func ExampleMatcher() {
	production, err := targeting.NewMatcher(targeting.Criteria{
		ClusterGroup:    "europe",
		ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "production"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	europe := []*fleet.ClusterGroup{{ObjectMeta: metav1.ObjectMeta{Name: "europe"}}}
	east := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Labels: map[string]string{"env": "production"}}}
	west := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "west", Labels: map[string]string{"env": "test"}}}
	fmt.Println(production.Match(east, europe), production.Match(east, nil), production.Match(west, europe))
	// Output: true false false
}
