package agentalone

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleet-hub/fleet/e2e/bench/audit"
	"github.com/fleet-hub/fleet/e2e/bench/bundles"
	"github.com/fleet-hub/fleet/e2e/bench/figures"
	"github.com/fleet-hub/fleet/e2e/bench/usage"
	"github.com/fleet-hub/fleet/e2e/framework/golden"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// ticking returns a clock that advances by a second at each call.
func ticking() func() time.Time {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return func() time.Time {
		now = now.Add(time.Second)
		return now
	}
}

func TestSights_KeepTheFirstTime(t *testing.T) {
	s := newSights(ticking())
	for _, what := range []string{"a", "b", "a", "c", "b"} {
		s.see(what)
	}
	second := func(n int) time.Time { return time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC) }
	for name, test := range map[string]struct {
		all  []string
		want time.Time
	}{
		"one":                          {[]string{"a"}, second(1)},
		"two events: time of the last": {[]string{"b", "a"}, second(2)},
		"all events: time of the last": {[]string{"c", "b", "a"}, second(3)},
		"no events: zero":              {nil, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.last(t.Context(), test.all...)
			if err != nil || !got.Equal(test.want) {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
	s.forget("a")
	s.see("a")
	if got, err := s.last(t.Context(), "a"); err != nil || !got.Equal(second(4)) {
		t.Errorf("after forget: %s, %v", got, err)
	}
}

func TestSightsLast_WaitsForAllEvents(t *testing.T) {
	s := newSights(ticking())
	s.see("a")
	got := make(chan error)
	go func() {
		_, err := s.last(context.WithoutCancel(t.Context()), "a", "b")
		got <- err
	}()
	s.see("unrelated")
	s.see("b")
	if err := <-got; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.EOF)
	if _, err := s.last(ctx, "a", "never"); !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "waiting for event never") {
		t.Errorf("got %v", err)
	}
}

func TestFollow_ReopensAnEndedWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var opened, told int
	follow(ctx, func(context.Context) (watch.Interface, error) {
		opened++
		if opened == 1 {
			return nil, io.ErrUnexpectedEOF
		}
		stream := watch.NewFakeWithChanSize(1, false)
		stream.Add(&corev1.ConfigMap{})
		stream.Stop()
		return stream, nil
	}, func(watch.Event) {
		if told++; told == 2 {
			cancel()
		}
	})
	if opened != 3 || told != 2 {
		t.Errorf("opened %d times, got %d events", opened, told)
	}
}

func TestSeeBundleDeployment_RecordsItsState(t *testing.T) {
	condition := func(kind string, status corev1.ConditionStatus) fleet.BundleDeploymentStatus {
		var s fleet.BundleDeploymentStatus
		s.Conditions = append(s.Conditions, genericcondition.GenericCondition{Type: kind, Status: status})
		return s
	}
	for name, test := range map[string]struct {
		status fleet.BundleDeploymentStatus
		want   []string
	}{
		"empty status":                {fleet.BundleDeploymentStatus{}, []string{sawCreated}},
		"older deployment is applied": {fleet.BundleDeploymentStatus{AppliedDeploymentID: "old", Ready: true, NonModified: true}, []string{sawCreated}},
		"applied":                     {fleet.BundleDeploymentStatus{AppliedDeploymentID: "new", NonModified: true}, []string{sawCreated, sawClean}},
		"applied and ready":           {fleet.BundleDeploymentStatus{AppliedDeploymentID: "new", Ready: true, NonModified: true}, []string{sawCreated, sawReady, sawClean}},
		"modified":                    {fleet.BundleDeploymentStatus{AppliedDeploymentID: "new", Ready: true}, []string{sawCreated, sawReady, sawModified}},
		"Deployed is False":           {condition(conditions.Deployed, corev1.ConditionFalse), []string{sawCreated, sawFailed}},
		"Installed is False":          {condition(conditions.Installed, corev1.ConditionFalse), []string{sawCreated, sawFailed}},
		"Installed is True":           {condition(conditions.Installed, corev1.ConditionTrue), []string{sawCreated}},
		"Ready is False":              {condition(conditions.Ready, corev1.ConditionFalse), []string{sawCreated}},
		"Monitored is False":          {condition(conditions.Monitored, corev1.ConditionFalse), []string{sawCreated}},
		"Deployed is True":            {condition(conditions.Deployed, corev1.ConditionTrue), []string{sawCreated}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &site{seen: newSights(ticking())}
			bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: fleet.BundleDeploymentSpec{DeploymentID: "new"}, Status: test.status}
			s.seeBundleDeployment(watch.Event{Type: watch.Deleted, Object: bd})
			expectSeen(t, s.seen, nil)
			s.seeBundleDeployment(watch.Event{Type: watch.Added, Object: bd})
			expectSeen(t, s.seen, test.want)
		})
	}
}

