package agent

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
	"github.com/fleet-hub/fleet/internal/rules/registering"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const first = "fleet-agent-0"

func now() time.Time { return time.Now() }

// joined is a site whose agent has joined.
func joined(t *testing.T, name string, env ...corev1.EnvVar) (*site, *fleet.ClusterRegistrationToken, protocol.Values) {
	t.Helper()
	s := newSite(t, name)
	token, values := s.token("t1")
	s.deliver(values)
	began := now()
	s.startPod(first, env...)
	s.answer(token)
	s.heartbeat(began)
	s.expectLog(first, "first heartbeat accepted", 1) // the hub has it before the agent says so; others are counted later
	s.expectReady(first, true)
	return s, token, values
}

func TestNewAgent_RegistersAndStoresItsIdentity(t *testing.T) {
	t.Parallel()
	s, _, _ := joined(t, "joins")
	s.expectMissing(names.AgentBootstrap)
	s.expectRequests(1)
	secret, err := s.secret(names.Agent)
	s.must(err)
	identity, err := protocol.ParseIdentity(secret.Data)
	s.must(err)
	access, err := hubclient.ParseKubeconfig(identity.Kubeconfig)
	s.must(err)
	access.Token = "" // no two are the same
	want := hubclient.Access{Server: s.plane.Hub.URL, CA: s.plane.Hub.CA, Namespace: names.ClusterNamespace(s.workspace, "a")}
	if diff := cmp.Diff(want, access); diff != "" {
		t.Errorf("stored access (-want +got):\n%s", diff)
	}
	identity.Kubeconfig = nil
	wantIdentity := protocol.Identity{DeploymentNamespace: want.Namespace, ClusterNamespace: s.workspace, ClusterName: "a"}
	if diff := cmp.Diff(wantIdentity, identity); diff != "" {
		t.Errorf("stored identity (-want +got):\n%s", diff)
	}
	sinceStart := regexp.MustCompile(`sinceStart=\S+`)
	t.Logf("from the process's start to its first heartbeat, waiting for the grant included: %s", sinceStart.FindString(s.log(first)))
}

func TestKilledAgent_DoesNotRegisterAgain(t *testing.T) {
	t.Parallel()
	// A lease that outlasts the test: the next process must not wait for its dead predecessor's.
	s, _, _ := joined(t, "killed",
		corev1.EnvVar{Name: "CATTLE_ELECTION_LEASE_DURATION", Value: "1h"},
		corev1.EnvVar{Name: "CATTLE_ELECTION_RENEW_DEADLINE", Value: "50m"},
	)
	before := s.holder()
	killed := now()
	s.must(s.plane.KillPod(t.Context(), east, s.namespace, first))
	s.expectLog(first, "first heartbeat accepted", 2)
	away := now().Sub(killed)
	s.expectReady(first, true)
	s.expectRequests(1)
	if after := s.holder(); after == before {
		t.Errorf("two processes called themselves %s", after)
	}
	sinceStart := regexp.MustCompile(`sinceStart=\S+`)
	t.Logf("away for %s; from the process's start to its first heartbeat, now and with a stored identity: %v", away, sinceStart.FindAllString(s.log(first), -1))
}

func TestDeletedIdentity_NewBootstrapSecretRegistersWithoutRestart(t *testing.T) {
	t.Parallel()
	s, token, values := joined(t, "lost")
	cluster := s.heartbeat(time.Time{})
	s.must(s.eastCore.CoreV1().Secrets(s.namespace).Delete(t.Context(), names.Agent, metav1.DeleteOptions{}))
	s.expectReady(first, false)
	delivered := now()
	s.deliver(values)
	s.answer(token)
	s.expectLog(first, "first heartbeat accepted", 2)
	after := s.heartbeat(delivered)
	s.expectReady(first, true)
	s.expectMissing(names.AgentBootstrap)
	s.expectRequests(2)
	if after.UID != cluster.UID {
		t.Error("the Cluster is another object")
	}
	if n := s.restarts(first); n != 0 {
		t.Errorf("the agent was restarted %d times", n)
	}
}

