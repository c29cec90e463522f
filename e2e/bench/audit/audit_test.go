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
	return Classifier{Controller: "system:serviceaccount:cattle-fleet-system:fleet-controller", Workspaces: []string{"fleet-default"}, Played: "fleet-swarm", Agent: "fleet-bench"}
}

// recorded returns recorded lines of an API server's log, reduced to the used fields.
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

// TestRecordedLines_AreClassified prints the identity and the kind of each line.
func TestRecordedLines_AreClassified(t *testing.T) {
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

// TestRecordedCounts_MatchTheGolden prints the counts as a table.
func TestRecordedCounts_MatchTheGolden(t *testing.T) {
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

// event returns a log line with these fields.
func event(user, agent, verb, resource string) Event {
	var e Event
	e.User.Username, e.UserAgent, e.Verb, e.Stage = user, agent, verb, "ResponseComplete"
	e.Object.Resource, e.Object.Subresource, _ = strings.Cut(resource, "/")
	return e
}

func TestWho_ClassifiesUsers(t *testing.T) {
	const account = "system:serviceaccount:"
	tests := map[string]struct {
		event Event
		want  Identity
	}{
		"controller":           {event(account+"cattle-fleet-system:fleet-controller", "fleetcontroller/v0", "get", "pods"), Controller},
		"agent that registers": {event(account+"fleet-default:t1-uid", "fleet-swarm", "create", "clusterregistrations"), Import},
		"agent that registers in another workspace": {event(account+"elsewhere:t1-uid", "fleet-swarm", "create", "clusterregistrations"), Other},
		"simulated agent": {event(account+"cluster-fleet-default-c1:request-1", "fleet-swarm", "list", "bundledeployments"), Request},
		"real agent":      {event(account+"cluster-fleet-default-c1:request-1", "Go-http-client/2.0", "patch", "clusters/status"), Request},
		"controller that verifies a new credential": {event(account+"cluster-fleet-default-c1:request-1", "Go-http-client/2.0", "list", "bundledeployments"), Proof},
		"controller of Kubernetes":                  {event(account+"kube-system:namespace-controller", "kube-controller-manager/v1", "get", "pods"), Kubernetes},
		"API server":                                {event("system:apiserver", "kube-apiserver/v1", "get", "pods"), Kubernetes},
		"scheduler":                                 {event("system:kube-scheduler", "kube-scheduler/v1", "get", "pods"), Kubernetes},
		"anonymous":                                 {event("system:anonymous", "curl/8", "get", "pods"), Kubernetes},
		"admin":                                     {event("admin", "kubectl/v1", "get", "pods"), Admin},
		"measurement":                               {event("admin", "fleet-bench", "watch", "clusters"), Bench},
		"other user with the measurement's user agent": {event("eve", "fleet-bench", "watch", "clusters"), Other},
		"agent of the hub's own cluster":               {event(account+"cattle-fleet-system:fleet-agent", "fleetagent/v0", "update", "leases"), Other},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := classifier().Who(test.event); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestIsWrite_ExcludesLeasesAndReviews(t *testing.T) {
	tests := map[string]struct {
		verb, resource string
		want           bool
	}{
		"create":            {"create", "secrets", true},
		"update":            {"update", "endpoints", true},
		"patch of a status": {"patch", "clusters/status", true},
		"delete":            {"delete", "secrets", true},
		"deletecollection":  {"deletecollection", "secrets", true},
		"token":             {"create", "serviceaccounts/token", true},
		"get":               {"get", "secrets", false},
		"list":              {"list", "secrets", false},
		"watch":             {"watch", "secrets", false},
		"lease":             {"update", "leases", false},
		"access review":     {"create", "subjectaccessreviews", false},
		"token review":      {"create", "tokenreviews", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := event("admin", "", test.verb, test.resource).Kind(Admin).IsWrite(); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestResource_IncludesTheSubresource(t *testing.T) {
	tests := map[string]struct{ line, want string }{
		"resource":    {`{"objectRef":{"resource":"clusters"}}`, "clusters"},
		"subresource": {`{"objectRef":{"resource":"clusters","subresource":"status"}}`, "clusters/status"},
		"no resource": {`{"requestURI":"/readyz?verbose=1"}`, "/readyz"},
		"discovery":   {`{"requestURI":"/apis"}`, "/apis"},
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

func TestParseInvalidLine_Fails(t *testing.T) {
	if e, err := Parse([]byte("{")); err == nil || !strings.Contains(err.Error(), "audit log") {
		t.Errorf("got %v, %v", e, err)
	}
}

func TestPolicy_LogsTheCountedStages(t *testing.T) {
	for _, omitted := range []string{started, "ResponseComplete", "Panic"} {
		if strings.Contains(Policy, omitted) {
			t.Errorf("the policy omits stage %s", omitted)
		}
	}
}
