package agentmanagement_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/e2e/framework/client"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// scene is a workspace in which somebody makes a mistake, beside a cluster that has joined.
type scene struct {
	*testing.T
	hub       *client.Client
	workspace string
	neighbour agent
}

func newScene(t *testing.T, mistake string) *scene {
	t.Helper()
	s := &scene{T: t, hub: hub(t), workspace: "ws-" + strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(strings.ToLower(mistake))}
	workspace(t, s.hub, s.workspace)
	newToken(t, s.hub, s.workspace, "t1", 0)
	s.neighbour = s.joins("t1", "neighbour")
	eventually(t, func(g Gomega) { // its credential works before it is said to be granted
		found := &fleet.ClusterRegistration{}
		g.Expect(s.hub.Get(t.Context(), client.ClusterRegistrations, s.workspace, s.neighbour.request.Name, found)).To(Succeed())
		g.Expect(found.Status.Conditions).To(ContainElement(And(HaveField("Type", conditions.Granted), HaveField("Status", corev1.ConditionTrue))))
	})
	return s
}

// joins registers with the values of a token, as an agent does, and waits until the hub takes its heartbeat.
func (s *scene) joins(token, clientID string) agent {
	s.Helper()
	holder := bearer(s.T, valuesOf(s.T, s.hub, s.workspace, token))
	request := newRequest(s.workspace, clientID, s.workspace, token) // the random: credentials of all workspaces are in one namespace
	eventually(s.T, func(g Gomega) {
		g.Expect(holder.Create(s.Context(), client.ClusterRegistrations, request)).To(Succeed())
	})
	return s.answered(holder, request)
}

// answered waits for the answer to a request, which its holder may read, and uses it.
func (s *scene) answered(holder *client.Client, request *fleet.ClusterRegistration) agent {
	s.Helper()
	a := agent{request: request, secret: names.CredentialSecret(request.Spec.ClientID, request.Spec.ClientRandom)}
	eventually(s.T, func(g Gomega) {
		found, err := secret(s.Context(), holder, registration, a.secret)
		g.Expect(err).NotTo(HaveOccurred())
		a.credential, err = protocol.ParseCredential(found.Data)
		g.Expect(err).NotTo(HaveOccurred())
	})
	a.client = reach(s.T, as(control.Plane(s.T).Hub, a.credential.Token))
	NewWithT(s.T).Expect(a.beat(s.Context(), a.credential.ClusterName, time.Now())).To(Succeed())
	return a
}

// expectUndisturbed fails if the neighbour's request is another than it was, or its identity is worth nothing.
func (s *scene) expectUndisturbed() {
	s.Helper()
	g, now := NewWithT(s.T), &fleet.ClusterRegistration{}
	g.Expect(s.hub.Get(s.Context(), client.ClusterRegistrations, s.workspace, s.neighbour.request.Name, now)).To(Succeed())
	g.Expect(now.UID).To(Equal(s.neighbour.request.UID))
	g.Expect(conditions.Get(now.Status.Conditions, conditions.Granted).Status).To(Equal(corev1.ConditionTrue))
	g.Expect(s.neighbour.beat(s.Context(), s.neighbour.credential.ClusterName, time.Now())).To(Succeed())
	told, err := s.hub.Kube.CoreV1().Events(s.workspace).List(s.Context(), metav1.ListOptions{FieldSelector: "type=Warning,involvedObject.uid=" + string(now.UID)})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(told.Items).To(BeEmpty())
}

// expectTold waits until a condition of an object has this reason, and one Event says the same.
func (s *scene) expectTold(resource string, object client.Object, list func() []genericcondition.GenericCondition, conditionType, reason, remedy string) {
	s.Helper()
	name := object.GetName()
	var message string
	eventually(s.T, func(g Gomega) {
		g.Expect(s.hub.Get(s.Context(), resource, s.workspace, name, object)).To(Succeed())
		condition := conditions.Get(list(), conditionType)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.Reason).To(Equal(reason), condition.Message)
		g.Expect(condition.Status).To(Equal(corev1.ConditionFalse))
		g.Expect(condition.Message).To(ContainSubstring(remedy))
		message = condition.Message
	})
	s.expectEvent(object.GetUID(), reason, message)
}

