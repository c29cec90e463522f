package clusterimport

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/reconcile"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	// nobody is an address where nobody answers, at once.
	nobody = "https://127.0.0.1:1"

	appliedConfig = "downstream apply ConfigMap cattle-fleet-system/fleet-agent"
	appliedClass  = "downstream apply PriorityClass fleet-agent-priority-class"
	appliedBudget = "downstream apply PodDisruptionBudget cattle-fleet-system/fleet-agent-pod-disruption-budget"
	removedClass  = "downstream remove PriorityClass fleet-agent-priority-class"
	removedBudget = "downstream remove PodDisruptionBudget cattle-fleet-system/fleet-agent-pod-disruption-budget"
	removedPods   = "downstream remove pods cattle-fleet-system app=fleet-agent"
)

// agentBundle is the Bundle of ws/c1's agent.
func agentBundle(modifiers ...func(*fleet.Bundle)) *fleet.Bundle {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: names.AgentBundle("c1")}}
	b.Spec.DefaultNamespace = "cattle-fleet-system"
	for _, modify := range modifiers {
		modify(b)
	}
	return b
}

func tolerate(c *fleet.Cluster) {
	c.Generation, c.Spec.AgentTolerations = 2, []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
}

func prioritise(value int) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) {
		c.Generation, c.Spec.AgentSchedulingCustomization = c.Generation+1, &fleet.AgentSchedulingCustomization{
			PriorityClass:       &fleet.PriorityClassSpec{Value: value},
			PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{MaxUnavailable: "1"},
		}
	}
}

// change puts another configuration in force.
func change(hub *hubtest.Hub, modify func(*config.Config)) {
	c := hubConfig()
	modify(&c)
	hub.App.Config.Set(c)
	hub.Woken()
}

