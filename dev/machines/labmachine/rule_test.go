package labmachine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/host"
)

var (
	now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	yes = true
)

// creatable returns the input of a LabMachine whose machine can be created.
func creatable() Input {
	data := "m-data"
	return Input{
		LabMachine: &api.LabMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "uid"}},
		Machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"},
			Spec: clusterv1.MachineSpec{ClusterName: "c", Bootstrap: clusterv1.Bootstrap{DataSecretName: &data}}},
		Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
			Status: clusterv1.ClusterStatus{Initialization: clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: &yes}}},
		Socket: "/host.sock", Now: now,
	}
}

func with(change func(*Input)) Input {
	in := creatable()
	change(&in)
	return in
}

func atHost(state host.State, change func(*Input)) Input {
	return with(func(in *Input) {
		in.AtHost = &host.Status{ID: "uid", State: state, Address: "127.0.0.1", Port: 4000, Services: []host.Service{{Name: api.NodeService}}}
		change(in)
	})
}

func unchanged(*Input) {}

func isDeleted(in *Input) {
	in.LabMachine.DeletionTimestamp = &metav1.Time{Time: now}
	in.LabMachine.Finalizers = []string{api.MachineFinalizer}
}

func failedBefore(ago time.Duration, attempts int32) func(*Input) {
	return func(in *Input) {
		in.LabMachine.Status.Attempts = attempts
		in.LabMachine.Status.Conditions = []metav1.Condition{{Type: api.ConditionBootstrapSucceeded, Status: metav1.ConditionFalse,
			Reason: ReasonBootstrapFailed, LastTransitionTime: metav1.NewTime(now.Add(-ago))}}
	}
}

func bootstrappingFor(d time.Duration) func(*Input) {
	return func(in *Input) {
		in.LabMachine.Status.Conditions = []metav1.Condition{{Type: api.ConditionBootstrapSucceeded, Status: metav1.ConditionUnknown,
			Reason: ReasonBootstrapping, LastTransitionTime: metav1.NewTime(now.Add(-d))}}
	}
}

func nodeWith(providerID string) func(*Input) {
	return func(in *Input) {
		in.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m", ResourceVersion: "7"}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	}
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name   string
		in     Input
		stage  Stage
		reason string // of the condition Ready
		after  time.Duration
	}{
		{"no Machine yet: skipped", with(func(in *Input) { in.Machine = nil }), Skipping, "", 0},
		{"no Cluster yet: skipped", with(func(in *Input) { in.Cluster = nil }), Skipping, "", 0},
		{"Cluster paused: skipped", with(func(in *Input) { in.Cluster.Spec.Paused = &yes }), Skipping, "", 0},
		{"paused: skipped", with(func(in *Input) { in.LabMachine.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} }), Skipping, "", 0},
		{"paused and deleted: skipped", with(func(in *Input) { isDeleted(in); in.Cluster.Spec.Paused = &yes }), Skipping, "", 0},
		{"infrastructure of the Cluster missing: waits", with(func(in *Input) { in.Cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{} }),
			Reporting, clusterv1.WaitingForClusterInfrastructureReadyReason, 0},
		{"bootstrap data missing: waits", with(func(in *Input) { in.Machine.Spec.Bootstrap.DataSecretName = nil }), Reporting, clusterv1.WaitingForBootstrapDataReason, 0},
		{"endpoint missing: waits", with(func(in *Input) { in.EndpointMissing = true }), Reporting, ReasonWaitingForEndpoint, 0},
		{"no machine: created", creatable(), Creating, ReasonBootstrapping, pollMin},
		{"host down: reported", with(func(in *Input) { in.HostErr = host.ErrUnavailable }), Reporting, "HostUnavailable", 0},
		{"machine pending: waits", atHost(host.Pending, unchanged), Reporting, ReasonBootstrapping, pollMin},
		{"bootstrapping for 10 s: asked again in 1 s", atHost(host.Bootstrapping, bootstrappingFor(10*time.Second)), Reporting, ReasonBootstrapping, time.Second},
		{"bootstrapping for 9 min: asked again in 30 s", atHost(host.Bootstrapping, bootstrappingFor(9*time.Minute)), Reporting, ReasonBootstrapping, pollMax},
		{"bootstrapping for 10 min: retried", atHost(host.Bootstrapping, bootstrappingFor(bootstrapTimeout)), Retrying, ReasonBootstrapFailed, pollMin},
		{"bootstrapping again, long after a failure: waits", atHost(host.Bootstrapping, failedBefore(time.Hour, 1)), Reporting, ReasonBootstrapping, pollMax},
		{"failed: reported, repeated in 5 s", atHost(host.Failed, unchanged), Reporting, ReasonBootstrapFailed, 5 * time.Second},
		{"failed the third time: repeated in 20 s", atHost(host.Failed, func(in *Input) { bootstrappingFor(0)(in); in.LabMachine.Status.Attempts = 2 }), Reporting, ReasonBootstrapFailed, 20 * time.Second},
		{"failed 2 s ago: repeated in 3 s", atHost(host.Failed, failedBefore(2*time.Second, 1)), Reporting, ReasonBootstrapFailed, 3 * time.Second},
		{"failed 5 s ago: retried", atHost(host.Failed, failedBefore(5*time.Second, 1)), Retrying, ReasonBootstrapping, pollMin},
		{"failed 100 times: repeated in 5 min at most", atHost(host.Failed, failedBefore(4*time.Minute, 100)), Reporting, ReasonBootstrapFailed, time.Minute},
		{"running, no Node: waits", atHost(host.Running, unchanged), Reporting, ReasonWaitingForNode, pollMin},
		{"running, cluster does not answer: waits", atHost(host.Running, func(in *Input) { in.NodeErr = errors.New("refused") }), Reporting, ReasonWaitingForNode, pollMin},
		{"running, new Node: provisioned", atHost(host.Running, nodeWith("")), Provisioning, clusterv1.ReadyReason, pollMax},
		{"running, Node of another machine: reported", atHost(host.Running, nodeWith("lab:///other")), Reporting, ReasonNodeConflict, pollMin},
		{"running without service of a Node: provisioned", atHost(host.Running, func(in *Input) { in.AtHost.Services = nil }), Provisioning, clusterv1.ReadyReason, pollMax},
		{"provisioned: kept", atHost(host.Running, func(in *Input) { in.LabMachine.Status.Initialization.Provisioned = &yes }), Reporting, clusterv1.ReadyReason, pollMax},
		{"stopped: reported", atHost(host.Stopped, unchanged), Reporting, ReasonStopped, pollMax},
		{"deleted: machine deleted", with(isDeleted), Deleting, clusterv1.DeletingReason, 0},
		{"deleted while bootstrapping: machine deleted", atHost(host.Bootstrapping, isDeleted), Deleting, clusterv1.DeletingReason, 0},
		{"deleted without Machine: machine deleted", with(func(in *Input) { isDeleted(in); in.Machine, in.Cluster = nil, nil }), Deleting, clusterv1.DeletingReason, 0},
		{"deleted before the machine was created: skipped", with(func(in *Input) { isDeleted(in); in.LabMachine.Finalizers = nil }), Skipping, "", 0},
		{"machine lost after it was provisioned: not created again", with(func(in *Input) { in.LabMachine.Status.Initialization.Provisioned = &yes }), Reporting, ReasonMachineLost, 0},
		{"provider ID set, no machine: not created again", with(func(in *Input) { in.LabMachine.Spec.ProviderID = "lab:///uid" }), Reporting, ReasonMachineLost, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := Decide(c.in)
			var reason string
			if out.Report.Ready != nil {
				reason = out.Report.Ready.Reason
			}
			if out.Stage != c.stage || reason != c.reason || out.After != c.after {
				t.Errorf("%s, %q, after %s; want %s, %q, after %s", out.Stage, reason, out.After, c.stage, c.reason, c.after)
			}
		})
	}
}

