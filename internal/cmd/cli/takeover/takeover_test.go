package takeover_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/takeover"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func noon() time.Time { return time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC) }

func ago(age time.Duration) metav1.Time { return metav1.NewTime(noon().Add(-age)) }

// run executes the command against a server and returns everything that it printed.
func run(t *testing.T, server *clitest.Server, args ...string) (string, exit.Code) {
	t.Helper()
	command := func(streams genericiooptions.IOStreams) *cobra.Command { return takeover.New(streams, noon) }
	called := clitest.Call(t.Context(), command, append(args, "--kubeconfig", server.Kubeconfig)...)
	return called.String(), called.Code
}

func west(change func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "west", UID: "uid-west"}}
	c.Status.Agent.LastSeen, c.Status.Agent.AgentVersion = ago(time.Minute), "v1.2.0"
	if change != nil {
		change(c)
	}
	return c
}

func request(name, token string, change func(*fleet.ClusterRegistration)) *fleet.ClusterRegistration {
	r := &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet-default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: ago(5 * time.Minute),
			Labels: map[string]string{fleet.LabelRegistrationToken: token},
		},
		Spec: fleet.ClusterRegistrationSpec{ClientID: "client-1"}, Status: fleet.ClusterRegistrationStatus{ClusterName: "west"},
	}
	if change != nil {
		change(r)
	}
	return r
}

func because(reason, message string) func(*fleet.ClusterRegistration) {
	return func(r *fleet.ClusterRegistration) {
		r.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Granted, Status: "False", Reason: reason, Message: message}}
	}
}

func granted(r *fleet.ClusterRegistration) { r.Status.Granted = true }

// pending is a request of a client that tries to control the terminal.
func pending(r *fleet.ClusterRegistration) {
	because(conditions.ReasonTakeoverPending, "another agent is registered")(r)
	r.Spec.ClientID = "client-1\x1b[31m" + strings.Repeat("x", 1000)
	r.Spec.ClusterLabels = map[string]string{fleet.LabelCreatedByAgentPod: "fleet-agent-1\nCluster: other", "a\u202e": strings.Repeat("y", 1000)}
	for i := range 10 {
		r.Spec.ClusterLabels[fmt.Sprintf("label-%d", i)] = "value"
	}
}

func token(name string) *fleet.ClusterRegistrationToken {
	return &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: name}}
}

func several() []runtime.Object {
	return []runtime.Object{
		west(nil), token("new"), request("request-1", "west", granted), request("request-2", "new", pending), request("done", "new", granted),
		request("request-3", "gone", pending),
	}
}

// granting grants the request that the Cluster names, as the hub does.
func granting(s *clitest.Server, method string, object *clitest.Object) {
	name := object.GetAnnotations()[annotation.ConfirmTakeover]
	if method == "PATCH" && object.GetKind() == "Cluster" && name != "" {
		s.Put(request(name, "new", granted))
	}
}

func TestEveryFormat_MatchesTheGoldens(t *testing.T) {
	for name, args := range map[string][]string{
		"table": nil, "json": {"-o", "json"}, "yaml": {"-o", "yaml"}, "name": {"-o", "name"}, "dry-run": {"--dry-run"},
		"dry-run-json": {"--dry-run", "-o", "json"},
	} {
		t.Run(name, func(t *testing.T) {
			server := clitest.Start(t, several()...)
			server.React = granting
			shown, _ := run(t, server, append([]string{"west", "request-2"}, args...)...)
			golden.Expect(t, name+".golden", shown)
			if writes := len(server.Writes()); (writes == 0) != strings.HasPrefix(name, "dry-run") {
				t.Errorf("writes: %v", server.Writes())
			}
			if !strings.HasPrefix(name, "dry-run") && server.Get(west(nil)).GetAnnotations()[annotation.ConfirmTakeover] != "request-2" {
				t.Error("the Cluster is not annotated")
			}
		})
	}
}