// expectAll compares all requests but those that look for something, and that a job reads its Cluster.
func expectAll(t *testing.T, hub *hubtest.Hub, want ...string) {
	t.Helper()
	var got []string
	for _, line := range hub.Requests() {
		if !strings.HasPrefix(line, "downstream find ") && line != readOwn && line != readCluster && line != readTarget {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// atRest fails unless the Cluster is in sync, and looking at it asks nobody anything but the kubeconfig Secret.
func atRest(t *testing.T, hub *hubtest.Hub) {
	t.Helper()
	expectImported(t, hub, "")
	hub.Sync()
	hub.Woken()
	handle(t, hub)
	expectAll(t, hub, readSecret)
	expectNoWork(t, hub)
}

func TestAgentWithBundle_OnlyOtherObjectsAreApplied(t *testing.T) {
	tests := map[string]struct {
		cluster func(*fleet.Cluster)
		config  func(*config.Config)
		want    []string // after the kubeconfig was read; nil: nobody is dialled
	}{
		"toleration in the Bundle: only recorded": {cluster: tolerate},
		"all settings of the Bundle: only recorded": {cluster: func(c *fleet.Cluster) {
			tolerate(c)
			c.Spec.AgentEnvVars, c.Spec.PrivateRepoURL, c.Spec.HostNetwork = []corev1.EnvVar{{Name: "A", Value: "b"}}, "registry.example", new(bool)
			*c.Spec.HostNetwork = true
			c.Spec.AgentAffinity, c.Spec.AgentResources = &corev1.Affinity{}, &corev1.ResourceRequirements{}
		}},
		"garbage collection interval: ConfigMap is applied": {
			config: func(c *config.Config) { c.GarbageCollectionInterval.Duration = 1 }, want: []string{appliedConfig},
		},
		"TLS mode: ConfigMap is applied": {config: func(c *config.Config) { c.AgentTLSMode = config.TLSModeStrict }, want: []string{appliedConfig}},
		"settings of the Bundle and of the ConfigMap: ConfigMap is applied": {
			cluster: tolerate, config: func(c *config.Config) { c.GarbageCollectionInterval.Duration = 1 }, want: []string{appliedConfig},
		},
		"PriorityClass and PodDisruptionBudget: applied": {cluster: prioritise(1), want: []string{appliedConfig, appliedClass, appliedBudget}},
		"flag agentConfigChanged: ConfigMap is applied":  {cluster: func(c *fleet.Cluster) { c.Status.AgentConfigChanged = true }, want: []string{appliedConfig}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.cluster == nil {
				test.cluster = func(*fleet.Cluster) {}
			}
			if test.config == nil {
				test.config = func(*config.Config) {}
			}
			hub, _ := imported(t, test.cluster)
			hub.Put(agentBundle())
			change(hub, test.config)
			if test.want == nil {
				handle(t, hub)
				expectAll(t, hub, readSecret, written)
			} else {
				work(t, hub)
				dial := "downstream dial kubeconfig " + hub.App.Config.Get().AgentTLSMode
				expectAll(t, hub, append(append([]string{readSecret, dial, asked}, test.want...), written)...)
			}
			if seen := current(t, hub).Status.Agent.LastSeen; seen.IsZero() {
				t.Error("the heartbeat is forgotten")
			}
			atRest(t, hub)
		})
	}
}

func TestAgentWithoutBundle_EverythingIsApplied(t *testing.T) {
	tests := map[string]func(*testing.T, *hubtest.Hub){
		"no Bundle": func(*testing.T, *hubtest.Hub) {},
		"Bundle for another namespace": func(_ *testing.T, h *hubtest.Hub) {
			h.Put(agentBundle(func(b *fleet.Bundle) { b.Spec.DefaultNamespace = "agents" }))
		},
		"label for unmanaged agents": func(t *testing.T, h *hubtest.Hub) {
			c := current(t, h)
			c.Labels[fleet.LabelNonManagedAgent] = "true"
			h.Put(agentBundle(), c)
		},
		"agent has not reported since its deployment": func(t *testing.T, h *hubtest.Hub) {
			c := current(t, h)
			c.Status.Agent.LastSeen = metav1.Time{}
			h.Put(agentBundle(), c)
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			hub, _ := imported(t, tolerate)
			prepare(t, hub)
			work(t, hub)
			expectSome(t, hub, readSecret, dialled, asked, applied, written)
			atRest(t, hub)
		})
	}
}

func TestFrozenBundle_BlocksSettings(t *testing.T) {
	hub, _ := imported(t, tolerate)
	hub.Put(agentBundle())
	change(hub, func(c *config.Config) { c.ManageAgent = new(bool) })
	handle(t, hub)
	expectAll(t, hub, readSecret, written)
	expectImported(t, hub, conditions.ReasonAgentFrozen)
	hub.Remove(agentBundle())
	hub.Sync()
	work(t, hub)
	expectSome(t, hub, readSecret, dialled, asked, applied, written)
	atRest(t, hub)
}

func TestHubAddressChanges_AgentIsUpdatedInPlace(t *testing.T) {
	moved := func(c *config.Config) { c.APIServerURL = nobody }
	unwatched := func(s *corev1.Secret) { s.Annotations = nil }
	bootstrapSecret := func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: "fleet-agent-bootstrap"}, Data: map[string][]byte{
			"apiServerURL": []byte("https://hub"), "apiServerCA": []byte(rulestest.HubCA), "clusterNamespace": []byte("ws"), "token": []byte("bearer"),
			"tokenName": []byte(tokenName), "systemRegistrationNamespace": []byte("cattle-fleet-clusters-system"),
		}}
	}
	tests := map[string]struct {
		change func(*config.Config)
		there  *corev1.Secret
		want   []string
		key    string // of the Secret, whose value is then:
		value  string
	}{
		"another URL": {moved, identityOf("ws", "c1"), []string{replacedID}, "kubeconfig", storedKubeconfig(nobody, rulestest.HubCA)},
		"another CA": {
			func(c *config.Config) { c.APIServerURL, c.APIServerCA = nobody, []byte(rulestest.OtherCA) }, identityOf("ws", "c1"), []string{replacedID},
			"kubeconfig", storedKubeconfig(nobody, rulestest.OtherCA),
		},
		"an agent that does not watch its Secret is restarted": {
			moved, identityOf("ws", "c1", unwatched), []string{replacedID, removedPods}, "kubeconfig", storedKubeconfig(nobody, rulestest.HubCA),
		},
		"an agent that has the address already is unchanged": {
			moved, identityOf("ws", "c1", unwatched, func(s *corev1.Secret) { s.Data["kubeconfig"] = []byte(storedKubeconfig(nobody, rulestest.HubCA)) }), nil,
			"kubeconfig", storedKubeconfig(nobody, rulestest.HubCA),
		},
		"an agent that has not registered yet": {moved, bootstrapSecret(), []string{replacedID + "-bootstrap"}, "apiServerURL", nobody},
		"an agent that uses the system's roots ignores another CA": {
			func(c *config.Config) { c.APIServerCA = []byte(rulestest.OtherCA) },
			identityOf("ws", "c1", func(s *corev1.Secret) { s.Data["kubeconfig"] = []byte(storedKubeconfig("https://hub", "")) }), nil,
			"kubeconfig", storedKubeconfig("https://hub", ""),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, behind := imported(t)
			behind.there = []hubtest.Object{test.there}
			hub.Put(agentBundle())
			change(hub, test.change)
			work(t, hub)
			want := []string{readSecret, dialled, asked}
			for _, request := range test.want {
				if request == removedPods {
					continue
				}
				want = append(want, request)
			}
			want = append(want, appliedConfig)
			if len(test.want) > 1 {
				want = append(want, removedPods)
			}
			expectAll(t, hub, append(want, written)...)
			got := string(behind.there[0].(*corev1.Secret).Data[test.key])
			if diff := cmp.Diff(test.value, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.key, diff)
			}
			if current(t, hub).Status.Agent.LastSeen.IsZero() {
				t.Error("the agent is forgotten")
			}
			atRest(t, hub)
		})
	}
}

