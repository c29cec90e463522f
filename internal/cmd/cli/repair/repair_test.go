package repair_test

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/cmd/cli/repair"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const canary = "canary-93ab"

func noon() time.Time { return time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC) }

func ago(age time.Duration) metav1.Time { return metav1.NewTime(noon().Add(-age)) }

// run executes the command against a server, and returns everything that it printed, without the join text.
func run(t *testing.T, server *clitest.Server, args ...string) (string, exit.Code) {
	t.Helper()
	command := func(streams genericiooptions.IOStreams) *cobra.Command { return repair.New(streams, noon) }
	t.Setenv("KUBECONFIG", server.Kubeconfig)
	called := clitest.Call(t.Context(), command, args...)
	text := called.String()
	if strings.Contains(text, canary) {
		t.Errorf("the bearer token is shown:\n%s", text)
	}
	return regexp.MustCompile(`fleet-join-v1:[A-Za-z0-9_-]+`).ReplaceAllStringFunc(text, func(found string) string {
		if parsed, err := jointext.Parse([]byte(found)); err != nil || parsed.ClientID != "client-1" || parsed.Token != canary {
			t.Errorf("the join text is of another Cluster or token: %v", err)
		}
		return "TEXT"
	}), called.Code
}

func cluster(name string, change func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: name, UID: types.UID("uid-" + name)}, Spec: fleet.ClusterSpec{ClientID: "client-1"},
	}
	c.Status.Agent.LastSeen = ago(2 * time.Minute)
	if change != nil {
		change(c)
	}
	return c
}

func imported(c *fleet.Cluster) {
	generation := int64(0)
	c.Spec.KubeConfigSecret, c.Status.AgentDeployedGeneration = "east-kubeconfig", &generation
}

func condition(kind, status, reason, message string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) {
		c.Status.Conditions = append(c.Status.Conditions, genericcondition.GenericCondition{Type: kind, Status: corev1.ConditionStatus(status), Reason: reason, Message: message})
	}
}

func and(changes ...func(*fleet.Cluster)) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) {
		for _, change := range changes {
			change(c)
		}
	}
}

func granted(token, uid string) *fleet.ClusterRegistration {
	return &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet-default", Name: "request-1", Labels: map[string]string{fleet.LabelRegistrationToken: token},
			Annotations: map[string]string{annotation.TokenUIDAtGrant: uid},
		},
		Status: fleet.ClusterRegistrationStatus{ClusterName: "west", Granted: true},
	}
}

func token(name, uid, of string) *fleet.ClusterRegistrationToken {
	t := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{
		Namespace: "fleet-default", Name: name, UID: types.UID(uid), Annotations: map[string]string{annotation.TokenForCluster: of},
	}}
	t.Status.SecretName = name
	return t
}

// values returns the Secret with the values of a token.
func values(t testing.TB, name string) *corev1.Secret {
	t.Helper()
	document, err := protocol.Values{
		ClusterNamespace: "fleet-default", APIServerURL: "https://hub:6443", Token: canary, TokenName: name, SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: name}, Type: protocol.SecretTypeValues, Data: map[string][]byte{protocol.ValuesKey: document},
	}
}

// hub reacts to writes as the controllers do: it reinstalls agents and writes the values of tokens.
func hub(t testing.TB) func(*clitest.Server, string, *clitest.Object) {
	return func(s *clitest.Server, method string, object *clitest.Object) {
		switch {
		case object.GetKind() == "Cluster" && method == "PATCH":
			s.Put(cluster(object.GetName(), and(imported, func(c *fleet.Cluster) {
				generation := int64(1)
				c.Spec.RedeployAgentGeneration, c.Status.AgentDeployedGeneration, c.Status.Agent.LastSeen = generation, &generation, ago(0)
			})))
		case object.GetKind() == "ClusterRegistrationToken":
			s.Put(values(t, object.GetName()))
			s.Put(token(object.GetName(), "uid-new", "west"))
		}
	}
}

func TestImportedCluster_MatchesTheGoldens(t *testing.T) {
	for name, args := range map[string][]string{
		"table": nil, "json": {"-o", "json"}, "yaml": {"-o", "yaml"}, "name": {"-o", "name"}, "dry-run": {"--dry-run"},
		"dry-run-json": {"--dry-run", "-o", "json"},
	} {
		t.Run(name, func(t *testing.T) {
			server := clitest.Start(t, cluster("east", imported))
			server.React = hub(t)
			shown, _ := run(t, server, append([]string{"east"}, args...)...)
			golden.Expect(t, "imported-"+name+".golden", shown)
			if writes := len(server.Writes()); writes != map[bool]int{true: 0, false: 1}[strings.HasPrefix(name, "dry-run")] {
				t.Errorf("writes: %v", server.Writes())
			}
		})
	}
}