func TestDecide_HostErrorIsRepeated(t *testing.T) {
	out := Decide(with(func(in *Input) { in.HostErr = fmt.Errorf("asking: %w", host.ErrUnavailable) }))
	if !errors.Is(out.Err, host.ErrUnavailable) {
		t.Errorf("error %v, want one that lasso repeats", out.Err)
	}
}

func TestContract_InfraMachine_ProviderID_OfTheNode(t *testing.T) {
	out := Decide(atHost(host.Running, nodeWith("")))
	if want := `{"metadata":{"resourceVersion":"7"},"spec":{"providerID":"lab:///uid","taints":null}}`; string(out.NodePatch) != want {
		t.Errorf("patch of the Node %s, want %s", out.NodePatch, want)
	}
	if out := Decide(atHost(host.Running, nodeWith("lab:///uid"))); out.Stage != Provisioning || out.NodePatch != nil {
		t.Errorf("a Node with the provider ID is patched again: %s %s", out.Stage, out.NodePatch)
	}
}

func TestContract_InfraMachine_Addresses(t *testing.T) {
	for _, state := range []host.State{host.Bootstrapping, host.Running} {
		got := Decide(atHost(state, unchanged)).Report.Addresses
		if len(got) != 1 || got[0] != (clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: "127.0.0.1"}) {
			t.Errorf("%s: addresses %v", state, got)
		}
	}
}

func TestCause_NamesTheLineButNotTheOutput(t *testing.T) {
	out := Decide(atHost(host.Failed, func(in *Input) {
		in.AtHost.Cause, in.AtHost.Line, in.AtHost.Command, in.AtHost.Output = "exit status 1", 3, 2, "password"
	}))
	got := out.Report.Bootstrap.Message
	for _, want := range []string{"line 3 of the bootstrap data, command 2: exit status 1", "curl --unix-socket /host.sock http://machine-host/machines/uid/log"} {
		if !strings.Contains(got, want) {
			t.Errorf("message %q does not contain %q", got, want)
		}
	}
	if strings.Contains(got, "password") {
		t.Errorf("message %q contains the output", got)
	}
}

func TestReport_CountsEachFailureOnce(t *testing.T) {
	m := &api.LabMachine{}
	fail := bootstrapFailed(creatable(), "exit status 1")
	fail.Apply(m, now)
	fail.Apply(m, now.Add(time.Second)) // from a stale cache
	if m.Status.Attempts != 1 {
		t.Errorf("%d attempts after one failure, want 1", m.Status.Attempts)
	}
	retrying(creatable()).Apply(m, now)
	fail.Apply(m, now)
	if m.Status.Attempts != 2 {
		t.Errorf("%d attempts after two failures, want 2", m.Status.Attempts)
	}
}