// Agents would stop with a CA that is not PEM, for example if it is encoded twice.
func TestHubCAThatIsNotPEM_ReachesNoAgent(t *testing.T) {
	tests := map[string]func(*hubtest.Hub){
		"in the configuration": func(hub *hubtest.Hub) {
			change(hub, func(c *config.Config) { c.APIServerCA = []byte("bm90IHBlbQ==") })
		},
		"in the kubeconfig Secret": func(hub *hubtest.Hub) {
			secret := kubeconfig()
			secret.Data["apiServerCA"] = []byte("bm90IHBlbQ==")
			hub.Put(secret)
		},
	}
	for name, set := range tests {
		t.Run(name, func(t *testing.T) {
			hub, behind := imported(t)
			set(hub)
			hub.Requests()
			handle(t, hub)
			expectImported(t, hub, conditions.ReasonHubCAInvalid)
			expectAll(t, hub, readSecret, written)
			if diff := cmp.Diff(identityOf("ws", "c1"), behind.there[0]); diff != "" {
				t.Errorf("identity (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAgentWithoutIdentity_IsReinstalled(t *testing.T) {
	tests := map[string]*corev1.Secret{
		"no identity":                                      nil,
		"identity of another Cluster":                      identityOf("ws", "c2"),
		"identity of another workspace":                    identityOf("elsewhere", "c1"),
		"Secret with other data":                           {ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: "fleet-agent"}},
		"identity and bootstrap Secret of another Cluster": {ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: "fleet-agent-bootstrap"}},
	}
	for name, secret := range tests {
		t.Run(name, func(t *testing.T) {
			hub, behind := imported(t, tolerate)
			behind.there = nil
			if secret != nil {
				behind.there = []hubtest.Object{secret}
			}
			work(t, hub)
			expectAll(t, hub, readSecret, dialled, asked, written)
			expectImported(t, hub, conditions.ReasonAwaitingAgent)
			hub.Sync()
			work(t, hub)
			expectSome(t, hub, readSecret, dialled, asked, written, removedID, removedMeans, removedOld, applied, written)
			atRest(t, hub)
		})
	}
}

// A provider of Cluster API renews the credential all the time. That is nothing to try out while the agent reports, and
// the next job uses it.
func TestARenewedKubeconfigOfClusterAPI_CausesNoRequestDownstream(t *testing.T) {
	of := func(server string, i int) *corev1.Secret {
		secret := kubeconfig()
		secret.Data["value"] = []byte(strings.ReplaceAll(storedKubeconfig(server, rulestest.HubCA), "token: bearer", fmt.Sprint("token: t", i)))
		return secret
	}
	for name, marked := range map[string]func(*fleet.Cluster){
		"created for Cluster API": forClusterAPI,
		"imported by a user":      func(c *fleet.Cluster) { c.Annotations = map[string]string{annotation.CAPIImported: "capi-1"} },
	} {
		t.Run(name, func(t *testing.T) {
			hub, _ := imported(t, marked)
			handle(t, hub) // and so knows the one before
			hub.Put(of("https://c1.example", 0))
			hub.Requests()
			work(t, hub)
			hub.Requests()
			atRest(t, hub)
			for i := range 20 {
				hub.Put(of("https://c1.example", i+1))
				handle(t, hub)
				expectAll(t, hub, readSecret)
			}
			hub.Put(func() *fleet.Cluster {
				c := current(t, hub)
				c.Generation, c.Spec.RedeployAgentGeneration = 2, 1
				return c
			}())
			hub.Sync()
			work(t, hub)
			var dials []string
			for _, request := range hub.Requests() {
				if strings.HasPrefix(request, "downstream dial ") {
					dials = append(dials, request)
				}
			}
			if len(dials) != 1 || !strings.Contains(dials[0], "token: t20\n") {
				t.Errorf("dialed %q", dials)
			}
			hub.Sync()
			hub.Put(of("https://c2.example", 0))
			hub.Woken()
			work(t, hub)
			expectSome(t, hub, readSecret, "downstream dial "+string(of("https://c2.example", 0).Data["value"])+" system-store", asked)
		})
	}
}

func TestChangedKubeconfig_IsProvenOrMovesTheAgent(t *testing.T) {
	rotate := func(hub *hubtest.Hub) {
		secret := kubeconfig()
		secret.Data["value"] = []byte("rotated")
		hub.Put(secret)
		hub.Requests()
	}
	const dialRotated = "downstream dial rotated system-store"
	t.Run("same cluster: proven, nothing is written", func(t *testing.T) {
		hub, _ := imported(t)
		handle(t, hub) // and so knows the one before
		rotate(hub)
		work(t, hub)
		expectAll(t, hub, readSecret, dialRotated, asked)
		atRest(t, hub)
	})
	t.Run("another cluster: the agent is deployed there", func(t *testing.T) {
		hub, behind := imported(t)
		handle(t, hub)
		behind.there = nil
		rotate(hub)
		work(t, hub)
		expectAll(t, hub, readSecret, dialRotated, asked, written)
		hub.Sync()
		work(t, hub)
		expectSome(t, hub, readSecret, dialRotated, asked, written, removedID, removedMeans, removedOld, applied, written)
		atRest(t, hub)
	})
	t.Run("unreachable cluster: reported and retried", func(t *testing.T) {
		hub, _ := imported(t)
		handle(t, hub)
		rotate(hub)
		hub.Fail(asked, foreign.ErrUnreachable)
		work(t, hub)
		expectImported(t, hub, conditions.ReasonDownstreamUnreachable)
		hub.Fail(asked, nil)
		hub.Sync()
		handle(t, hub)
		hub.Pass(expectRetry(t, hub, retryMin))
		work(t, hub)
		hub.Requests()
		atRest(t, hub)
	})
	t.Run("deleted and created again for another cluster: the agent is deployed there", func(t *testing.T) {
		hub, behind := imported(t)
		handle(t, hub)
		hub.Remove(kubeconfig())
		handle(t, hub)
		behind.there = nil
		rotate(hub)
		work(t, hub)
		expectAll(t, hub, readSecret, dialRotated, asked, written)
	})
	t.Run("same kubeconfig, another hub address: not proven", func(t *testing.T) {
		hub, _ := imported(t)
		handle(t, hub)
		secret := kubeconfig()
		secret.Data["note"] = []byte("only a note")
		hub.Put(secret)
		hub.Requests()
		handle(t, hub)
		expectAll(t, hub, readSecret)
	})
}

// A process that starts has not used the kubeconfig yet. It must not report that an import works that failed before.
func TestRejectedKubeconfig_IsTriedAgainAfterARestart(t *testing.T) {
	rejected := apierrors.NewUnauthorized("no")
	put := func(hub *hubtest.Hub, content string) {
		secret := kubeconfig()
		secret.Data["value"] = []byte(content)
		hub.Put(secret)
		hub.Sync()
		hub.Woken()
		hub.Requests()
	}
	before, _ := imported(t)
	handle(t, before) // and so knows the one before
	put(before, "wrong")
	before.Fail(asked, rejected)
	work(t, before)
	expectImported(t, before, conditions.ReasonDownstreamUnauthorized)

	for name, restart := range map[string]func(*testing.T, *hubtest.Hub, *fleet.Cluster){
		"agent reports": func(_ *testing.T, hub *hubtest.Hub, c *fleet.Cluster) { hub.Put(c) },
		"silent agent reports again after the restart": func(t *testing.T, hub *hubtest.Hub, c *fleet.Cluster) {
			silent := c.DeepCopy()
			silent.Status.Agent.LastSeen = metav1.Time{}
			hub.Put(silent)
			handle(t, hub)
			hub.Put(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := current(t, before)
			hub, behind := start(t, importToken(), values(t))
			put(hub, "wrong")
			restart(t, hub, c)
			behind.there = []hubtest.Object{identityOf("ws", "c1")}
			hub.App.Liveness.Stale(reconcile.KeyOf(c))
			hub.Sync()
			hub.Woken()
			hub.Requests()
			hub.Fail(asked, rejected)
			work(t, hub)
			expectAll(t, hub, readSecret, "downstream dial wrong system-store", asked)
			expectImported(t, hub, conditions.ReasonDownstreamUnauthorized)
			hub.Sync()
			handle(t, hub)
			hub.Pass(expectRetry(t, hub, retryMin))
			hub.Fail(asked, nil)
			put(hub, "right")
			work(t, hub)
			expectAll(t, hub, readSecret, "downstream dial right system-store", asked, written)
			atRest(t, hub)
		})
	}
}

func TestSchedulingObjects_FollowTheSettings(t *testing.T) {
	const priorityClassName = "fleet-agent-priority-class"
	mark := func(set string) map[string]string {
		return map[string]string{fleet.LabelSetHash: names.SetHash(set, names.Owner{})}
	}
	class := func(set string, value int32) *schedulingv1.PriorityClass {
		policy := corev1.PreemptLowerPriority
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: priorityClassName, Labels: mark(set)}, Value: value, PreemptionPolicy: &policy}
	}
	limits := func(set string) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: "fleet-agent-pod-disruption-budget", Labels: mark(set)}}
	}
	agent := func(class string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: "fleet-agent"}}
		d.Spec.Template.Spec.PriorityClassName = class
		return d
	}
	const set = "fleet-agent-bootstrap"
	tests := map[string]struct {
		spec   func(*fleet.Cluster)
		there  []hubtest.Object
		want   []string
		reason string
	}{
		"PriorityClass is added": {prioritise(1), nil, []string{appliedConfig, appliedClass, appliedBudget}, ""},
		"PriorityClass with another value: it and the pods are replaced": {
			prioritise(2), []hubtest.Object{class(set, 1), agent(priorityClassName)},
			[]string{removedClass, appliedConfig, appliedClass, appliedBudget, removedPods}, "",
		},
		"PriorityClass with the same value: applied": {
			prioritise(1), []hubtest.Object{class(set, 1), agent(priorityClassName)}, []string{appliedConfig, appliedClass, appliedBudget}, "",
		},
		"settings are removed: both are deleted": {
			noScheduling, []hubtest.Object{class(set, 1), limits(set), agent("")}, []string{appliedConfig, removedBudget, removedClass}, "",
		},
		"PriorityClass is still used: stays": {
			noScheduling, []hubtest.Object{class(set, 1), limits(set), agent(priorityClassName)}, []string{appliedConfig, removedBudget},
			conditions.ReasonAwaitingAgent,
		},
		"objects of another agent: stay": {
			noScheduling, []hubtest.Object{class(set+"-agents", 1), limits("x"), agent("")}, []string{appliedConfig}, "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, behind := imported(t, func(c *fleet.Cluster) {
				c.Status.AgentSchedulingCustomizationHash = "of another"
				test.spec(c)
			})
			behind.there = append(behind.there, test.there...)
			hub.Put(agentBundle())
			work(t, hub)
			expectAll(t, hub, append(append([]string{readSecret, dialled, asked}, test.want...), written)...)
			expectImported(t, hub, test.reason)
			if test.reason == "" {
				atRest(t, hub)
			}
		})
	}
}

