package clusterimport

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/fleet-hub/fleet/internal/cmd/controller/agentmanagement/clusterimport/install"
	"github.com/fleet-hub/fleet/internal/cmd/controller/hub/hubtest"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/reconcile"
	grantrule "github.com/fleet-hub/fleet/internal/rules/grant"
	supervisionrule "github.com/fleet-hub/fleet/internal/rules/supervision"
	"github.com/fleet-hub/fleet/internal/rules/token"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	agentNamespace = "cattle-fleet-system"
	deletesToken   = "delete ClusterRegistrationToken ws/" + tokenName
	createsToken   = "create ClusterRegistrationToken ws/" + tokenName
	replacedAgent  = "downstream replace Deployment " + agentNamespace + "/fleet-agent"
	appliedMeans   = "downstream apply Secret " + agentNamespace + "/fleet-agent-bootstrap"
)

func here(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: agentNamespace, Name: name}
}

// agentDeployment is there once an agent was deployed; podOf is its pod.
func agentDeployment(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: here("fleet-agent"), Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
}

func podOf(state corev1.ContainerState) *corev1.Pod {
	phase := corev1.PodPending
	if state.Running != nil {
		phase = corev1.PodRunning
	}
	return &corev1.Pod{ObjectMeta: here("fleet-agent-1"), Status: corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: "fleet-agent", State: state}}}}
}

func runningPod() *corev1.Pod {
	return podOf(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
}

// means are what an agent registers with, of a token.
func means(token string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: here("fleet-agent-bootstrap"), Data: protocol.Bootstrap{
		APIServerURL: "https://hub", ClusterNamespace: "ws", Token: token, TokenName: tokenName, SystemRegistrationNamespace: "r",
	}.Encode()}
}

func storedIdentity() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: here("fleet-agent"), Data: map[string][]byte{
		"kubeconfig": []byte("k"), "deploymentNamespace": []byte("cluster-ns"), "clusterNamespace": []byte("ws"), "clusterName": []byte("c1"),
	}}
}

// identityWith is an identity with a token of the account with this UID.
func identityWith(account string) *corev1.Secret { return identityOf("ws", "c1", tokenOf(account)) }