func TestJoinedCluster_MatchesTheGoldens(t *testing.T) {
	for name, args := range map[string][]string{
		"table": nil, "json": {"-o", "json"}, "yaml": {"-o", "yaml"}, "name": {"-o", "name"}, "dry-run": {"--dry-run"},
		"dry-run-json": {"--dry-run", "-o", "json"},
	} {
		t.Run(name, func(t *testing.T) {
			server := clitest.Start(t, cluster("west", nil), granted("west", "uid-first"), token("west", "uid-first", "west"))
			server.React = hub(t)
			shown, _ := run(t, server, append([]string{"west"}, args...)...)
			golden.Expect(t, "joined-"+name+".golden", shown)
			if writes := len(server.Writes()); writes != map[bool]int{true: 0, false: 1}[strings.HasPrefix(name, "dry-run")] {
				t.Errorf("writes: %v", server.Writes())
			}
		})
	}
}

func TestOtherForms_ArePrinted(t *testing.T) {
	server := clitest.Start(t, cluster("west", nil))
	server.React = hub(t)
	var out bytes.Buffer
	command := repair.New(genericiooptions.IOStreams{Out: &out, ErrOut: &bytes.Buffer{}}, noon)
	command.SetArgs([]string{"west", "--format", "values", "--kubeconfig", server.Kubeconfig})
	if err := command.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "clientID: client-1\n") || !strings.Contains(out.String(), "token: "+canary+"\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestSecondRun_Continues(t *testing.T) {
	t.Run("an installation that has begun is awaited", func(t *testing.T) {
		server := clitest.Start(t, cluster("east", and(imported, func(c *fleet.Cluster) { c.Spec.RedeployAgentGeneration = 1 })))
		shown, code := run(t, server, "east", "--timeout", "50ms")
		if code != exit.Timeout || len(server.Writes()) > 0 || !strings.Contains(shown, "error: the hub has not installed the agent yet\n") {
			t.Errorf("writes %v:\n%s", server.Writes(), shown)
		}
	})
	t.Run("a login that expires meanwhile has changed nothing", func(t *testing.T) {
		server := clitest.Start(t, cluster("east", and(imported, func(c *fleet.Cluster) { c.Spec.RedeployAgentGeneration = 1 })))
		reads := 0
		server.Fails = func() bool {
			if reads++; reads == 1 {
				server.Refuse("GET /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters/east", 401)
			}
			return false
		}
		if shown, code := run(t, server, "east"); code != exit.Preflight || len(server.Writes()) > 0 {
			t.Errorf("writes %v:\n%s", server.Writes(), shown)
		}
	})
	t.Run("a dry run of that writes nothing", func(t *testing.T) {
		server := clitest.Start(t, cluster("east", and(imported, func(c *fleet.Cluster) { c.Status.AgentDeployedGeneration = nil })))
		shown, code := run(t, server, "east", "--dry-run")
		if code != exit.Done || shown != "exit code 0\nnothing to write: the hub is installing the agent\n" {
			t.Error(shown)
		}
	})
	t.Run("the text of a token that exists is printed", func(t *testing.T) {
		server := clitest.Start(t, cluster("west", nil), token("west-repair", "uid-1", "west"), values(t, "west-repair"))
		shown, code := run(t, server, "west")
		if code != exit.Done || len(server.Writes()) > 0 || !strings.HasPrefix(shown, "fleet join --context west <<'JOIN'\nTEXT\nJOIN\n") {
			t.Errorf("writes %v:\n%s", server.Writes(), shown)
		}
		shown, _ = run(t, server, "west", "--dry-run")
		if !strings.HasSuffix(shown, "nothing to write: token fleet-default/west-repair exists\n") {
			t.Error(shown)
		}
	})
}