// The PriorityClass is the only object that agents of several hubs share on a cluster.
func TestAgentThatGoes_LeavesThePriorityClassOfOtherAgents(t *testing.T) {
	moves := func(from, to string) func(*testing.T, *schedulingv1.PriorityClass) *hubtest.Hub {
		return func(t *testing.T, class *schedulingv1.PriorityClass) *hubtest.Hub {
			hub, behind := imported(t, func(c *fleet.Cluster) {
				c.Generation, c.Spec.AgentNamespace, c.Status.Agent.Namespace = 2, to, from
			})
			behind.there = []hubtest.Object{class}
			work(t, hub)
			expectImported(t, hub, "")
			return hub
		}
	}
	tests := map[string]struct {
		set     string
		goes    func(*testing.T, *schedulingv1.PriorityClass) *hubtest.Hub
		removed bool
	}{
		"moves, its own class":                                        {"", moves("cattle-fleet-system", "agents"), true},
		"moves, its own class of a named namespace":                   {"agents", moves("agents", "cattle-fleet-system"), true},
		"moves, class of an agent in a named namespace":               {"others", moves("cattle-fleet-system", "agents"), false},
		"moves between others, class of the agent in the default one": {"", moves("agents", "agents-2"), false},
		"is disabled on the hub, its own class":                       {"", disabledOnTheHub, true},
		"is disabled on the hub, class of another agent":              {"others", disabledOnTheHub, false},
		"is left over, class of another agent":                        {"others", leftOver, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			class := agentchart.SharedClass()
			class.Labels = map[string]string{fleet.LabelSetHash: names.SetHash(names.AgentSetID(test.set), names.Owner{})}
			requests := test.goes(t, class).Requests()
			if !slices.ContainsFunc(requests, func(line string) bool {
				return strings.HasPrefix(line, "downstream remove Deployment ")
			}) {
				t.Errorf("no agent was removed: %q", requests)
			}
			if removed := slices.Contains(requests, removedClass); removed != test.removed {
				t.Errorf("the class was removed: %v", removed)
			}
		})
	}
}