func (s *scene) expectEvent(about types.UID, reason, message string) {
	s.Helper()
	eventually(s.T, func(g Gomega) {
		events, err := s.hub.Kube.CoreV1().Events(s.workspace).List(s.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.uid=" + string(about) + ",reason=" + reason,
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(events.Items).To(HaveLen(1))
		g.Expect(events.Items[0].Type).To(Equal(corev1.EventTypeWarning))
		g.Expect(events.Items[0].Message).To(Equal(message))
		g.Expect(events.Items[0].Count).To(BeEquivalentTo(1))
	})
}

func (s *scene) expectTokenTold(token *fleet.ClusterRegistrationToken, reason, remedy string) {
	s.Helper()
	s.expectTold(client.Tokens, token, func() []genericcondition.GenericCondition { return token.Status.Conditions }, conditions.Ready, reason, remedy)
}

func (s *scene) expectRequestTold(request *fleet.ClusterRegistration, reason, remedy string) {
	s.Helper()
	s.expectTold(client.ClusterRegistrations, request, func() []genericcondition.GenericCondition { return request.Status.Conditions }, conditions.Granted, reason, remedy)
}

func TestTokenMistakes_AreReportedAndAgentJoinsAfterRepair(t *testing.T) {
	tests := map[string]func(*scene) (token string){
		"a name that is too long": func(s *scene) string {
			token := newToken(s.T, s.hub, s.workspace, strings.Repeat("t", 64), 0)
			s.expectTokenTold(token, conditions.ReasonTokenNameTooLong, "create one with a shorter name")
			_, err := secret(s.Context(), s.hub, s.workspace, token.Name)
			NewWithT(s.T).Expect(err).To(notFound())
			newToken(s.T, s.hub, s.workspace, strings.Repeat("t", 63), 0)
			return strings.Repeat("t", 63)
		},
		"a name that a Secret has": func(s *scene) string {
			secrets := s.hub.Kube.CoreV1().Secrets(s.workspace)
			writeSecret(s.T, s.hub, s.workspace, "t2", nil)
			s.expectTokenTold(newToken(s.T, s.hub, s.workspace, "t2", 0), conditions.ReasonSecretNameTaken, "delete the Secret")
			NewWithT(s.T).Expect(secrets.Delete(s.Context(), "t2", metav1.DeleteOptions{})).To(Succeed())
			return "t2"
		},
		"values that cannot be read, nor written": func(s *scene) string {
			g, secrets := NewWithT(s.T), s.hub.Kube.CoreV1().Secrets(s.workspace)
			token := newToken(s.T, s.hub, s.workspace, "t2", 0)
			valuesOf(s.T, s.hub, s.workspace, "t2")
			broken, err := secrets.Get(s.Context(), "t2", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			immutable := true
			broken.Data, broken.Immutable = map[string][]byte{"values": []byte("- {")}, &immutable
			_, err = secrets.Update(s.Context(), broken, metav1.UpdateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			s.expectTokenTold(token, conditions.ReasonValuesInvalid, "delete the Secret")
			g.Expect(secrets.Delete(s.Context(), "t2", metav1.DeleteOptions{})).To(Succeed())
			return "t2"
		},
		"a time that is over": func(s *scene) string {
			held := &fleet.ClusterRegistrationToken{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.workspace, Name: "t2", Finalizers: []string{"example.com/held"}}, // else it is gone before it can be read
				Spec:       fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: time.Second}},
			}
			g := NewWithT(s.T)
			g.Expect(s.hub.Create(s.Context(), client.Tokens, held)).To(Succeed())
			s.expectTokenTold(held, conditions.ReasonTokenExpired, "create another")
			g.Expect(s.hub.Patch(s.Context(), client.Tokens, s.workspace, "t2", []byte(`{"metadata":{"finalizers":null}}`))).To(Succeed())
			newToken(s.T, s.hub, s.workspace, "t3", 0)
			return "t3"
		},
	}
	for name, mistake := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, name)
			s.joins(mistake(s), "late")
			s.expectUndisturbed()
		})
	}
}

func TestRequestMistakes_AreReportedAndAnsweredAfterRepair(t *testing.T) {
	// ask makes a request of the careless one.
	ask := func(s *scene, modify func(*fleet.ClusterRegistration)) (*client.Client, *fleet.ClusterRegistration) {
		s.Helper()
		request, holder := newRequest(s.workspace, "late", "first of "+s.workspace, "t1"), bearer(s.T, valuesOf(s.T, s.hub, s.workspace, "t1"))
		modify(request)
		eventually(s.T, func(g Gomega) {
			g.Expect(holder.Create(s.Context(), client.ClusterRegistrations, request)).To(Succeed())
		})
		return holder, request
	}
	tests := map[string]func(*scene){
		"no client ID": func(s *scene) {
			holder, request := ask(s, func(r *fleet.ClusterRegistration) { r.Spec.ClientID = "" })
			s.expectRequestTold(request, conditions.ReasonClientIDMissing, "set one in the agent's values")
			NewWithT(s.T).Expect(s.hub.Patch(s.Context(), client.ClusterRegistrations, s.workspace, request.Name, []byte(`{"spec":{"clientID":"late"}}`))).To(Succeed())
			request.Spec.ClientID = "late"
			s.answered(holder, request)
		},
		"a client ID whose Cluster is another's": func(s *scene) {
			squatter := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.workspace, Name: names.Cluster("late")}, Spec: fleet.ClusterSpec{ClientID: "another"}}
			NewWithT(s.T).Expect(s.hub.Create(s.Context(), client.Clusters, squatter)).To(Succeed())
			holder, request := ask(s, func(*fleet.ClusterRegistration) {})
			s.expectRequestTold(request, conditions.ReasonClientIDTaken, "rename that Cluster, or create one with this clientID")
			expected := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.workspace, Name: "made-for-it"}, Spec: fleet.ClusterSpec{ClientID: "late"}}
			NewWithT(s.T).Expect(s.hub.Create(s.Context(), client.Clusters, expected)).To(Succeed())
			if a := s.answered(holder, request); a.credential.ClusterName != "made-for-it" {
				s.Errorf("joined as %s", a.credential.ClusterName)
			}
		},
		"what was asked for before": func(s *scene) {
			same := func(r *fleet.ClusterRegistration) { r.Spec = s.neighbour.request.Spec }
			_, request := ask(s, same)
			s.expectRequestTold(request, conditions.ReasonCredentialTaken, "repeat the request with another clientRandom")
			s.joins("t1", "late")
		},
		"a token that is gone": func(s *scene) {
			_, request := ask(s, func(r *fleet.ClusterRegistration) { r.Labels[fleet.LabelRegistrationToken] = "gone" })
			s.expectRequestTold(request, conditions.ReasonTokenUnknown, "which creates a token or reinstalls the agent")
			s.joins("t1", "late")
		},
	}
	for name, mistake := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, name)
			mistake(s)
			s.expectUndisturbed()
		})
	}
}
