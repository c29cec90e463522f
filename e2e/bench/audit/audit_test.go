package audit

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
)

func classifier() Classifier {
	return Classifier{Controller: "system:serviceaccount:cattle-fleet-system:fleet-controller", Workspace: "fleet-default", Played: "fleet-swarm", Agent: "fleet-bench"}
}

// recorded are lines of an API server's log, without what is not read.
func recorded(t *testing.T) (events []Event) {
	t.Helper()
	text, err := os.ReadFile("testdata/recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		event, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, event)
	}
	return events
}

// TestRecordedLines says of each line whose it is and as what it is counted.
func TestRecordedLines(t *testing.T) {
	var got strings.Builder
	for _, e := range recorded(t) {
		who := classifier().Who(e)
		kind := e.Kind(who)
		var said []string
		for _, mark := range []struct {
			text string
			is   bool
		}{{"counted", e.Counts()}, {"refused", e.IsRefused()}, {"a cost", kind.IsCost()}, {"a write", kind.IsWrite()}, {"polling", kind.IsPolling()}, {"a lease", kind.IsLease()}} {
			if mark.is {
				said = append(said, mark.text)
			}
		}
		fmt.Fprintf(&got, "%-30s %-7s %-26s %d %s: %s\n", who, kind.Verb, kind.Resource, e.Response.Code, e.Stage, strings.Join(said, ", "))
	}
	golden.Expect(t, "recorded.txt", got.String())
}

// TestRecordedCounts is the table that is printed.
func TestRecordedCounts(t *testing.T) {
	counts := Counts{}
	for _, e := range recorded(t) {
		counts.Add(classifier().Who(e), e)
	}
	var got strings.Builder
	for _, kind := range counts.Kinds() {
		fmt.Fprintf(&got, "%-30s %-7s %-26s %d, %d refused\n", kind.Identity, kind.Verb, kind.Resource, counts[kind].Requests, counts[kind].Refused)
	}
	costs := counts.Only(Kind.IsCost)
	fmt.Fprintf(&got, "all: %+v, costs: %+v\n", counts.Total(), costs.Total())
	golden.Expect(t, "counts.txt", got.String())
}

// event is a line of the log with what a test says of it.
func event(user, agent, verb, resource string) Event {
	var e Event
	e.User.Username, e.UserAgent, e.Verb, e.Stage = user, agent, verb, "ResponseComplete"
	e.Object.Resource, e.Object.Subresource, _ = strings.Cut(resource, "/")
	return e
}

func TestWho(t *testing.T) {
	const account = "system:serviceaccount:"
	tests := map[string]struct {
		event Event
		want  Identity
	}{
		"the controller":                                  {event(account+"cattle-fleet-system:fleet-controller", "fleetcontroller/v0", "get", "pods"), Controller},
		"an agent that registers":                         {event(account+"fleet-default:t1-uid", "fleet-swarm", "create", "clusterregistrations"), Import},
		"one that registers in another workspace":         {event(account+"elsewhere:t1-uid", "fleet-swarm", "create", "clusterregistrations"), Other},
		"an agent at work":                                {event(account+"cluster-fleet-default-c1:request-1", "fleet-swarm", "list", "bundledeployments"), Request},
		"a real agent at work":                            {event(account+"cluster-fleet-default-c1:request-1", "Go-http-client/2.0", "patch", "clusters/status"), Request},
		"the controller that tries what it hands out":     {event(account+"cluster-fleet-default-c1:request-1", "Go-http-client/2.0", "list", "bundledeployments"), Proof},
		"a controller of Kubernetes":                      {event(account+"kube-system:namespace-controller", "kube-controller-manager/v1", "get", "pods"), Kubernetes},
		"the API server itself":                           {event("system:apiserver", "kube-apiserver/v1", "get", "pods"), Kubernetes},
		"a scheduler":                                     {event("system:kube-scheduler", "kube-scheduler/v1", "get", "pods"), Kubernetes},
		"nobody known":                                    {event("system:anonymous", "curl/8", "get", "pods"), Kubernetes},
		"the admin":                                       {event("admin", "kubectl/v1", "get", "pods"), Admin},
		"who measures":                                    {event("admin", "fleet-bench", "watch", "clusters"), Bench},
		"somebody who only calls himself so":              {event("eve", "fleet-bench", "watch", "clusters"), Other},
		"the agent of the hub's own cluster, on its side": {event(account+"cattle-fleet-system:fleet-agent", "fleetagent/v0", "update", "leases"), Other},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := classifier().Who(test.event); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestWrites(t *testing.T) {
	tests := map[string]struct {
		verb, resource string
		want           bool
	}{
		"a creation":                    {"create", "secrets", true},
		"an update":                     {"update", "endpoints", true},
		"a patch of a status":           {"patch", "clusters/status", true},
		"a deletion":                    {"delete", "secrets", true},
		"a deletion of many":            {"deletecollection", "secrets", true},
		"a token":                       {"create", "serviceaccounts/token", true},
		"a read":                        {"get", "secrets", false},
		"a list":                        {"list", "secrets", false},
		"a watch":                       {"watch", "secrets", false},
		"a lease, which is always kept": {"update", "leases", false},
		"a question about rights":       {"create", "subjectaccessreviews", false},
		"a question about a token":      {"create", "tokenreviews", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := event("admin", "", test.verb, test.resource).Kind(Admin).IsWrite(); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestResource(t *testing.T) {
	tests := map[string]struct{ line, want string }{
		"a kind":        {`{"objectRef":{"resource":"clusters"}}`, "clusters"},
		"a subresource": {`{"objectRef":{"resource":"clusters","subresource":"status"}}`, "clusters/status"},
		"no resource":   {`{"requestURI":"/readyz?verbose=1"}`, "/readyz"},
		"discovery":     {`{"requestURI":"/apis"}`, "/apis"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e, err := Parse([]byte(test.line))
			if err != nil || e.Resource() != test.want {
				t.Errorf("got %q, %v", e.Resource(), err)
			}
		})
	}
}

func TestALineThatIsNoLine(t *testing.T) {
	if e, err := Parse([]byte("{")); err == nil || !strings.Contains(err.Error(), "audit log") {
		t.Errorf("got %v, %v", e, err)
	}
}

func TestPolicyKeepsTheStagesThatAreCounted(t *testing.T) {
	for _, omitted := range []string{started, "ResponseComplete", "Panic"} {
		if strings.Contains(Policy, omitted) {
			t.Errorf("the policy leaves %s out", omitted)
		}
	}
}
