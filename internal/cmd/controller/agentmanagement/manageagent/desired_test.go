package manageagent

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const system = names.SystemNamespace

// east is a Cluster whose agent was heard of.
func east(modify ...func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "east", UID: "u-east"},
		Spec:       fleet.ClusterSpec{ClientID: "client"},
		Status:     fleet.ClusterStatus{Agent: fleet.AgentStatus{LastSeen: metav1.NewTime(time.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC)), Namespace: system}},
	}
	for _, m := range modify {
		m(c)
	}
	return c
}

func silent(c *fleet.Cluster)  { c.Status.Agent = fleet.AgentStatus{} }
func leaving(c *fleet.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)} }
func external(c *fleet.Cluster) {
	c.Labels = map[string]string{fleet.LabelClusterManagement: "rancher"}
}
func isLocal(c *fleet.Cluster) { c.Namespace, c.Name = "fleet-local", "local" }

func belongsIn(namespace string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Spec.AgentNamespace = namespace }
}

func runsIn(namespace string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) { c.Status.Agent.Namespace = namespace }
}

func workspace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u-" + "workspace"}}
}

// given is the input of a hub with nothing special.
func given(cluster *fleet.Cluster, modify ...func(*input)) input {
	in := input{
		cluster: cluster, workspace: workspace(cluster.Namespace), namespaces: clusters.Namespaces{System: system},
		config: config.Config{AgentImage: "fleet-agent:1", Bootstrap: config.Bootstrap{Namespace: "fleet-local"}},
	}
	for _, m := range modify {
		m(&in)
	}
	return in
}

func withBundleIn(namespace string) func(*input) {
	return func(in *input) { in.bundle = bundle(in.cluster, namespace, nil) }
}

// theirs: the Bundle is another implementation's.
func theirs(in *input) {
	withBundleIn(system)(in)
	in.bundle.Annotations = map[string]string{fleet.AnnotationSetApplied: ""}
}

func wasGranted(in *input) {
	in.requests = []*fleet.ClusterRegistration{{Status: fleet.ClusterRegistrationStatus{ClusterName: in.cluster.Name, Granted: true}}}
}

func takeOver(c *fleet.Cluster) {
	c.Annotations = map[string]string{annotation.TakeOverAgent: "true"}
}

func imported(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "kubeconfig" }

func prioritised(c *fleet.Cluster) {
	c.Spec.AgentSchedulingCustomization = &fleet.AgentSchedulingCustomization{PriorityClass: &fleet.PriorityClassSpec{Value: 1}}
}

func limited(c *fleet.Cluster) {
	c.Spec.AgentSchedulingCustomization = &fleet.AgentSchedulingCustomization{PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{MaxUnavailable: "1"}}
}

// broughtBy notes what an import has brought; empty is what the Cluster asks for.
func broughtBy(hash string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) {
		if hash == "" {
			hash, _ = names.StatusHash(c.Spec.AgentSchedulingCustomization) // which every such value has
		}
		c.Status.AgentSchedulingCustomizationHash = hash
	}
}

func switchedOff(in *input)   { no := false; in.config.ManageAgent = &no }
func switchedOn(in *input)    { yes := true; in.config.ManageAgent = &yes }
func localDisabled(in *input) { in.config.Bootstrap.LocalAgentDisabled = true }
func workspaceGoing(in *input) {
	in.workspace.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
}