func TestBadInput_IsRefusedWithTheWayOut(t *testing.T) {
	for name, test := range map[string]struct {
		args   []string
		change []runtime.Object
		code   exit.Code
		want   string
	}{
		"invalid names": {[]string{"West", "a/b"}, nil, exit.Usage,
			"error: cluster name \"West\" is not the name of an object\nerror: request name \"a/b\" is not the name of an object\nfix: fleet confirm-takeover --help\n"},
		"no such Cluster": {[]string{"north", "request-2"}, nil, exit.Failed,
			"error: Cluster fleet-default/north does not exist\nfix: fleet clusters -A\n"},
		"no such request: those that wait are named": {[]string{"west", "request-9"}, nil, exit.Failed,
			"error: ClusterRegistration fleet-default/request-9 does not exist: a request that is not confirmed is deleted after 40 minutes\n" +
				"fix: fleet confirm-takeover west request-2 -n fleet-default\nfix: fleet confirm-takeover west request-3 -n fleet-default\n"},
		"many wait: three are named": {[]string{"west", "request-9"}, []runtime.Object{request("request-4", "new", pending), request("request-5", "new", pending)}, exit.Failed,
			"error: ClusterRegistration fleet-default/request-9 does not exist: a request that is not confirmed is deleted after 40 minutes\n" +
				"fix: fleet confirm-takeover west request-2 -n fleet-default\nfix: fleet confirm-takeover west request-3 -n fleet-default\n" +
				"fix: fleet confirm-takeover west request-4 -n fleet-default\nfix: 1 more wait: kubectl get clusterregistrations.fleet.cattle.io -n fleet-default\n"},
		"a request of another Cluster": {[]string{"west", "request-4"}, []runtime.Object{request("request-4", "new", func(r *fleet.ClusterRegistration) {
			pending(r)
			r.Status.ClusterName = "east"
		})}, exit.Refused, "error: ClusterRegistration fleet-default/request-4 belongs to Cluster east, not to west\n" +
			"fix: fleet confirm-takeover west request-2 -n fleet-default\nfix: fleet confirm-takeover west request-3 -n fleet-default\n"},
		"a request without a Cluster": {[]string{"west", "request-4"}, []runtime.Object{request("request-4", "new", func(r *fleet.ClusterRegistration) {
			r.Status.ClusterName = ""
		})}, exit.Refused, "error: ClusterRegistration fleet-default/request-4 belongs to no Cluster yet\n" +
			"fix: kubectl describe clusterregistrations.fleet.cattle.io -n fleet-default request-4\n"},
		"a request that waits for something else": {[]string{"west", "request-4"},
			[]runtime.Object{request("request-4", "new", because(conditions.ReasonClusterManagedElsewhere, "another\nmanager"))}, exit.Refused,
			"error: ClusterRegistration fleet-default/request-4 does not wait for a confirmation: another manager\nreason: ClusterManagedElsewhere (docs/conditions.md)\n" +
				"fix: kubectl label clusters.fleet.cattle.io -n fleet-default west fleet.cattle.io/cluster-management-\n"},
		"a request that is new": {[]string{"west", "request-4"}, []runtime.Object{request("request-4", "new", nil)}, exit.Refused,
			"error: ClusterRegistration fleet-default/request-4 does not wait for a confirmation: the hub has not processed it yet\n" +
				"fix: kubectl describe clusterregistrations.fleet.cattle.io -n fleet-default request-4\n"},
		"a Cluster that is being deleted": {[]string{"west", "request-2"}, []runtime.Object{west(func(c *fleet.Cluster) {
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: noon()}, []string{"f"}
		})}, exit.Refused, "error: Cluster fleet-default/west is being deleted\nfix: kubectl wait --for=delete clusters.fleet.cattle.io/west -n fleet-default\n"},
		"a request that is being deleted": {[]string{"west", "request-2"}, []runtime.Object{request("request-2", "new", func(r *fleet.ClusterRegistration) {
			r.DeletionTimestamp, r.Finalizers = &metav1.Time{Time: noon()}, []string{"f"}
		})}, exit.Refused, "error: ClusterRegistration fleet-default/request-2 is being deleted\nfix: fleet confirm-takeover west request-3 -n fleet-default\n"},
	} {
		t.Run(name, func(t *testing.T) {
			server := clitest.Start(t, append(several(), test.change...)...)
			got, code := run(t, server, test.args...)
			if want := fmt.Sprintf("exit code %d\n%s", test.code, test.want); got != want || code != test.code {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			if writes := server.Writes(); len(writes) > 0 {
				t.Errorf("writes: %v", writes)
			}
		})
	}
}

func TestRequestThatWasGranted_IsDone(t *testing.T) {
	server := clitest.Start(t, several()...)
	got, code := run(t, server, "west", "done")
	if code != exit.Done || got != "request fleet-default/done had been granted already: it registers Cluster west\nexit code 0\n" || len(server.Writes()) > 0 {
		t.Errorf("writes %v:\n%s", server.Writes(), got)
	}
}

func TestWarnings_NameWhatIsWrong(t *testing.T) {
	for name, test := range map[string]struct {
		cluster *fleet.Cluster
		request *fleet.ClusterRegistration
		want    string
	}{
		"an imported Cluster": {west(func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "k" }), request("request-2", "new", pending),
			"warning: the hub has the kubeconfig of Cluster fleet-default/west and installs its agent. The request comes from another agent\n"},
		"a token that is gone": {west(nil), request("request-2", "gone", pending),
			"warning: token fleet-default/gone, which the request names, does not exist: no agent can read the answer\n"},
		"no token": {west(nil), request("request-2", "", pending),
			"warning: the request names no token: the holder of any import token of the workspace can read the answer\n"},
		"nothing wrong": {west(nil), request("request-2", "new", pending), ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := clitest.Start(t, test.cluster, test.request, token("new"))
			got, _ := run(t, server, "west", "request-2", "--dry-run")
			_, stderr, _ := strings.Cut(got, "exit code 0\n")
			if warning, _, _ := strings.Cut(stderr, "Cluster:"); warning != test.want {
				t.Errorf("%s", got)
			}
		})
	}
}

func TestRequestIsNotGrantedInTime_NamesItsState(t *testing.T) {
	server := clitest.Start(t, several()...)
	got, code := run(t, server, "west", "request-2", "--timeout", "50ms")
	for _, want := range []string{
		"waiting up to 50ms for the grant of ClusterRegistration fleet-default/request-2\n", "error: waited 50ms for the grant of ClusterRegistration fleet-default/request-2\n",
		"error: another agent is registered\n", "fix: run the command again: it continues\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if code != exit.Timeout {
		t.Errorf("code %d", code)
	}
}

func TestRequestIsReplaced_IsNotTakenForTheFirst(t *testing.T) {
	server := clitest.Start(t, several()...)
	server.React = func(s *clitest.Server, method string, object *clitest.Object) {
		if object.GetKind() == "Cluster" {
			s.Put(request("request-2", "new", func(r *fleet.ClusterRegistration) { granted(r); r.UID = "another" }))
		}
	}
	got, code := run(t, server, "west", "request-2")
	if code != exit.Failed || !strings.Contains(got, "error: ClusterRegistration fleet-default/request-2 was deleted before the hub granted it\n"+
		"fix: kubectl annotate clusters.fleet.cattle.io -n fleet-default west fleet.cattle.io/confirm-takeover-\n") {
		t.Error(got)
	}
}