func TestUnneededBootstrapSecret_IsDeletedWithoutRequest(t *testing.T) {
	t.Parallel()
	s, _, values := joined(t, "not-needed")
	s.expectMissing(names.AgentBootstrap)
	s.deliver(values)
	s.expectMissing(names.AgentBootstrap)
	s.expectRequests(1)
	s.heartbeat(now())
}

func TestUnreachableHub_AgentContinuesWithoutRestart(t *testing.T) {
	s, _, _ := joined(t, "down")
	s.must(s.plane.Hub.Pause())
	s.expectLog(first, "sending the heartbeat failed", 2)
	s.must(s.plane.Hub.Resume(t.Context()))
	s.heartbeat(now())
	s.expectReady(first, true)
	s.expectRequests(1)
	if n := s.restarts(first); n != 0 {
		t.Errorf("the agent was restarted %d times", n)
	}
}

func TestRejectedIdentity_NewBootstrapSecretRegistersWithoutRestart(t *testing.T) {
	t.Parallel()
	s, token, values := joined(t, "rejected")
	request := s.requests()[0]
	account := names.RequestAccount(request.Name, string(request.UID))
	s.must(s.hubCore.CoreV1().ServiceAccounts(names.ClusterNamespace(s.workspace, "a")).Delete(t.Context(), account, metav1.DeleteOptions{}))
	s.expectReady(first, false)
	s.expectLog(first, registering.ErrIdentityRejected.Error(), 1)
	delivered := now()
	s.deliver(values)
	s.answer(token)
	s.heartbeat(delivered)
	s.expectReady(first, true)
	if n := s.restarts(first); n != 0 {
		t.Errorf("the agent was restarted %d times", n)
	}
}

func TestNoIdentityAndNoBootstrapSecret_ExitsAndJoinsAfterRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t, "nothing")
	s.startPod(first)
	s.expectLog(first, "fleetagent: "+registering.ErrNoIdentity.Error()+": there is no Secret fleet-agent and no Secret fleet-agent-bootstrap; run on the hub: fleet repair CLUSTER -n WORKSPACE", 1)
	s.eventually("a restart", func(context.Context) error {
		if s.restarts(first) == 0 {
			return errors.New("there was none")
		}
		return nil
	})
	token, values := s.token("t1")
	s.deliver(values)
	s.answer(token)
	s.expectReady(first, true)
}

func TestTerminatedAgent_ReleasesItsLease(t *testing.T) {
	t.Parallel()
	s, _, _ := joined(t, "ends")
	s.endPod(first)
	s.expectLog(first, "msg=completed", 1)
	s.eventually("the lease to be released", func(context.Context) error {
		if holder := s.holder(); holder != "" {
			return fmt.Errorf("%s holds it", holder)
		}
		return nil
	})
}

func TestStandbyReplica_IsReadyAndTakesOver(t *testing.T) {
	t.Parallel()
	s, _, _ := joined(t, "standby")
	s.startPod("fleet-agent-1")
	s.expectLog("fleet-agent-1", "standing by", 1)
	s.expectReady("fleet-agent-1", true)
	s.expectRequests(1)
	s.must(s.eastCore.CoreV1().Pods(s.namespace).Delete(t.Context(), first, metav1.DeleteOptions{}))
	s.expectLog("fleet-agent-1", "first heartbeat accepted", 1)
	s.expectReady("fleet-agent-1", true)
	s.expectRequests(1)
}

// holder is who holds the agent's lease.
func (s *site) holder() string {
	s.t.Helper()
	lease, err := s.eastCore.CoordinationV1().Leases(s.namespace).Get(s.t.Context(), names.Agent, metav1.GetOptions{})
	s.must(err)
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