// tokenOf gives an identity a token of the account with this UID.
func tokenOf(account string) func(*corev1.Secret) {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"kubernetes.io":{"serviceaccount":{"uid":"` + account + `"}}}`))
	return func(s *corev1.Secret) {
		s.Data["kubeconfig"] = bytes.ReplaceAll(s.Data["kubeconfig"], []byte("token: bearer"), []byte("token: e30."+claims+".signature"))
	}
}

// granted is a registration of ws/c1 that was granted, and its account.
func granted(modifiers ...func(*fleet.ClusterRegistration)) []hubtest.Object {
	grant := request()
	grant.Status = fleet.ClusterRegistrationStatus{Granted: true, ClusterName: "c1"}
	for _, modify := range modifiers {
		modify(grant)
	}
	name := grantrule.RequestAccount(grant, cluster())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: name.Namespace, Name: name.Name, UID: "u-live", Labels: map[string]string{fleet.LabelManaged: "true"},
	}}
	return []hubtest.Object{grant, account}
}

func request() *fleet.ClusterRegistration {
	return &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "request-1", UID: "u-r"},
		Spec:       fleet.ClusterRegistrationSpec{ClientID: "client", ClientRandom: "r"},
	}
}

// awaited is a hub that has deployed ws/c1's agent, of which this is there now and which was never heard of, at the
// time of the first look.
func awaited(t *testing.T, there ...hubtest.Object) (*hubtest.Hub, *downstream) {
	t.Helper()
	hub, behind := ready(t, cluster())
	work(t, hub)
	for _, object := range there { // a Deployment is as the hub has applied it
		if found, is := object.(*appsv1.Deployment); is {
			found.Spec.Template = *install.Find[*appsv1.Deployment](behind.applied).Spec.Template.DeepCopy()
		}
	}
	behind.there = there
	hub.Sync()
	hub.Requests()
	handle(t, hub)
	hub.Pass(expectRetry(t, hub, supervisionrule.FirstInspection))
	hub.Requests()
	return hub, behind
}

// looks are the requests without those that read what was found, and the kubeconfig, for which nobody can say here
// whether it has changed.
func looks(hub *hubtest.Hub) (got []string) {
	for _, line := range hub.Requests() {
		if !strings.HasPrefix(line, "downstream find ") && !strings.HasPrefix(line, "downstream list ") && line != readOwn && line != readSecret {
			got = append(got, line)
		}
	}
	return got
}

func expectLooks(t *testing.T, hub *hubtest.Hub, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, looks(hub)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestLook_AgentIsStarting(t *testing.T) {
	hub, _ := awaited(t, agentDeployment(1), means("bearer"), runningPod())
	work(t, hub)
	hubtest.ExpectRequests(t, hub, readSecret, readCluster, dialled, asked, readMark,
		"downstream find Namespace "+agentNamespace, "downstream find Secret cattle-fleet-system/fleet-agent",
		"downstream find Secret cattle-fleet-system/fleet-agent-bootstrap", "downstream find Deployment cattle-fleet-system/fleet-agent",
		"downstream list ReplicaSetList cattle-fleet-system app=fleet-agent", "downstream list PodList cattle-fleet-system app=fleet-agent")
	handle(t, hub)
	expectLooks(t, hub)
	expectRetry(t, hub, supervisionrule.NextLook(1, false))
}

func TestReportingAgent_IsNotLookedAt(t *testing.T) {
	hub, _ := awaited(t)
	c := current(t, hub)
	c.Status.Agent.LastSeen = metav1.NewTime(hub.Now())
	hub.Put(c)
	hub.Woken()
	handle(t, hub)
	expectLooks(t, hub)
	hubtest.ExpectWoken(t, hub)
}

func TestInspection_ReportsTheReason(t *testing.T) {
	refusal := func(message string) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: here("fleet-agent-x"), Status: appsv1.ReplicaSetStatus{Conditions: []appsv1.ReplicaSetCondition{{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Message: message,
		}}}}
	}
	deleted := metav1.Now()
	tests := map[string]struct {
		there  []hubtest.Object
		fail   string
		err    error
		reason string
	}{
		"a quota refuses the pod": {there: []hubtest.Object{agentDeployment(1), means("bearer"), refusal("exceeded quota: q, used: 1")}, reason: conditions.ReasonAgentPodRejected},
		"its container crashes": {
			there:  []hubtest.Object{agentDeployment(1), means("bearer"), podOf(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})},
			reason: conditions.ReasonAgentPodFailing,
		},
		"its namespace is terminating": {
			there:  []hubtest.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: agentNamespace, DeletionTimestamp: &deleted}}},
			reason: conditions.ReasonNamespaceTerminating,
		},
		"the cluster is unreachable": {fail: asked, err: foreign.ErrUnreachable, reason: conditions.ReasonDownstreamUnreachable},
		"the credential is rejected": {
			fail: asked, err: apierrors.NewUnauthorized("no"), reason: conditions.ReasonDownstreamUnauthorized,
		},
		"it belongs to another hub": {
			there:  []hubtest.Object{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: "fleet-agent", Annotations: map[string]string{annotation.HubUID: "u-other"}}}},
			reason: conditions.ReasonAnotherHub,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, behind := awaited(t, test.there...)
			hub.Fail(test.fail, test.err)
			work(t, hub)
			expectImported(t, hub, test.reason)
			if told := hub.Told(); len(told) != 1 {
				t.Errorf("told %q", told)
			}
			hub.Requests()
			hub.Sync()
			handle(t, hub)
			hub.Pass(expectRetry(t, hub, supervisionrule.NextLook(1, false)))
			work(t, hub)
			if requests := looks(hub); slices.Contains(requests, written) {
				t.Errorf("the same is said again: %q", requests)
			}

			// It heals by itself.
			hub.Fail(test.fail, nil)
			behind.there = []hubtest.Object{agentDeployment(1), means("bearer"), runningPod()}
			hub.Sync()
			handle(t, hub)
			hub.Pass(expectRetry(t, hub, supervisionrule.NextLook(2, false)))
			work(t, hub)
			expectImported(t, hub, "")
			if told := hub.Told(); told != nil {
				t.Errorf("told %q", told)
			}
		})
	}
}

// The failure does not describe the agent.
func TestFailedInspection_KeepsTheCondition(t *testing.T) {
	hub, _ := awaited(t, agentDeployment(1))
	hub.Fail(asked, errServer)
	work(t, hub)
	expectLooks(t, hub, readCluster, dialled, asked)
	expectImported(t, hub, "")
	hub.Sync()
	handle(t, hub)
	expectRetry(t, hub, supervisionrule.NextLook(1, false))
}

func TestInspectionWithoutKubeconfig_ReportsKubeconfigMissing(t *testing.T) {
	hub, _ := awaited(t)
	hub.Remove(kubeconfig())
	work(t, hub)
	expectLooks(t, hub, written)
	expectImported(t, hub, conditions.ReasonKubeconfigMissing)
}

func TestRemovedCause_InspectsAtOnce(t *testing.T) {
	tests := map[string]func(*hubtest.Hub){
		"another kubeconfig": func(hub *hubtest.Hub) {
			right := kubeconfig()
			right.Data["value"] = []byte("right")
			hub.Put(right)
		},
		"another setting of the kubeconfigs that are allowed": func(hub *hubtest.Hub) {
			change(hub, func(c *config.Config) { c.AllowLocalKubeconfigs = true })
		},
	}
	for name, mend := range tests {
		t.Run(name, func(t *testing.T) {
			hub, behind := awaited(t, agentDeployment(1), means("bearer"), runningPod())
			hub.Fail(asked, foreign.ErrUnreachable)
			work(t, hub)
			expectImported(t, hub, conditions.ReasonDownstreamUnreachable)
			hub.Fail(asked, nil)
			hub.Sync()
			mend(hub)
			behind.there = append(behind.there, storedIdentity())
			hub.Requests()
			hub.Woken()
			work(t, hub)
			expectImported(t, hub, "")
		})
	}
}

func TestMissingDeployment_IsAppliedAgain(t *testing.T) {
	tests := map[string][]hubtest.Object{
		"missing Deployment":        {means("bearer")},
		"Deployment scaled to zero": {means("bearer"), agentDeployment(0)},
	}
	for name, there := range tests {
		t.Run(name, func(t *testing.T) {
			hub, _ := awaited(t, there...)
			work(t, hub) // looks
			hub.Sync()
			hub.Requests()
			work(t, hub) // repairs
			requests := hub.Requests()
			hubtest.ExpectOrder(t, requests, readSecret, dialled, asked, applied)
			if slices.Contains(requests, replacedAgent) {
				t.Error("the Deployment was replaced")
			}
			if got := current(t, hub).Status; got.AgentDeployedGeneration == nil {
				t.Error("the agent has to register anew")
			}
			handle(t, hub)
			expectRetry(t, hub, supervisionrule.NextLook(1, false))
		})
	}
}

// A corrected image in the configuration is applied at once.
func TestCorrectedImage_IsAppliedToAFailingAgent(t *testing.T) {
	hub, _ := awaited(t, agentDeployment(1), means("bearer"), podOf(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}))
	work(t, hub)
	expectImported(t, hub, conditions.ReasonAgentPodFailing)
	hub.Sync()
	handle(t, hub) // and nothing is corrected yet
	expectRetry(t, hub, supervisionrule.NextLook(1, false))
	hub.Requests()
	change(hub, func(c *config.Config) { c.AgentImage = "fleet-agent:v2" })
	work(t, hub) // looks
	hub.Sync()
	hub.Requests()
	work(t, hub) // repairs
	expectSome(t, hub, readSecret, dialled, asked, replacedAgent, applied, written)
	if got := current(t, hub).Status; got.AgentDeployedGeneration == nil {
		t.Error("the agent has to register anew")
	}
}

// A setting that the agent got with its Bundle and that is no longer wanted is removed. If a webhook adds it again, the hub
// tries once per inspection.
func TestSettingThatIsNoLongerWanted_IsRemovedFromAFailingAgent(t *testing.T) {
	hub, behind := awaited(t, agentDeployment(1), means("bearer"), podOf(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}))
	bad := func() {
		deployment := behind.there[0].(*appsv1.Deployment)
		deployment.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "fleetagent", FieldsV1: metav1.NewFieldsV1(
			`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"fleet-agent\"}":{"f:env":{"k:{\"name\":\"HTTPS_PROXY\"}":{}}}}}}}}`)}}
		container := &deployment.Spec.Template.Spec.Containers[0]
		container.Env = append(container.Env, corev1.EnvVar{Name: "HTTPS_PROXY", Value: "wrong"})
	}
	for looks := 1; looks < 4; looks++ {
		bad()
		work(t, hub) // looks
		hub.Sync()
		hub.Requests()
		work(t, hub) // repairs
		if requests := hub.Requests(); !slices.Contains(requests, replacedAgent) || !slices.Contains(requests, applied) {
			t.Fatalf("look %d: requests %q", looks, requests)
		}
		env := behind.there[0].(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Env
		if slices.ContainsFunc(env, func(v corev1.EnvVar) bool { return v.Name == "HTTPS_PROXY" }) {
			t.Errorf("look %d: the variable is still there", looks)
		}
		hub.Sync()
		handle(t, hub)
		hub.Pass(expectRetry(t, hub, supervisionrule.NextLook(looks, false)))
		hub.Requests()
	}
}

// What an admin has added to the Deployment stays while its node is down, and while a setting is corrected.
func TestSettingsOfAnAdmin_StayOnAFailingAgent(t *testing.T) {
	hub, behind := awaited(t, agentDeployment(1), means("bearer"), podOf(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}))
	spec := &behind.there[0].(*appsv1.Deployment).Spec.Template.Spec
	spec.HostAliases, spec.DNSPolicy = []corev1.HostAlias{{IP: "10.0.0.1"}}, corev1.DNSDefault
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "ca"})
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: "admin"})
	spec.NodeSelector["admin"] = "a"
	spec.Containers[0].Env = append(spec.Containers[0].Env, corev1.EnvVar{Name: "HTTPS_PROXY", Value: "p"})
	want := spec.DeepCopy()
	work(t, hub) // looks
	hub.Sync()
	hub.Requests()
	handle(t, hub)
	if requests := hub.Requests(); slices.Contains(requests, dialled) {
		t.Errorf("the agent is repaired: %q", requests)
	}
	expectRetry(t, hub, supervisionrule.NextLook(1, false))
	change(hub, func(c *config.Config) { c.AgentImage = "fleet-agent:v2" })
	work(t, hub) // looks
	hub.Sync()
	work(t, hub) // repairs
	want.Containers[0].Image = "fleet-agent:v2"
	if diff := cmp.Diff(want, &behind.there[0].(*appsv1.Deployment).Spec.Template.Spec); diff != "" {
		t.Errorf("replaced pod template (-want +got):\n%s", diff)
	}
	written := install.Find[*appsv1.Deployment](behind.applied).Spec.Template.Spec
	if diff := cmp.Diff(want.Tolerations, written.Tolerations); diff != "" {
		t.Errorf("applied tolerations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.NodeSelector, written.NodeSelector); diff != "" {
		t.Errorf("applied node selector (-want +got):\n%s", diff)
	}
}

func TestAgentWithoutLiveIdentity_GetsTheBootstrapSecretAgain(t *testing.T) {
	tests := map[string]struct {
		there []hubtest.Object
		hub   []hubtest.Object
		want  []string
		gets  bool
	}{
		"bootstrap Secret is missing":       {there: []hubtest.Object{agentDeployment(1), runningPod()}, gets: true},
		"bootstrap Secret of another token": {there: []hubtest.Object{agentDeployment(1), runningPod(), means("ended")}, gets: true},
		"the hub does not know the agent":   {there: []hubtest.Object{agentDeployment(1), runningPod(), storedIdentity()}, gets: true},
		"registration with another account": {
			there: []hubtest.Object{agentDeployment(1), runningPod(), identityWith("u-gone")}, hub: granted(), gets: true,
		},
		"registration that is not granted": {
			there: []hubtest.Object{agentDeployment(1), runningPod(), identityWith("u-live")}, hub: []hubtest.Object{request()}, gets: true,
		},
		"account of the agent is live: not delivered": {
			there: []hubtest.Object{agentDeployment(1), runningPod(), identityWith("u-live")}, hub: granted(),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, _ := awaited(t, test.there...)
			work(t, hub) // looks
			hub.Put(test.hub...)
			hub.Sync()
			hub.Requests()
			work(t, hub) // repairs
			requests := hub.Requests()
			var means []string
			for _, line := range requests {
				if line == removedID {
					t.Error("the agent's identity was taken away")
				}
				if line == removedMeans || line == appliedMeans {
					means = append(means, line)
				}
			}
			var want []string
			if test.gets {
				want = []string{removedMeans, appliedMeans}
			}
			if diff := cmp.Diff(want, means); diff != "" {
				t.Errorf("means to register (-want +got):\n%s", diff)
			}
			hubtest.ExpectOrder(t, requests, dialled, asked, readMark, applied)
			expectImported(t, hub, "")
			handle(t, hub)
			expectRetry(t, hub, supervisionrule.NextLook(1, false))
		})
	}
}

func TestSilentNewAgent_GetsAFreshToken(t *testing.T) {
	hub, behind := awaited(t, agentDeployment(1), runningPod(), means("bearer"))
	hub.Pass(5 * time.Minute)
	hub.Told()
	work(t, hub)
	expectLooks(t, hub, readCluster, dialled, asked, deletesToken)
	if told := hub.Told(); len(told) != 1 || !strings.Contains(told[0], reasonTokenRenewed) {
		t.Errorf("told %q", told)
	}
	hub.Sync()
	askForToken(t, hub)
	expectLooks(t, hub, createsToken)
	fresh := importToken()
	fresh.UID = "u-fresh"
	filled, err := token.ValuesSecret(fresh, protocol.Values{ClusterNamespace: "ws", Token: "fresh", TokenName: tokenName})
	if err != nil {
		t.Fatal(err)
	}
	hub.Put(fresh, filled)
	hub.Woken()
	work(t, hub)
	requests := hub.Requests()
	hubtest.ExpectOrder(t, requests, removedMeans, appliedMeans, applied)
	for _, object := range behind.applied {
		if secret, ok := object.(*corev1.Secret); ok && string(secret.Data["token"]) != "fresh" {
			t.Errorf("handed over %q", secret.Data["token"])
		}
	}

	// The next one takes its time.
	behind.there = []hubtest.Object{agentDeployment(1), runningPod(), means("fresh")}
	hub.Sync()
	hub.Woken()
	handle(t, hub)
	hub.Pass(expectRetry(t, hub, supervisionrule.NextLook(1, false)))
	hub.Pass(10 * time.Minute)
	hub.Requests()
	work(t, hub)
	expectLooks(t, hub, readCluster, dialled, asked)
}

// The inspection may end after another Cluster got the name.
func TestFreshToken_TheTokenOfAnotherClusterStays(t *testing.T) {
	hub, _ := awaited(t, agentDeployment(1), runningPod(), means("bearer"))
	another := importToken()
	another.OwnerReferences = []metav1.OwnerReference{{Kind: "Cluster", Name: "c1", UID: "u-another"}}
	hub.Before(asked, func() { hub.Put(another) })
	hub.Pass(5 * time.Minute)
	work(t, hub)
	expectLooks(t, hub, readCluster, dialled, asked)
}

func TestAgentWithARequest_GetsNoFreshToken(t *testing.T) {
	for name, there := range map[string][]hubtest.Object{
		"request waits":      {agentDeployment(1), runningPod(), means("bearer")},
		"request is granted": {agentDeployment(1), runningPod(), storedIdentity()},
	} {
		t.Run(name, func(t *testing.T) {
			hub, _ := awaited(t, there...)
			asks := request()
			asks.CreationTimestamp = metav1.NewTime(hub.Now())
			hub.Put(asks)
			hub.Pass(time.Hour)
			work(t, hub)
			expectLooks(t, hub, readCluster, dialled, asked)
		})
	}
}

func TestLostToken_IsReplacedAtOnce(t *testing.T) {
	tests := map[string]func(*hubtest.Hub){
		"token was deleted": func(h *hubtest.Hub) { h.Remove(importToken()) },
		"token has expired": func(h *hubtest.Hub) {
			h.Pass(11*time.Hour + 30*time.Minute)
			if err := h.Handle("Cluster", "ws/c1"); err != nil || looks(h)[0] != deletesToken {
				t.Errorf("the token is not ended: %v", err)
			}
			h.Remove(importToken())
			h.Woken()
		},
	}
	for name, lose := range tests {
		t.Run(name, func(t *testing.T) {
			hub, _ := awaited(t, agentDeployment(1), runningPod(), means("bearer"))
			hub.Woken()
			lose(hub)
			askForToken(t, hub)
			if diff := cmp.Diff([]string{createsToken}, looks(hub)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			fresh := importToken()
			later := metav1.NewTime(hub.Now().Add(12 * time.Hour))
			fresh.UID, fresh.Status.Expires = "u-fresh", &later
			hub.Put(fresh, values(t))
			hub.Woken()
			work(t, hub)
			hubtest.ExpectOrder(t, hub.Requests(), removedMeans, appliedMeans, applied)
			work(t, hub)
			expectLooks(t, hub, readCluster, dialled, asked) // it only looks for the agent
		})
	}
}

// A token of an agent that has registered may end.
func TestTokenOfARegisteredAgent_IsNotRenewed(t *testing.T) {
	hub, _ := imported(t)
	hub.Remove(importToken())
	hub.Woken()
	handle(t, hub)
	expectLooks(t, hub)
	hubtest.ExpectWoken(t, hub)
}

func TestTokenDeletion_EventOnlyIfTheTokenIsGone(t *testing.T) {
	tests := map[string]struct {
		err  error
		told int
	}{
		"already deleted: Event":   {err: apierrors.NewNotFound(schema.GroupResource{}, tokenName), told: 1},
		"deletion fails: no Event": {err: errors.New("not now")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			hub, _ := awaited(t, agentDeployment(1), runningPod(), means("bearer"))
			hub.Fail(deletesToken, test.err)
			hub.Pass(time.Hour)
			work(t, hub)
			if told := hub.Told(); len(told) != test.told {
				t.Errorf("told %q", told)
			}
			expectImported(t, hub, "")
		})
	}
}

// lost is a hub whose agent of ws/c1 has registered and run, with this identity.
func lost(t *testing.T, identity *corev1.Secret, registration ...hubtest.Object) (*hubtest.Hub, *downstream) {
	t.Helper()
	hub, behind := imported(t)
	behind.there = []hubtest.Object{agentDeployment(1), runningPod(), identity}
	hub.Put(registration...)
	hub.Sync()
	hub.Requests()
	return hub, behind
}

func replaced(r *fleet.ClusterRegistration) {
	conditions.Set(&r.Status.Conditions, time.Unix(0, 0), genericcondition.GenericCondition{
		Type: conditions.Granted, Status: corev1.ConditionTrue, Reason: conditions.ReasonAccountReplaced,
	})
}

func TestReplacedAccount_AgentGetsBootstrapTokenWithoutWaitingForSilence(t *testing.T) {
	hub, _ := lost(t, identityWith("u-before"), granted(replaced)...)
	hub.Woken()
	handle(t, hub)
	hub.Pass(expectRetry(t, hub, supervisionrule.FirstInspection))
	work(t, hub) // looks
	hub.Sync()
	hub.Requests()
	work(t, hub) // repairs
	hubtest.ExpectOrder(t, hub.Requests(), removedMeans, appliedMeans, applied)
}

func TestRegistrationThatLostItsAccount_NamesItsCluster(t *testing.T) {
	for name, test := range map[string]struct {
		of   *fleet.ClusterRegistration
		want []types.NamespacedName
	}{
		"account replaced": {granted(replaced)[0].(*fleet.ClusterRegistration), []types.NamespacedName{{Namespace: "ws", Name: "c1"}}},
		"account alive":    {granted()[0].(*fleet.ClusterRegistration), nil},
		"not granted":      {request(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, clusterOfReplaced(test.of)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLiveAccount_AgentThatReportsIsNotLookedFor(t *testing.T) {
	hub, _ := lost(t, identityWith("u-live"), granted()...)
	if woken := hub.Woken(); len(woken) != 0 {
		t.Errorf("woken: %v", woken)
	}
	atRest(t, hub)
}

// mostSilent is a hub from which ws/c1 and most other agents are not heard of.
func mostSilent(t *testing.T, identity *corev1.Secret) (*hubtest.Hub, *downstream) {
	t.Helper()
	hub, behind := lost(t, identity, granted()...)
	for i := range 9 {
		other := cluster(func(c *fleet.Cluster) {
			c.Name, c.UID, c.Spec.ClientID = fmt.Sprintf("other-%d", i), types.UID(fmt.Sprintf("u-%d", i)), fmt.Sprintf("other-%d", i)
			c.Spec.KubeConfigSecret = ""
			c.Status.Agent = fleet.AgentStatus{LastSeen: metav1.NewTime(hub.Now())}
		})
		hub.Put(other)
		hub.App.Liveness.Stale(reconcile.KeyOf(other))
	}
	hub.Woken()
	hub.Pass(2 * time.Hour)
	hub.App.Liveness.DecideAll()
	if hub.App.Liveness.Stale(types.NamespacedName{Namespace: "ws", Name: "c1"}) {
		t.Fatal("an agent is marked although most are silent")
	}
	if !slices.Contains(hub.Woken(), "Cluster ws/c1") {
		t.Fatal("the Cluster is not reconciled")
	}
	return hub, behind
}

// A hub that was restored from a backup hears of none of its agents: it repairs them all the same.
func TestMostAgentsSilent_EachIsLookedForAtALimitedRate(t *testing.T) {
	hub, behind := mostSilent(t, identityWith("u-gone"))
	work(t, hub) // looks
	hub.Sync()
	hub.Requests()
	work(t, hub) // repairs
	hubtest.ExpectOrder(t, hub.Requests(), removedMeans, appliedMeans, applied)
	if len(behind.applied) == 0 {
		t.Error("nothing was applied")
	}
}

func TestMostAgentsSilent_LooksBeyondTheRateWait(t *testing.T) {
	hub, _ := lost(t, identityWith("u-gone"), granted()...)
	h := newTestHandler(hub)
	h.pace = flowcontrol.NewFakeNeverRateLimiter()
	c := current(t, hub)
	if h.mayInspect(c) {
		t.Error("a look beyond the rate is allowed")
	}
	c.Status.Agent.LastSeen = metav1.Time{}
	if !h.mayInspect(c) {
		t.Error("the look at an agent that was never heard of waits")
	}
}

func TestWhatALookSays_IsCut(t *testing.T) {
	hub, _ := awaited(t)
	h := newTestHandler(hub)
	out := supervisionrule.Outcome{
		Stage: supervisionrule.Troubled, Reason: conditions.ReasonAgentPodFailing, Message: "the agent's image " + strings.Repeat("x\n", 1<<19) + " cannot be pulled",
	}
	if _, err := h.reportInspection(current(t, hub), out, nil); err != nil {
		t.Fatal(err)
	}
	expectImported(t, hub, conditions.ReasonAgentPodFailing)
	if got := conditions.Get(current(t, hub).Status.Conditions, conditions.Imported).Message; len(got) > messageLimit || strings.Contains(got, "\n") {
		t.Errorf("the message has %d bytes", len(got))
	}
}