func expectSeen(t *testing.T, s *sights, want []string) {
	t.Helper()
	got, wanted := map[string]bool{}, map[string]bool{}
	for what := range s.at {
		got[what] = true
	}
	for _, what := range want {
		wanted[what+"b"] = true
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
}

func TestIsUp_RequiresAllPodsOfTheTemplate(t *testing.T) {
	replicas := int32(2)
	up := appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "b", Generation: 3, Labels: map[string]string{bundles.Label: "b"}}, Spec: appsv1.DeploymentSpec{Replicas: &replicas},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
	}
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"nothing":                          {func(*appsv1.Deployment) {}, true},
		"generation not observed":          {func(d *appsv1.Deployment) { d.Generation = 4 }, false},
		"pod is not available":             {func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 }, false},
		"pod has another template":         {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 }, false},
		"old pod still exists":             {func(d *appsv1.Deployment) { d.Status.Replicas = 3 }, false},
		"replicas are not set":             {func(d *appsv1.Deployment) { d.Spec.Replicas = nil }, false},
		"conditions are missing: still up": {func(d *appsv1.Deployment) { d.Status.Conditions = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := up.DeepCopy()
			test.change(d)
			s := &site{seen: newSights(ticking())}
			s.seeObject(watch.Event{Type: watch.Modified, Object: d})
			want := []string{sawObject}
			if test.want {
				want = append(want, sawUp)
			}
			expectSeen(t, s.seen, want)
		})
	}
}

func TestSee_IgnoresOtherObjects(t *testing.T) {
	s := &site{seen: newSights(ticking())}
	s.seeObject(watch.Event{Type: watch.Error, Object: &metav1.Status{}})
	s.seeObject(watch.Event{Type: watch.Deleted, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}}})
	s.seeBundleDeployment(watch.Event{Type: watch.Error, Object: &metav1.Status{}})
	expectSeen(t, s.seen, nil)
}

func TestSettings_AreValidated(t *testing.T) {
	for name, test := range map[string]struct {
		o   Settings
		err error
	}{
		"one sample of one release: valid":  {Settings{samples: 1, releases: 1, together: 1}, nil},
		"more samples than releases: error": {Settings{samples: 2, releases: 1, together: 1}, io.EOF},
		"no samples: error":                 {Settings{samples: 0, releases: 1, together: 1}, io.EOF},
		"no agents: error":                  {Settings{samples: 1, releases: 1, together: 0}, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.o.Check(io.EOF); !errors.Is(err, test.err) {
				t.Errorf("got %v", err)
			}
		})
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	var defaults Settings
	defaults.Bind(flags)
	if err := errors.Join(flags.Parse(nil), defaults.Check(io.EOF)); err != nil {
		t.Error(err)
	}
	if want := (Settings{idle: 10 * time.Minute, settle: time.Minute, releases: 100, samples: 20, together: 1}); defaults != want {
		t.Errorf("defaults %+v", defaults)
	}
}