func TestDecide(t *testing.T) {
	tests := map[string]struct {
		in     input
		stage  stage
		remove bool
		reason string
	}{
		"agent has reported: managed":                                  {in: given(east()), stage: managed},
		"agent in another namespace has reported: managed":             {in: given(east(belongsIn("a"), runsIn("a"))), stage: managed},
		"agent reports no namespace: its desired namespace is assumed": {in: given(east(runsIn(""))), stage: managed},
		"Cluster without a client ID: managed":                         {in: given(east(func(c *fleet.Cluster) { c.Spec.ClientID = "" })), stage: managed},
		"manageAgent true: managed":                                    {in: given(east(), switchedOn), stage: managed},
		"label for unmanaged agents: the target decides":               {in: given(east(func(c *fleet.Cluster) { c.Labels = map[string]string{fleet.LabelNonManagedAgent: ""} })), stage: managed},

		"imported, has not reported: no Bundle":                       {in: given(east(silent)), stage: awaitingAgent},
		"deployed again, Bundle exists: updated":                      {in: given(east(silent), withBundleIn(system)), stage: managed},
		"deployed again in another namespace, Bundle exists: updated": {in: given(east(silent, belongsIn("a"), runsIn("a")), withBundleIn("a")), stage: managed},

		"PriorityClass is not imported yet: waits":                    {in: given(east(imported, prioritised)), stage: awaitingImport},
		"PriorityClass is not imported yet, Bundle exists: unchanged": {in: given(east(imported, prioritised), withBundleIn(system)), stage: awaitingImport},
		"another PriorityClass was imported: waits":                   {in: given(east(imported, prioritised, broughtBy("another")), withBundleIn(system)), stage: awaitingImport},
		"PriorityClass is imported: Bundle names it":                  {in: given(east(imported, prioritised, broughtBy(""))), stage: managed},
		"PodDisruptionBudget alone: managed":                          {in: given(east(imported, limited)), stage: managed},
		"agent registered itself, PriorityClass: managed":             {in: given(east(prioritised)), stage: managed},

		"agent of Rancher Fleet: unchanged":                                                {in: given(east(), theirs), stage: inherited, reason: conditions.ReasonAgentInherited},
		"agent of Rancher Fleet, has not reported: unchanged":                              {in: given(east(silent), theirs, wasGranted), stage: inherited, reason: conditions.ReasonAgentInherited},
		"no agent has joined, Bundle of Rancher Fleet exists: deleted":                     {in: given(east(silent), theirs), stage: awaitingAgent, remove: true},
		"agent of Rancher Fleet, another namespace: unchanged":                             {in: given(east(belongsIn("a"), runsIn(system)), theirs), stage: inherited, reason: conditions.ReasonAgentInherited},
		"agent of Rancher Fleet, manageAgent false: not reported":                          {in: given(east(), theirs, switchedOff), stage: unmanaged},
		"agent of Rancher Fleet, takeover ordered: managed":                                {in: given(east(takeOver), theirs), stage: managed},
		"agent of Rancher Fleet, takeover ordered, has not reported: managed":              {in: given(east(takeOver, silent), theirs, wasGranted), stage: managed},
		"agent of Rancher Fleet, Cluster is being deleted: Bundle is deleted":              {in: given(east(leaving), theirs), stage: unwanted, remove: true},
		"imported, has not reported, Bundle exists: deleted":                               {in: given(east(silent, imported), theirs), stage: awaitingAgent, remove: true},
		"another namespace: Bundle is deleted":                                             {in: given(east(belongsIn("a"), runsIn(system)), withBundleIn(system)), stage: elsewhere, remove: true, reason: conditions.ReasonAgentElsewhere},
		"moving to another namespace, Bundle is for the former one: deleted, not reported": {in: given(east(silent, belongsIn("a"), runsIn("a")), withBundleIn(system)), stage: elsewhere, remove: true},
		"runs in another namespace with its Bundle: Bundle is deleted and reported":        {in: given(east(runsIn("a")), withBundleIn("a")), stage: elsewhere, remove: true, reason: conditions.ReasonAgentElsewhere},
		"runs in another namespace: Bundle is deleted and reported":                        {in: given(east(runsIn("mine"))), stage: elsewhere, remove: true, reason: conditions.ReasonAgentElsewhere},

		"Cluster is being deleted: Bundle is deleted":                                 {in: given(east(leaving)), stage: unwanted, remove: true},
		"Cluster is being deleted, manageAgent false: Bundle is deleted":              {in: given(east(leaving), switchedOff), stage: unwanted, remove: true},
		"workspace is being deleted: nothing is created":                              {in: given(east(), workspaceGoing), stage: unwanted, remove: true},
		"workspace is deleted: Bundle is deleted":                                     {in: given(east(leaving), func(in *input) { in.workspace = nil }), stage: unwanted, remove: true},
		"another manager: Bundle is deleted":                                          {in: given(east(external)), stage: unwanted, remove: true},
		"local agent is disabled: no Bundle":                                          {in: given(east(isLocal), localDisabled), stage: unwanted, remove: true},
		"local agent is disabled, Cluster of that name in another workspace: managed": {in: given(east(func(c *fleet.Cluster) { c.Name = "local" }), localDisabled), stage: managed},
		"local agent: managed":                                                        {in: given(east(isLocal)), stage: managed},
		"manageAgent false, Bundle exists: unchanged":                                 {in: given(east(), switchedOff, withBundleIn(system)), stage: unmanaged},
		"manageAgent false, no Bundle: nothing is created":                            {in: given(east(), switchedOff), stage: unmanaged},
		"manageAgent false, another namespace: Bundle stays":                          {in: given(east(belongsIn("a")), switchedOff), stage: unmanaged},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := test.in.cluster.DeepCopy()
			got := decide(test.in)
			if got.stage != test.stage || got.remove != test.remove || got.reason != test.reason {
				t.Errorf("stage %s, remove %t, reason %q; want %s, %t, %q", got.stage, got.remove, got.reason, test.stage, test.remove, test.reason)
			}
			if (got.reason == "") != (got.message == "") {
				t.Errorf("reason %q with message %q", got.reason, got.message)
			}
			want := importing.AgentValues{}
			if test.stage == managed {
				want = importing.AgentSettings(test.in.cluster, test.in.config, test.in.defaults, test.in.namespaces)
			}
			if diff := cmp.Diff(want, got.values); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.in.cluster); diff != "" {
				t.Errorf("the Cluster was changed:\n%s", diff)
			}
		})
	}
}

func TestAgentElsewhere_MessageNamesBothNamespaces(t *testing.T) {
	got := decide(given(east(belongsIn("wanted"), runsIn("found"))))
	if !strings.Contains(got.message, `"wanted"`) || !strings.Contains(got.message, `"found"`) {
		t.Error(got.message)
	}
}

func TestLongClusterName_BundleNameIsShortened(t *testing.T) {
	cluster := east(func(c *fleet.Cluster) { c.Name = strings.Repeat("long-", 12) + "name" })
	made := bundle(cluster, system, nil)
	if made.Name != names.AgentBundle(cluster.Name) || len(made.Name) > 63 || made.Spec.Targets[0].ClusterName != cluster.Name {
		t.Errorf("Bundle %s for %s", made.Name, made.Spec.Targets[0].ClusterName)
	}
}
