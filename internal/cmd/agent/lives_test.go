package agent

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/fleet-hub/fleet/e2e/framework/faults"
	"github.com/fleet-hub/fleet/internal/leader"
	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/register/hubclient"
)

const second = "fleet-agent-1"

// access is how the stored identity reaches the hub.
func (s *site) access() hubclient.Access {
	s.t.Helper()
	secret, err := s.secret(names.Agent)
	s.must(err)
	identity, err := protocol.ParseIdentity(secret.Data)
	s.must(err)
	access, err := hubclient.ParseKubeconfig(identity.Kubeconfig)
	s.must(err)
	return access
}

// expectAlive fails if the pod's process was started anew.
func (s *site) expectAlive(pod string) {
	s.t.Helper()
	if n := s.restarts(pod); n != 0 {
		s.t.Errorf("the agent was restarted %d times", n)
	}
}

// wire leads to the hub.
func (s *site) wire() *faults.Wire {
	s.t.Helper()
	wire, err := faults.NewWire(s.plane.Hub.URL)
	s.must(err)
	s.t.Cleanup(wire.Close)
	return wire
}

func TestTwoReplicas_RegisterOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, "two")
	token, values := s.token("t1")
	s.deliver(values)
	began := now()
	s.startPod(first)
	s.startPod(second)
	s.answer(token)
	s.heartbeat(began)
	s.expectReady(first, true)
	s.expectReady(second, true)
	s.expectMissing(names.AgentBootstrap)
	s.expectRequests(1)
}

func TestRepeatedInstallation_KeepsTheCluster(t *testing.T) {
	t.Parallel()
	s, token, values := joined(t, "twice")
	s.expectMissing(names.AgentBootstrap)
	cluster, before := s.heartbeat(now()), s.access()
	s.deliver(values) // the same command once more
	s.expectMissing(names.AgentBootstrap)
	if diff := cmp.Diff(before, s.access()); diff != "" {
		t.Errorf("the identity (-want +got):\n%s", diff)
	}
	s.expectRequests(1)

	// From nothing: the pod, its namespace's Secrets, and again the same command.
	s.endPod(first)
	s.must(s.eastCore.CoreV1().Secrets(s.namespace).Delete(t.Context(), names.Agent, metav1.DeleteOptions{}))
	s.deliver(values)
	began := now()
	s.startPod(second)
	s.answer(token)
	again := s.heartbeat(began)
	s.expectRequests(2)
	if again.UID != cluster.UID {
		t.Error("it is another Cluster now")
	}
}

// The proxy resets connections during the first handshake, and later during watches.
func TestResetConnections_AgentStillJoinsAndServes(t *testing.T) {
	t.Parallel()
	s := newSite(t, "reset")
	wire := s.wire()
	token, values := s.token("t1")
	values.APIServerURL = wire.URL
	wire.ResetAfter(100) // in the middle of the first handshake
	s.deliver(values)
	s.startPod(first)
	s.expectLog(first, "Failed to register agent", 2)
	s.must(wire.Heal())
	s.answer(token)
	s.expectReady(first, true)
	for range 3 { // in the middle of watches
		wire.Cut()
		s.heartbeat(now())
	}
	s.expectReady(first, true)
	s.expectRequests(1)
	s.expectAlive(first)
}

func TestBootstrapSecretWithNewAddress_UpdatesTheStoredAddress(t *testing.T) {
	t.Parallel()
	s := newSite(t, "moves")
	wire := s.wire()
	token, values := s.token("t1")
	values.APIServerURL = wire.URL
	s.deliver(values)
	s.startPod(first)
	s.answer(token)
	s.expectReady(first, true)
	want := s.access()
	if want.Server != wire.URL {
		t.Fatalf("it does not reach the hub by %s, but by %s", wire.URL, want.Server)
	}

	values.APIServerURL, want.Server = s.plane.Hub.URL, s.plane.Hub.URL
	s.deliver(values)
	s.expectMissing(names.AgentBootstrap)
	if diff := cmp.Diff(want, s.access()); diff != "" {
		t.Errorf("stored access (-want +got):\n%s", diff)
	}
	wire.Close()
	s.heartbeat(now())
	s.expectReady(first, true)
	s.expectRequests(1)
	s.expectAlive(first)
}

