package join

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/rules/capi/joining"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

func named(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func tokenFor(namespace, cluster string) *fleet.ClusterRegistrationToken {
	return &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: joining.TokenName(cluster), Annotations: map[string]string{annotation.TokenForCluster: cluster},
	}}
}

func TestWhatConcernsAManifest_EnqueuesItsCluster(t *testing.T) {
	server := hubtest.New(t)
	j := New(server.App, server.App.SecretVersion)
	conf := server.App.Config.Get()
	conf.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	server.App.Config.Set(conf)
	own := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "own"}}
	server.Put(tokenFor("team-a", "east"), tokenFor("team-b", "west"), own)
	values := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}}
	}
	system := server.App.Namespaces.System
	tests := map[string]struct{ got, want []types.NamespacedName }{
		"its token":                          {clusterOfToken(tokenFor("team-a", "east")), []types.NamespacedName{named("team-a", "east")}},
		"another token":                      {clusterOfToken(own), nil},
		"the values of its token":            {j.clusterOfValues(values("capi-join-east")), []types.NamespacedName{named("team-a", "east")}},
		"the values of another token":        {j.clusterOfValues(values("own")), nil},
		"the values of a token that is gone": {j.clusterOfValues(values("capi-join-west")), nil},
		"its Secret":                         {j.clustersOfSecret(named("team-a", "east-fleet-join")), []types.NamespacedName{named("team-a", "east")}},
		"a pull Secret: all that wait":       {j.clustersOfSecret(named(system, "pull")), []types.NamespacedName{named("team-a", "east"), named("team-b", "west")}},
		"a Secret of this name elsewhere":    {j.clustersOfSecret(named("team-a", "pull")), nil},
		"another Secret of the hub":          {j.clustersOfSecret(named(system, "other")), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.got, cmpopts.SortSlices(func(a, b types.NamespacedName) bool { return a.String() < b.String() })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