func TestTakeover_IsExplained(t *testing.T) {
	const live = "an agent that registered with another token reports as Cluster fleet-default/west (last seen 2m ago). The request waits (TakeoverPending) " +
		"until you run: fleet confirm-takeover west REQUEST -n fleet-default. That agent works until the new one has reported"
	const revoked = "the key of the agent of Cluster fleet-default/west was revoked: the request waits (TakeoverPending) until you run: fleet confirm-takeover west REQUEST -n fleet-default. " +
		"First run on the cluster, so that the agent creates another key: kubectl --context west delete secret -n kube-system fleet-agent-recovery-AGENT-NAMESPACE"
	for name, test := range map[string]struct {
		cluster func(*fleet.Cluster)
		objects []runtime.Object
		want    string
	}{
		"no registration":                {nil, nil, "no registered agent reports as Cluster fleet-default/west: the hub grants the request at once"},
		"it has never reported":          {func(c *fleet.Cluster) { c.Status.Agent.LastSeen = metav1.Time{} }, []runtime.Object{granted("a", "b")}, "no registered agent reports as Cluster fleet-default/west: the hub grants the request at once"},
		"the same token":                 {nil, []runtime.Object{granted("west-repair", "uid-1"), token("west-repair", "uid-1", "west"), values(t, "west-repair")}, "the agent of Cluster fleet-default/west has registered with this token: the hub grants the request at once"},
		"another token is gone":          {nil, []runtime.Object{granted("west", "uid-first")}, live},
		"another token is there":         {nil, []runtime.Object{granted("west", "uid-first"), token("west", "uid-first", "west")}, live + ". To register without a confirmation, use its token: fleet token show west --with-secret --cluster west -n fleet-default"},
		"a token that was created again": {nil, []runtime.Object{granted("west", "uid-first"), token("west", "uid-second", "west")}, live},
		"the agent has a key": {
			func(c *fleet.Cluster) { c.Annotations = map[string]string{annotation.AgentKey: "key"} }, []runtime.Object{granted("west", "uid-first")},
			"the agent of Cluster fleet-default/west has a key: the hub grants its request at once. A request from another cluster, or after the loss of the key, waits (TakeoverPending) until you run: fleet confirm-takeover west REQUEST -n fleet-default",
		},
		"the key was revoked": {
			func(c *fleet.Cluster) { c.Annotations = map[string]string{annotation.BlockedKey: "key"} }, []runtime.Object{granted("west", "uid-first")},
			revoked,
		},
		"the key was revoked, and its registration deleted": {func(c *fleet.Cluster) { c.Annotations = map[string]string{annotation.BlockedKey: "key"} }, nil, revoked},
		"the key was revoked, and the agent is in a namespace of its own": {func(c *fleet.Cluster) {
			c.Annotations, c.Status.Agent.Namespace = map[string]string{annotation.BlockedKey: "key"}, "agents"
		}, nil, strings.ReplaceAll(revoked, "AGENT-NAMESPACE", "agents")},
		"the agent is silent": {condition(conditions.AgentReporting, "False", conditions.ReasonAgentNotReporting, "silent"), []runtime.Object{granted("west", "uid-first")}, live},
	} {
		t.Run(name, func(t *testing.T) {
			server := clitest.Start(t, append(test.objects, cluster("west", test.cluster))...)
			server.React = hub(t)
			shown, _ := run(t, server, "west")
			lines := strings.Split(strings.TrimSpace(shown), "\n")
			if lines[len(lines)-1] != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", shown, test.want)
			}
		})
	}
}