// The hub rewrites the kubeconfig of agents that it imports.
func TestRewrittenKubeconfig_IsUsedWithoutRestart(t *testing.T) {
	t.Parallel()
	s, _, _ := joined(t, "rewritten")
	wire := s.wire()
	access := s.access()
	access.Server = wire.URL
	kubeconfig, err := access.Kubeconfig()
	s.must(err)
	secret, err := s.secret(names.Agent)
	s.must(err)
	secret.Data["kubeconfig"] = kubeconfig
	_, err = s.eastCore.CoreV1().Secrets(s.namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
	s.must(err)
	s.eventually("connections by the new address", func(context.Context) error {
		if wire.Connections() == 0 {
			return errors.New("there are none")
		}
		return nil
	})
	s.heartbeat(now())
	s.expectReady(first, true)
	s.expectRequests(1)
	s.expectAlive(first)
}

// A server with an untrusted certificate at the hub's address receives neither requests nor the credential.
func TestUntrustedHubCertificate_AgentKeepsItsIdentity(t *testing.T) {
	t.Parallel()
	s := newSite(t, "impostor")
	hub, err := faults.NewProxy(faults.Server{URL: s.plane.Hub.URL, CA: s.plane.Hub.CA}, now())
	s.must(err)
	t.Cleanup(func() { s.must(hub.Close()) })
	token, values := s.token("t1")
	values.APIServerURL, values.APIServerCA = hub.URL, string(hub.CA)
	s.deliver(values)
	s.startPod(first)
	s.answer(token)
	s.expectReady(first, true)
	hub.Impersonate(true)
	s.expectLog(first, "the hub's certificate is not trusted", 1)
	s.expectLog(first, "signed by unknown authority", 1)
	hub.Impersonate(false)
	s.heartbeat(now())
	s.expectReady(first, true)
	s.expectRequests(1)
	s.expectAlive(first)
}

// The other replica leads after that, so there is never a leader that does no work.
func TestLostLease_ExitsWithAnError(t *testing.T) {
	t.Parallel()
	s := newSite(t, "lease")
	token, values := s.token("t1")
	s.deliver(values)
	s.startPod(first,
		corev1.EnvVar{Name: "CATTLE_ELECTION_LEASE_DURATION", Value: "12s"},
		corev1.EnvVar{Name: "CATTLE_ELECTION_RENEW_DEADLINE", Value: "10s"}, // which nobody but the thief keeps it from
	)
	s.answer(token)
	s.expectLog(first, "first heartbeat accepted", 1)
	s.expectReady(first, true)
	leases := s.eastCore.CoordinationV1().Leases(s.namespace)
	s.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease, err := leases.Get(t.Context(), names.Agent, metav1.GetOptions{})
		if err != nil {
			return err
		}
		thief, now := "another", metav1.NowMicro()
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &thief, LeaseDurationSeconds: lease.Spec.LeaseDurationSeconds, AcquireTime: &now, RenewTime: &now}
		_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
		return err
	}))
	s.expectExit(first, leader.ErrLeaseLost.Error())
	s.expectLog(first, "first heartbeat accepted", 2) // once the other is gone
	s.expectRequests(1)
}

// The deleted replica exits with code 0. The other one does not wait until the lease expires.
func TestDeletedPod_OtherReplicaLeadsAtOnce(t *testing.T) {
	t.Parallel()
	s, _, _ := joined(t, "takeover")
	s.startPod(second)
	s.expectLog(second, "standing by", 1)
	holder := s.holder()
	s.must(s.eastCore.CoreV1().Pods(s.namespace).Delete(t.Context(), first, metav1.DeleteOptions{}))
	s.expectLog(second, "msg=leading", 1)
	s.expectLog(second, "first heartbeat accepted", 1)
	s.expectLog(first, "msg=completed", 1)
	s.eventually("another holder of the lease", func(context.Context) error {
		if now := s.holder(); now == holder || now == "" {
			return fmt.Errorf("it is %q", now)
		}
		return nil
	})
	s.expectRequests(1)
	s.expectAlive(second)
}