// logged returns a site with two audit logs that contain the given lines.
func logged(t *testing.T, hub, downstream string) *site {
	t.Helper()
	s := &site{}
	for _, log := range []struct {
		who   audit.Identity
		is    func(string) bool
		lines string
	}{{onHub, accountsIn("cluster-a"), hub}, {onDownstream, func(user string) bool { return user == agentAccount }, downstream}} {
		path := filepath.Join(t.TempDir(), "audit.log")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		opened, err := audit.NewLog(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(log.lines), 0o600); err != nil {
			t.Fatal(err)
		}
		s.logs = append(s.logs, &accessLog{Log: opened, who: log.who, is: log.is})
	}
	return s
}

func line(user, verb, resource, at string) string {
	return `{"stage":"ResponseComplete","verb":"` + verb + `","requestReceivedTimestamp":"2026-01-01T00:00:` + at + `.000000Z","user":{"username":"` +
		user + `"},"objectRef":{"resource":"` + resource + `"},"responseStatus":{"code":200}}` + "\n"
}

func TestRequests_CountsOnlyTheAgent(t *testing.T) {
	const hubUser, other = "system:serviceaccount:cluster-a:request-x", "system:serviceaccount:cluster-ab:request-y"
	s := logged(t,
		line(hubUser, "patch", "clusters", "01")+line(hubUser, "watch", "bundledeployments", "09")+line(other, "list", "bundledeployments", "09")+line(agentAccount, "get", "secrets", "09"),
		line(agentAccount, "get", "secrets", "02")+line(agentAccount, "get", "secrets", "03")+line(agentAccount, "update", "leases", "08")+line("admin", "get", "secrets", "09"))
	counts, last, err := s.requests()
	if err != nil {
		t.Fatal(err)
	}
	want := audit.Counts{
		{Identity: onHub, Verb: "patch", Resource: "clusters"}:       {Requests: 1},
		{Identity: onDownstream, Verb: "get", Resource: "secrets"}:   {Requests: 2},
		{Identity: onDownstream, Verb: "update", Resource: "leases"}: {Requests: 1},
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := time.Date(2026, 1, 1, 0, 0, 3, 0, time.UTC); !last.Equal(want) {
		t.Errorf("the last request other than a lease was at %s", last)
	}
	if again, _, err := s.requests(); err != nil || len(again) != 0 {
		t.Errorf("second call: %v, %v", again, err)
	}
}

func TestWhose_DistinguishesTheAgentsOwnBundle(t *testing.T) {
	for name, test := range map[string]struct {
		log            audit.Identity
		resource, name string
		want           audit.Identity
	}{
		"report of another Bundle":          {onHub, "bundledeployments", "web", onHub},
		"report of the agent's Bundle":      {onHub, "bundledeployments", "fleet-agent-a", aboutItself},
		"list of BundleDeployments":         {onHub, "bundledeployments", "", onHub},
		"other resource with the same name": {onHub, "contents", "fleet-agent-a", onHub},
		"same name on the cluster":          {onDownstream, "bundledeployments", "fleet-agent-a", onDownstream},
	} {
		t.Run(name, func(t *testing.T) {
			var e audit.Event
			e.Object.Resource, e.Object.Name = test.resource, test.name
			if got := (&accessLog{who: test.log}).whose(e); got != test.want {
				t.Errorf("counted under %q", got)
			}
		})
	}
	if isUnneeded(audit.Kind{Identity: aboutItself, Verb: "patch", Resource: "bundledeployments/status"}) {
		t.Error("want the report of the agent's own Bundle to be allowed")
	}
}

func TestIsUnneeded_ExcludesExpectedWrites(t *testing.T) {
	for name, test := range map[string]struct {
		verb, resource string
		want           bool
	}{
		"heartbeat":                    {"patch", "clusters/status", false},
		"lease":                        {"update", "leases", false},
		"access review":                {"create", "selfsubjectaccessreviews", false},
		"read":                         {"get", "secrets", false},
		"release Secret":               {"create", "secrets", true},
		"status of a BundleDeployment": {"patch", "bundledeployments/status", true},
		"Namespace label":              {"update", "namespaces", true},
		"Cluster":                      {"patch", "clusters", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isUnneeded(audit.Kind{Identity: onHub, Verb: test.verb, Resource: test.resource}); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func figuresOfAnAgent() Sample {
	counts := audit.Counts{
		{Identity: onDownstream, Verb: "update", Resource: "leases"}:  {Requests: 60},
		{Identity: onHub, Verb: "patch", Resource: "clusters/status"}: {Requests: 1, Refused: 1},
	}
	idle := idleFigures{Requests: frequencyOf(counts, 10*time.Minute), Agent: usage.Footprint{Resident: 50, Anonymous: 20, Peak: 55}}
	return Sample{
		BinaryMB: 59.4, Idle: idle, Large: largeFigures{PackedKiB: 900, Deployed: true, Agent: usage.Footprint{Resident: 52, Anonymous: 20.5, Peak: 200}, Rise: 0.5},
		Deploys: deployFigures{
			Existing: figures.SpreadOf(ms(90, 120, 100)), Reporting: figures.SpreadOf(ms(20, 30, 210)), Told: figures.SpreadOf(ms(190, 250, 310)), Drift: figures.SpreadOf(ms(100, 200)),
			AllReleases: 97, AllSeconds: 12.5, Agent: usage.Footprint{Resident: 66, Anonymous: 30, Peak: 200},
		},
		Resync: resyncFigures{Rows: rowsOf(counts), Idle: idleFigures{Requests: frequencyOf(nil, time.Minute), Agent: usage.Footprint{Resident: 64, Anonymous: 28, Peak: 64}}},
	}
}

func TestAgentFigures_MatchTheGolden(t *testing.T) {
	all := []Sample{figuresOfAnAgent()}
	golden.ExpectJSON(t, "agent.json", Figures{Agents: all, Budgets: budgetsOf(all, 100)})
}

// TestAgentBudgets_UseTheMedians lets two agents of five exceed the budgets.
func TestAgentBudgets_UseTheMedians(t *testing.T) {
	var all []Sample
	for i := range 5 {
		f := figuresOfAnAgent()
		f.Large.Rise, f.Resync.Writes = float64(5-i), i/3
		f.Idle.Agent.Anonymous += float64(i) * 4
		all = append(all, f)
	}
	got := map[string]string{}
	for _, b := range budgetsOf(all, 100) {
		got[b.Figure] = fmt.Sprint(b.Value, " ", b.Holds)
	}
	for figure, want := range map[string]string{
		"agent RssAnon, MiB": "28 aim", "agent RssAnon after a large chart beyond before, MiB": "3 must", "writes of an agent restarted": "0 aim",
	} {
		if got[figure] != want {
			t.Errorf("%s: %s, want %s", figure, got[figure], want)
		}
	}
}

func TestClusters_AreNumbered(t *testing.T) {
	if diff := cmp.Diff([]string{"east", "east-2", "east-3"}, Settings{together: 3}.Clusters()); diff != "" {
		t.Error(diff)
	}
}

func TestAgentBudgetsOfFewReleases_AreOmitted(t *testing.T) {
	f := figuresOfAnAgent()
	f.Deploys.Drift, f.Deploys.Unreported = figures.Spread{}, 1
	budgets := budgetsOf([]Sample{f}, 99)
	for _, b := range budgets {
		switch {
		case strings.Contains(b.Figure, "100"):
			t.Errorf("99 releases are too few for this budget: %+v", b)
		case strings.HasPrefix(b.Figure, "edited") && (b.Holds != "missed" || b.Value != 10000):
			t.Errorf("an unreported edit must miss its budget: %+v", b)
		}
	}
	if all := budgetsOf([]Sample{f}, 100); len(all) != len(budgets)+1 {
		t.Errorf("%d budgets for 99 releases, %d for 100", len(budgets), len(all))
	}
}

func ms(n ...int) (samples []time.Duration) {
	for _, n := range n {
		samples = append(samples, time.Duration(n)*time.Millisecond)
	}
	return samples
}