func TestBadInput_IsRefusedWithTheWayOut(t *testing.T) {
	gone := func(c *fleet.Cluster) { c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: noon()}, []string{"f"} }
	disabled := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-fleet-system", Name: "fleet-controller"},
		Data:       map[string]string{"config": `{"bootstrap": {"namespace": "fleet-default", "localAgentDisabled": true}}`},
	}
	for name, test := range map[string]struct {
		args    []string
		objects []runtime.Object
		code    exit.Code
		want    string
	}{
		"invalid flags": {[]string{"West", "--ttl", "-1h", "--format", "xml"}, nil, exit.Usage,
			"error: token name \"West-repair\": use at most 63 lowercase letters, digits, dots and hyphens\nerror: cluster name \"West\": use at most 63 lowercase letters, digits, dots and hyphens\n" +
				"error: --ttl is negative\nerror: unknown format \"xml\": use join, values or manifest\nfix: fleet repair --help\n"},
		"no such Cluster": {[]string{"north"}, nil, exit.Failed, "error: Cluster fleet-default/north does not exist\nfix: fleet clusters -A\n"},
		"a Cluster that is being deleted": {[]string{"west"}, []runtime.Object{cluster("west", gone)}, exit.Refused,
			"error: Cluster fleet-default/west is being deleted\nfix: kubectl wait --for=delete clusters.fleet.cattle.io/west -n fleet-default\n"},
		"a Cluster of another manager": {[]string{"west"}, []runtime.Object{cluster("west", func(c *fleet.Cluster) { c.Labels = map[string]string{fleet.LabelClusterManagement: "x"} })}, exit.Refused,
			"error: another manager owns Cluster fleet-default/west: this hub does not change its agent\nreason: ClusterManagedElsewhere (docs/conditions.md)\n" +
				"fix: kubectl label clusters.fleet.cattle.io -n fleet-default west fleet.cattle.io/cluster-management-\n"},
		"a local agent that is disabled": {[]string{"local"}, []runtime.Object{cluster("local", imported), disabled}, exit.Refused,
			"error: the agent of the hub's own Cluster fleet-default/local is disabled\n" +
				"fix: helm upgrade -n cattle-fleet-system fleet charts/fleet --reset-then-reuse-values --set bootstrap.localAgentDisabled=false\n"},
		"a kubeconfig that has expired": {[]string{"east"},
			[]runtime.Object{cluster("east", and(imported, condition(conditions.Imported, "False", conditions.ReasonKubeconfigExpired, "the certificate\nhas expired")))}, exit.Preflight,
			"error: the hub cannot install the agent of Cluster fleet-default/east: the certificate has expired\nreason: KubeconfigExpired (docs/conditions.md)\n" +
				"fix: kubectl create secret generic -n fleet-default east-kubeconfig --from-file=value=east.kubeconfig --dry-run=client -o yaml | kubectl apply -f -\n"},
		"a problem without a command": {[]string{"east"},
			[]runtime.Object{cluster("east", and(imported, condition(conditions.Imported, "False", conditions.ReasonPullSecretMissing, "a Secret is missing")))}, exit.Preflight,
			"error: the hub cannot install the agent of Cluster fleet-default/east: a Secret is missing\nreason: PullSecretMissing (docs/conditions.md)\n" +
				"fix: do what the message says, then: fleet repair east -n fleet-default\n"},
		"a token of another Cluster": {[]string{"west"}, []runtime.Object{cluster("west", nil), token("west-repair", "uid-1", "east")}, exit.Refused,
			"error: token fleet-default/west-repair exists already\nfix: fleet token show west-repair -n fleet-default --with-secret\nfix: or choose another name\n"},
	} {
		t.Run(name, func(t *testing.T) {
			server := clitest.Start(t, test.objects...)
			got, code := run(t, server, test.args...)
			want := fmt.Sprintf("exit code %d\n", test.code)
			if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, test.want) || code != test.code {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
			if writes := server.Writes(); len(writes) > 0 {
				t.Errorf("writes: %v", writes)
			}
		})
	}
}

func TestAgentDoesNotComeInTime_NamesTheCause(t *testing.T) {
	const again = "fix: if the hub is still installing the agent, run the command again with --timeout 10m; if the agent is installed, that reinstalls it\n"
	for name, test := range map[string]struct {
		after func(*fleet.Cluster)
		code  exit.Code
		want  string
	}{
		"unreachable": {condition(conditions.Imported, "False", conditions.ReasonDownstreamUnreachable, "no server answers"), exit.Timeout,
			"error: waited 50ms for the agent of Cluster fleet-default/east\nerror: no server answers\nfix: fleet clusters describe east -n fleet-default\n" + again},
		"refused": {condition(conditions.Imported, "False", conditions.ReasonAnotherHub, "the agent belongs to another hub"), exit.Refused,
			"error: the hub cannot install the agent of Cluster fleet-default/east: the agent belongs to another hub\nreason: AnotherHub (docs/conditions.md)\n" +
				"fix: do what the message says, then: fleet repair east -n fleet-default\n"},
		"silent": {and(condition(conditions.AgentReporting, "False", conditions.ReasonAgentNotReporting, "the pod fails"), func(c *fleet.Cluster) {
			generation := int64(1)
			c.Status.AgentDeployedGeneration, c.Status.Agent.LastSeen = &generation, metav1.Time{}
		}), exit.Timeout,
			"error: waited 50ms for the agent of Cluster fleet-default/east\nerror: the pod fails\nfix: fleet clusters describe east -n fleet-default\n" + again},
	} {
		t.Run(name, func(t *testing.T) {
			server := clitest.Start(t, cluster("east", imported))
			server.React = func(s *clitest.Server, _ string, _ *clitest.Object) {
				s.Put(cluster("east", and(imported, func(c *fleet.Cluster) { c.Spec.RedeployAgentGeneration = 1 }, test.after)))
			}
			got, code := run(t, server, "east", "--timeout", "50ms")
			if !strings.HasSuffix(got, test.want) || code != test.code {
				t.Errorf("code %d, got:\n%s\nwant:\n%s", code, got, test.want)
			}
		})
	}
}