func disabledOnTheHub(t *testing.T, class *schedulingv1.PriorityClass) *hubtest.Hub {
	t.Helper()
	local := cluster(func(c *fleet.Cluster) {
		c.Namespace, c.Name = "fleet-local", "local"
		c.Status.AgentDeployedGeneration = new(int64)
	})
	secret := kubeconfig()
	secret.Namespace = "fleet-local"
	hub, behind := start(t, local, secret)
	behind.uid, behind.there = "u-hub", []hubtest.Object{class}
	change(hub, func(c *config.Config) {
		c.Bootstrap = config.Bootstrap{Namespace: "fleet-local", LocalAgentDisabled: true}
	})
	if err := hub.Handle("Cluster", "fleet-local/local"); err != nil {
		t.Fatal(err)
	}
	hub.AwaitWoken()
	return hub
}

func leftOver(t *testing.T, class *schedulingv1.PriorityClass) *hubtest.Hub {
	t.Helper()
	hub, behind := ready(t, cluster())
	hub.App.Namespaces.System = "hub-system"
	behind.there = []hubtest.Object{class, markedBy("cattle-fleet-system", "u-hub")}
	work(t, hub)
	return hub
}

func noScheduling(c *fleet.Cluster) { c.Generation, c.Spec.AgentSchedulingCustomization = 2, nil }

