package controller_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// agents are played by the test: their clocks are an hour behind or ahead, and a second passes at each heartbeat.
type agents struct {
	*client.Client
	workspace string
	clocks    map[string]time.Time
}

// heard makes Clusters whose agents have their settings from the hub, and were heard of just now.
func heard(t *testing.T, hub *client.Client, workspace string, names ...string) *agents {
	t.Helper()
	a := &agents{Client: hub, workspace: workspace, clocks: map[string]time.Time{}}
	for i, name := range names {
		cluster := &fleet.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name},
			Spec:       fleet.ClusterSpec{ClientID: name, KubeConfigSecret: "there-is-none"},
		}
		if err := hub.Create(t.Context(), client.Clusters, cluster); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // a silence that goes on would count in the next test
			if err := hub.Delete(context.Background(), client.Clusters, workspace, name); err != nil {
				t.Error(err)
			}
		})
		settled(t, hub, workspace, name)
		a.clocks[name] = time.Now().Add([]time.Duration{-time.Hour, time.Hour}[i%2])
	}
	for _, name := range names {
		a.await(t, names, name, genericcondition.GenericCondition{Type: conditions.AgentReporting, Status: corev1.ConditionTrue})
	}
	return a
}

// beat is a heartbeat of each.
func (a *agents) beat(t *testing.T, g Gomega, names ...string) {
	t.Helper()
	for _, name := range names {
		a.clocks[name] = a.clocks[name].Add(time.Second)
		agent := fleet.AgentStatus{LastSeen: metav1.NewTime(a.clocks[name]), Namespace: "n"}
		body, err := json.Marshal([]any{map[string]any{"op": "add", "path": "/status/agent", "value": agent}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(a.Fleet.Patch(types.JSONPatchType).Namespace(a.workspace).Resource(client.Clusters).Name(name).
			SubResource("status").Body(body).Do(t.Context()).Error()).To(Succeed())
	}
}

// beatAtOnce is the last heartbeat of each. They come so close together that they are missed together; otherwise it repeats them.
func (a *agents) beatAtOnce(t *testing.T, names ...string) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		began := time.Now()
		a.beat(t, g, names...)
		g.Expect(time.Since(began)).To(BeNumerically("<", 2*time.Second))
	}).WithTimeout(patience).Should(Succeed())
}

// await waits until a Cluster has a condition, whatever its message and time, while others go on beating.
func (a *agents) await(t *testing.T, beating []string, name string, want genericcondition.GenericCondition) *fleet.Cluster {
	t.Helper()
	var cluster *fleet.Cluster
	NewWithT(t).Eventually(func(g Gomega) {
		a.beat(t, g, beating...)
		cluster = &fleet.Cluster{} // what is empty is not sent
		g.Expect(a.Get(t.Context(), client.Clusters, a.workspace, name, cluster)).To(Succeed())
		g.Expect(condition(cluster, want.Type)).To(Equal(want))
	}).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(Succeed())
	return cluster
}

// condition is without the message and the time.
func condition(cluster *fleet.Cluster, conditionType string) genericcondition.GenericCondition {
	found := conditions.Get(cluster.Status.Conditions, conditionType)
	if found == nil {
		return genericcondition.GenericCondition{}
	}
	return genericcondition.GenericCondition{Type: found.Type, Status: found.Status, Reason: found.Reason}
}

// twoSeconds lets the agents' interval be short, until the test is over.
func twoSeconds(t *testing.T, hub *client.Client) {
	t.Helper()
	settings(t, hub, func(values map[string]any) { values["agentCheckinInterval"] = "2s" })
}

func TestSilentAgent_IsMarkedUntilItReports(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	settled(t, hub, "fleet-local", "local")
	twoSeconds(t, hub)
	a := heard(t, hub, workspace(t, hub, "ws-silent"), "east", "west")
	west := []string{"west"}
	silent := genericcondition.GenericCondition{Type: conditions.AgentReporting, Status: corev1.ConditionFalse, Reason: conditions.ReasonAgentNotReporting}

	east := a.await(t, west, "east", silent)
	g.Expect(condition(east, conditions.Ready)).To(Equal(genericcondition.GenericCondition{
		Type: conditions.Ready, Status: corev1.ConditionFalse, Reason: conditions.ReasonAgentNotReporting,
	}))
	g.Expect(east.Status.Display.State).To(Equal("WaitCheckIn"))
	g.Eventually(func(g Gomega) {
		a.beat(t, g, west...) // which a busy machine may miss, too
		events, err := hub.Kube.CoreV1().Events("ws-silent").List(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		var told []string
		for _, event := range events.Items {
			if event.Reason == conditions.ReasonAgentNotReporting && event.InvolvedObject.Name == "east" {
				told = append(told, event.Type)
			}
		}
		g.Expect(told).To(Equal([]string{corev1.EventTypeWarning}), "once, for both conditions")
	}).WithTimeout(patience).Should(Succeed())

	// Another process takes over: it believes what is written, and writes nothing.
	g.Expect(leading.stop()).To(BeZero())
	since := auditLength(g)
	leading = start(t, must(t)(installed()))
	g.Expect(leading.awaitReady("leading")).To(Succeed())
	g.Consistently(func(g Gomega) {
		a.beat(t, g, west...)
		for _, request := range requests(g, since) {
			if strings.Contains(request, "/ws-silent/clusters/east") {
				g.Expect(request).To(HavePrefix("get "))
			}
		}
	}).WithTimeout(3 * time.Second).WithPolling(500 * time.Millisecond).Should(Succeed())
	again := &fleet.Cluster{}
	g.Expect(a.Get(t.Context(), client.Clusters, "ws-silent", "east", again)).To(Succeed())
	g.Expect(again.Status.Conditions).To(Equal(east.Status.Conditions))

	a.beat(t, g, "east")
	east = a.await(t, west, "east", genericcondition.GenericCondition{Type: conditions.AgentReporting, Status: corev1.ConditionTrue})
	g.Expect(condition(east, conditions.Ready).Status).To(Equal(corev1.ConditionTrue))
	g.Expect(east.Status.Display.State).To(BeEmpty())
}

func TestManySilentAtOnce_NoneIsMarked(t *testing.T) {
	g, hub := NewWithT(t), hub(t)
	settled(t, hub, "fleet-local", "local")
	twoSeconds(t, hub)
	names := []string{"a", "b", "c", "d", "e", "f"}
	a := heard(t, hub, workspace(t, hub, "ws-many"), names...)
	a.beatAtOnce(t, names...)
	expectEvent(t, hub, "ManyAgentsSilent")
	for _, name := range names {
		cluster := &fleet.Cluster{}
		g.Expect(a.Get(t.Context(), client.Clusters, "ws-many", name, cluster)).To(Succeed())
		g.Expect(condition(cluster, conditions.AgentReporting).Status).To(Equal(corev1.ConditionTrue), name)
		g.Expect(condition(cluster, conditions.Ready).Status).To(Equal(corev1.ConditionTrue), name)
	}
	// They come back, but for one.
	a.await(t, names[1:], "a", genericcondition.GenericCondition{
		Type: conditions.AgentReporting, Status: corev1.ConditionFalse, Reason: conditions.ReasonAgentNotReporting,
	})
}