func TestImportedClusterWithARevokedKey_NamesTheRequestToConfirm(t *testing.T) {
	request := func(name, cluster, reason string, age time.Duration) *fleet.ClusterRegistration {
		r := &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: name, CreationTimestamp: ago(age)}}
		r.Status.ClusterName = cluster
		r.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Granted, Status: "False", Reason: reason}}
		return r
	}
	blocked := func(c *fleet.Cluster) { c.Annotations = map[string]string{annotation.BlockedKey: "key"} }
	server := clitest.Start(t, cluster("east", and(imported, blocked)), request("earlier", "east", conditions.ReasonTakeoverPending, time.Hour),
		request("other", "west", conditions.ReasonTakeoverPending, 0), request("refused", "east", conditions.ReasonTokenUnknown, 0))
	server.React = func(s *clitest.Server, _ string, _ *clitest.Object) {
		s.Put(request("request-2", "east", conditions.ReasonTakeoverPending, time.Minute))
		s.Put(cluster("east", and(imported, blocked, func(c *fleet.Cluster) { c.Status.Agent.LastSeen = metav1.Time{} })))
	}
	got, code := run(t, server, "east", "--timeout", "50ms", "--context", "hub")
	for _, want := range []string{
		"the key of the agent of Cluster fleet-default/east was revoked: the request waits (TakeoverPending) until you run: fleet --context hub confirm-takeover east REQUEST -n fleet-default\n" +
			"ClusterRegistration fleet-default/request-2 waits (TakeoverPending) until you run: fleet --context hub confirm-takeover east request-2 -n fleet-default\nwaiting up to",
		"error: ClusterRegistration fleet-default/request-2 waits (TakeoverPending) until you run: fleet --context hub confirm-takeover east request-2 -n fleet-default\n",
	} {
		if !strings.Contains(got, want) || code != exit.Timeout {
			t.Errorf("code %d, got:\n%s\nwant:\n%s", code, got, want)
		}
	}
}

func TestCauseOnTheOtherCluster_IsTriedAgain(t *testing.T) {
	const refused = "error: the hub cannot install the agent of Cluster fleet-default/east: a webhook denies it\nreason: AdmissionDenied (docs/conditions.md)\n"
	denied := func(at string) func(*fleet.Cluster) {
		return and(imported, condition(conditions.Imported, "False", conditions.ReasonAdmissionDenied, "a webhook denies it"), func(c *fleet.Cluster) {
			c.Status.Conditions[0].LastUpdateTime = at
		})
	}
	later := func(by time.Duration) func() time.Time {
		calls := 0
		return func() time.Time { calls++; return noon().Add(time.Duration(calls-1) * by) }
	}
	for name, test := range map[string]struct {
		react func(*clitest.Server, string, *clitest.Object)
		clock func() time.Time
		code  exit.Code
		want  string
	}{
		"corrected":              {hub(t), noon, exit.Done, "repaired Cluster fleet-default/east: its agent reports\n"},
		"not tried yet":          {nil, noon, exit.Timeout, "error: waited 50ms for the agent of Cluster fleet-default/east\nerror: the hub cannot install the agent of Cluster fleet-default/east: a webhook denies it\n"},
		"the same after a while": {nil, later(31 * time.Second), exit.Refused, refused},
		"denied again": {func(s *clitest.Server, _ string, _ *clitest.Object) {
			s.Put(cluster("east", denied("2030-01-02T12:00:00Z")))
		},
			noon, exit.Refused, refused},
	} {
		t.Run(name, func(t *testing.T) {
			server := clitest.Start(t, cluster("east", denied("2030-01-02T11:00:00Z")))
			server.React = test.react
			t.Setenv("KUBECONFIG", server.Kubeconfig)
			got := clitest.Call(t.Context(), func(streams genericiooptions.IOStreams) *cobra.Command { return repair.New(streams, test.clock) }, "east", "--timeout", "50ms")
			if got.Code != test.code || !strings.Contains(got.String(), test.want) || len(server.Writes()) != 1 {
				t.Errorf("code %d, writes %v:\n%s\nwant:\n%s", got.Code, server.Writes(), got, test.want)
			}
		})
	}
}

func TestHubThatRefusesAfterTheChange_ExitsWithFailed(t *testing.T) {
	server := clitest.Start(t, cluster("east", imported))
	server.React = func(s *clitest.Server, _ string, _ *clitest.Object) {
		s.Refuse("GET /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters/east", http.StatusUnauthorized)
	}
	if got, code := run(t, server, "east"); code != exit.Failed || len(server.Writes()) != 1 {
		t.Errorf("code %d, requests %v:\n%s", code, server.Writes(), got)
	}
}
