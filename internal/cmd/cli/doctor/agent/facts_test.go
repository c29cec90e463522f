package agent

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubclient"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

const (
	system = names.SystemNamespace
	server = "https://hub.example.com:6443"
)

func pod(change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: clitest.AgentMeta("fleet-agent-1-a"), Status: corev1.PodStatus{
		Phase:             corev1.PodRunning,
		ContainerStatuses: []corev1.ContainerStatus{{Name: names.Agent, Image: "fleethub/fleet-agent:v1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
	}}
	if change != nil {
		change(&p)
	}
	return p
}

// container changes the status of the container of the only pod.
func container(change func(*corev1.ContainerStatus)) func(*Facts) {
	return func(f *Facts) {
		f.Pods = []corev1.Pod{pod(func(p *corev1.Pod) { change(&p.Status.ContainerStatuses[0]) })}
	}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func ended(reason string, code int32, since time.Duration) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, FinishedAt: clitest.Ago(since), Message: "no identity"}}
}

// env sets variables of the agent's container.
func env(variables ...corev1.EnvVar) func(*Facts) {
	return func(f *Facts) { f.Deployment.Spec.Template.Spec.Containers[0].Env = variables }
}

func lease(holder string, renewed time.Duration) *coordinationv1.Lease {
	at := metav1.NewMicroTime(clitest.Noon().Add(-renewed))
	return &coordinationv1.Lease{ObjectMeta: clitest.AgentMeta(names.Agent), Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: new(int32(30))}}
}

// healthy returns the facts of a cluster without problems.
func healthy(t *testing.T) *Facts {
	t.Helper()
	known := func(offset time.Duration) hubclient.Response {
		return hubclient.Response{Known: true, Offset: offset, Expires: clitest.Noon().AddDate(1, 0, 0)}
	}
	return &Facts{
		Scope: Scope{Namespace: system, Here: remedy.Target{Context: "east"}, Hub: remedy.Target{Context: "HUB"}},
		Now:   clitest.Noon(), Kubernetes: "v1.35.1", Clock: known(0), UID: "uid-of-east",
		Place: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}},
		Deployment: &appsv1.Deployment{ObjectMeta: clitest.AgentMeta(names.Agent), Status: appsv1.DeploymentStatus{ReadyReplicas: 1}, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: names.Agent}}}},
		}},
		Agents: []Workload{{Kind: KindDeployment, Namespace: system, Running: true, Image: "fleethub/fleet-agent:v1"}},
		Pods:   []corev1.Pod{pod(nil)}, Settings: Settings{Exists: true, Agent: config.Agent{AgentTLSMode: config.TLSModeStrict}},
		Credential: Credential{
			Exists: true, Cluster: types.NamespacedName{Namespace: "fleet-default", Name: "east"}, ClusterNamespace: "cluster-fleet-default-east-0f0350029557",
			Server: server, CA: clitest.CertificatePEM(t, clitest.Noon().AddDate(1, 0, 0)), Account: "uid-of-account",
		},
		HasAccount: true, HasRights: true, Role: names.SafeConcat(system, names.Agent, "role"), HasRole: true,
		Binding: names.SafeConcat(system, names.Agent, "role", "binding"), HasBinding: true, Lease: lease("fleet-agent-1-a_abc", time.Second),
		Releases: []Release{{Namespace: system, Name: names.Agent, Status: "deployed", Revision: 1, Secret: "sh.helm.release.v1.fleet-agent.v1"}},
		Probe:    Probe{Sent: true, Answer: known(0), Seen: hubclient.Seen{LastSeen: clitest.Noon().Add(-time.Minute), Account: "uid-of-account"}},
	}
}