func TestSettingRefusedByTheChart_IsReported(t *testing.T) {
	hub, _ := imported(t, func(c *fleet.Cluster) {
		c.Generation, c.Spec.AgentSchedulingCustomization = 2, &fleet.AgentSchedulingCustomization{
			PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{MaxUnavailable: "1", MinAvailable: "1"},
		}
	})
	work(t, hub)
	expectAll(t, hub, readSecret, written) // nobody is dialled for it
	expectImported(t, hub, conditions.ReasonSettingsInvalid)
}

func TestAnotherSystemNamespace_LeftoversAreRemoved(t *testing.T) {
	const (
		oldAgent       = "downstream remove Deployment cattle-fleet-system/fleet-agent"
		oldCredentials = "downstream remove Namespace cattle-fleet-clusters-system"
	)
	usual := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cattle-fleet-system"}}
	tests := map[string]struct {
		system, agents string
		there          []hubtest.Object
		want           []string
	}{
		"the default system namespace: nothing":                                      {"cattle-fleet-system", "", []hubtest.Object{usual}, nil},
		"another system namespace, no agent: credentials are removed":                {"hub-system", "", []hubtest.Object{usual}, []string{oldCredentials}},
		"another system namespace, the default one is gone: credentials are removed": {"hub-system", "", nil, []string{oldCredentials}},
		"the agent runs in the default namespace: nothing":                           {"hub-system", "cattle-fleet-system", []hubtest.Object{usual}, nil},
		"a hub runs in the default namespace: nothing": {"hub-system", "", []hubtest.Object{usual, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: "fleet-controller"},
		}}, nil},
		"an agent of another hub: nothing": {"hub-system", "", []hubtest.Object{usual, markedBy("cattle-fleet-system", otherHub)}, nil},
		"an agent of this hub: removed":    {"hub-system", "", []hubtest.Object{usual, markedBy("cattle-fleet-system", "u-hub")}, []string{oldAgent, oldCredentials}},
		"an identity of this hub: removed": {"hub-system", "", []hubtest.Object{usual, identityOf("ws", "c1")}, []string{oldAgent, oldCredentials}},
		"an identity of another hub, no mark: nothing": {"hub-system", "", []hubtest.Object{usual, identityOf("ws", "c1", func(s *corev1.Secret) {
			s.Data["kubeconfig"] = []byte(storedKubeconfig("https://rancher", rulestest.HubCA))
		})}, nil},
		"the means to register at another hub: nothing": {"hub-system", "", []hubtest.Object{usual, func() *corev1.Secret {
			secret := means("token")
			secret.Data["apiServerURL"] = []byte("https://rancher")
			return secret
		}()}, nil},
		"the means to register at this hub: removed":                     {"hub-system", "", []hubtest.Object{usual, means("token")}, []string{oldAgent, oldCredentials}},
		"an identity that cannot be read, no mark: the agent stays":      {"hub-system", "", []hubtest.Object{usual, storedIdentity()}, []string{oldCredentials}},
		"an identity that cannot be read, an agent of this hub: removed": {"hub-system", "", []hubtest.Object{usual, storedIdentity(), markedBy("cattle-fleet-system", "u-hub")}, []string{oldAgent, oldCredentials}},
		"an identity of another Cluster: nothing":                        {"hub-system", "", []hubtest.Object{usual, identityOf("ws", "later", tokenOf("u-later-account"))}, nil},
		"an identity of another Cluster, an agent of this hub: nothing":  {"hub-system", "", []hubtest.Object{usual, identityOf("ws", "later", tokenOf("u-later-account")), markedBy("cattle-fleet-system", "u-hub")}, nil},
		"the means to register as another Cluster: nothing":              {"hub-system", "", []hubtest.Object{usual, meansOf("ws", "later", "later-bearer")}, nil},
		"an identity of another Cluster, whose account is gone: removed": {"hub-system", "", []hubtest.Object{usual, identityOf("ws", "later", tokenOf("u-gone"))}, []string{oldAgent, oldCredentials}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, behind := ready(t, cluster(func(c *fleet.Cluster) { c.Spec.AgentNamespace = test.agents }), later(t, "ws")...)
			hub.App.Namespaces.System = test.system
			behind.there = test.there
			work(t, hub)
			var got []string
			for _, request := range hub.Requests() {
				if request == oldAgent || strings.HasPrefix(request, "downstream remove Namespace") {
					got = append(got, request)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
			expectImported(t, hub, "")
		})
	}
}

func TestRefusedDeployment_IsRetriedWithBackoff(t *testing.T) {
	hub, behind := imported(t, tolerate)
	behind.there = nil
	hub.Fail(applied, apierrors.NewForbidden(corev1.Resource("deployments"), "fleet-agent", nil))
	work(t, hub) // finds nobody
	hub.Sync()
	work(t, hub) // and is refused
	expectImported(t, hub, conditions.ReasonDownstreamForbidden)
	least := retryMin
	for range 4 {
		hub.Sync()
		hub.Requests()
		handle(t, hub)
		expectAll(t, hub, readSecret)
		hub.Pass(expectRetry(t, hub, least))
		work(t, hub)
		least *= 2
	}
}
