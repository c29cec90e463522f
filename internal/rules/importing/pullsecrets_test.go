package importing_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func references(names ...string) []corev1.LocalObjectReference {
	list := []corev1.LocalObjectReference{}
	for _, name := range names {
		list = append(list, corev1.LocalObjectReference{Name: name})
	}
	return list
}

func TestPropagatedPullSecrets(t *testing.T) {
	own := func(names ...string) func(*fleet.Cluster) {
		list := references(names...)
		return func(c *fleet.Cluster) { c.Spec.AgentPullSecrets = &list }
	}
	tests := map[string]struct {
		hub        []corev1.LocalObjectReference
		cluster    func(*fleet.Cluster)
		propagated []string
		named      []corev1.LocalObjectReference
	}{
		"neither":                                    {},
		"pull Secrets of the hub, sorted":            {hub: references("b", "a", "b", ""), propagated: []string{"a", "b"}, named: references("b", "a", "b", "")},
		"pull Secrets of the Cluster":                {cluster: own("c"), named: references("c")},
		"pull Secrets of both: those of the Cluster": {hub: references("a"), cluster: own("c"), named: references("c")},
		"empty list of the Cluster: none":            {hub: references("a"), cluster: own(), named: references()},
		"pull Secrets of both with the same name":    {hub: references("a"), cluster: own("a"), named: references("a")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cluster, conf := rulestest.ACluster(), config.Config{ImagePullSecrets: test.hub}
			if test.cluster != nil {
				test.cluster(cluster)
			}
			rulestest.ExpectEqual(t, "propagated", importing.PropagatedPullSecrets(cluster, conf), test.propagated)
			values := importing.AgentSettings(cluster, conf, rulestest.HubDefaults(), rulestest.HubNamespaces())
			rulestest.ExpectEqual(t, "named", values.ImagePullSecrets, test.named)
		})
	}
}

func TestImport_FollowsPullSecrets(t *testing.T) {
	in := carriedOut(conf(func(c *config.Config) { c.ImagePullSecrets = references("b", "a") }))
	rulestest.ExpectEqual(t, "missing", importing.Decide(in).Reason, conditions.ReasonPullSecretMissing)
	in.PullSecrets = map[string]string{"a": "1", "b": ""}
	rulestest.ExpectEqual(t, "one missing", importing.Decide(in).Reason, conditions.ReasonPullSecretMissing)

	in.PullSecrets = map[string]string{"a": "1", "b": "2"}
	out := rulestest.Pure(t, importing.Decide, in)
	rulestest.ExpectEqual(t, "there", reactionOf(t, out), inPlace)
	rulestest.ExpectEqual(t, "versions", out.Done.PullSecrets, "a=1,b=2")
	rulestest.ExpectEqual(t, "handed out", out.Deploy.PullSecrets, []string{"a", "b"})

	in.Cluster.Annotations = map[string]string{annotation.PullSecrets: out.Done.PullSecrets}
	rulestest.ExpectEqual(t, "rest", reactionOf(t, rulestest.Pure(t, importing.Decide, in)), nothing)
	in.PullSecrets["b"] = "3"
	rulestest.ExpectEqual(t, "rotated", reactionOf(t, rulestest.Pure(t, importing.Decide, in)), inPlace)
	in.Cluster.Spec.AgentPullSecrets = &[]corev1.LocalObjectReference{{Name: "a"}}
	out = rulestest.Pure(t, importing.Decide, in)
	rulestest.ExpectEqual(t, "named by the Cluster", reactionOf(t, out), inPlace)
	rulestest.ExpectEqual(t, "dropped", out.Deploy.DroppedPullSecrets, []string{"b"})
	rulestest.ExpectEqual(t, "versions", out.Done.PullSecrets, "")
	delete(in.Cluster.Annotations, annotation.PullSecrets)
	rulestest.ExpectEqual(t, "rest without any", reactionOf(t, rulestest.Pure(t, importing.Decide, in)), nothing)
}

func TestUnwantedPullSecrets_AreRemoved(t *testing.T) {
	noted := func(c *fleet.Cluster) {
		c.Annotations = map[string]string{annotation.PullSecrets: "a=1,b=2,fleet-agent=1,fleet-agent-bootstrap=1,nonsense"}
	}
	tests := map[string]struct {
		hub           []corev1.LocalObjectReference
		move          bool
		dropped, left []string
	}{
		"one leaves the list: its copy is removed":               {hub: references("a"), dropped: []string{"b"}},
		"all leave the list: all copies are removed":             {dropped: []string{"a", "b"}},
		"the agent moves: all copies leave the namespace before": {hub: references("a"), move: true, left: []string{"a", "b"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := carriedOut(conf(func(c *config.Config) { c.ImagePullSecrets = test.hub }), seenIn("cattle-fleet-system"))
			noted(in.Cluster)
			in.PullSecrets = map[string]string{"a": "1"}
			if test.move {
				withToken(&in)
				in.Cluster.Spec.AgentNamespace = "agents"
			}
			out := rulestest.Pure(t, importing.Decide, in)
			if out.Deploy == nil {
				t.Fatalf("stage %s: %s", out.Stage, out.Message)
			}
			rulestest.ExpectEqual(t, "dropped", out.Deploy.DroppedPullSecrets, test.dropped)
			rulestest.ExpectEqual(t, "left", out.Deploy.LeftPullSecrets, test.left)
		})
	}
}
