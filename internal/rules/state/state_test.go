package state

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// deployment is a BundleDeployment that is deployed and ready; modifiers change that.
func deployment(modifiers ...func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{
		Spec:   fleet.BundleDeploymentSpec{StagedDeploymentID: "s-1:a", DeploymentID: "s-1:a"},
		Status: fleet.BundleDeploymentStatus{AppliedDeploymentID: "s-1:a", Ready: true, NonModified: true},
	}
	for _, modify := range modifiers {
		modify(bd)
	}
	return bd
}

func applied(id string) func(*fleet.BundleDeployment) {
	return func(bd *fleet.BundleDeployment) { bd.Status.AppliedDeploymentID = id }
}

func staged(id string) func(*fleet.BundleDeployment) {
	return func(bd *fleet.BundleDeployment) { bd.Spec.StagedDeploymentID = id }
}

func notReady(bd *fleet.BundleDeployment) { bd.Status.Ready = false }

func modified(bd *fleet.BundleDeployment) { bd.Status.NonModified = false }

func with(conditionType string, status corev1.ConditionStatus, reason, message string) func(*fleet.BundleDeployment) {
	return func(bd *fleet.BundleDeployment) {
		bd.Status.Conditions = append(bd.Status.Conditions, genericcondition.GenericCondition{
			Type: conditionType, Status: status, Reason: reason, Message: message,
		})
	}
}

func TestEntryOf_FailedAfterAnError(t *testing.T) {
	failed, refused := with("Deployed", "False", "Error", "boom"), with("Installed", "False", "Error", "no YAML")
	unchecked := with("Monitored", "False", "Error", "503")
	waits := with("Deployed", "False", "AwaitingDependencies", "dependent bundle(s) are not ready: [db]")
	tests := map[string]struct {
		in               *fleet.BundleDeployment
		want, wantStaged bool
	}{
		"ready":                                         {deployment(), false, false},
		"not ready":                                     {deployment(notReady), false, false},
		"not applied yet":                               {deployment(applied("s-0:z")), false, false},
		"waits for a dependency":                        {deployment(applied("s-0:z"), waits), false, false},
		"deployed, waits for a dependency":              {deployment(waits), false, false},
		"deployment failed":                             {deployment(applied("s-0:z"), failed), true, true},
		"deployed, the next deployment failed":          {deployment(notReady, failed), true, true},
		"installation failed":                           {deployment(notReady, refused), true, true},
		"ready, a check failed":                         {deployment(unchecked), false, false},
		"not ready, a check failed":                     {deployment(notReady, unchecked), false, false},
		"not ready, checks fail for a while":            {deployment(notReady, unchecked, with("Ready", "False", "Error", Unchecked+"503")), true, true},
		"installation failed, spec has changed since":   {deployment(applied("s-0:z"), refused), false, false},
		"installation failed, another change is staged": {deployment(staged("s-2:b"), notReady, refused), true, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := EntryOf("", test.in, test.in.Spec.DeploymentID).Failed; got != test.want {
				t.Errorf("failed: %v", got)
			}
			if got := EntryOf("", test.in, test.in.Spec.StagedDeploymentID).Failed; got != test.wantStaged {
				t.Errorf("failed, against what is staged: %v", got)
			}
		})
	}
}

func TestOf(t *testing.T) {
	failed := with("Deployed", "False", "Error", "boom")
	tests := map[string]struct {
		in      *fleet.BundleDeployment
		want    fleet.BundleState
		against fleet.BundleState // measured against the staged deployment ID
	}{
		"applied, ready and unmodified is ready": {deployment(), fleet.Ready, fleet.Ready},
		"a modified resource is modified":        {deployment(modified), fleet.Modified, fleet.Modified},
		"an unready resource comes before a modified one": {
			deployment(notReady, modified), fleet.NotReady, fleet.NotReady,
		},
		"a staged change is out of sync, and to its Bundle not applied": {
			deployment(staged("s-2:b")), fleet.OutOfSync, fleet.WaitApplied,
		},
		"a staged change comes before a modified resource": {
			deployment(staged("s-2:b"), modified), fleet.OutOfSync, fleet.WaitApplied,
		},
		"a staged change comes after an unready resource": {
			deployment(staged("s-2:b"), notReady), fleet.NotReady, fleet.WaitApplied,
		},
		"what was not tried yet waits": {deployment(applied("s-0:z")), fleet.WaitApplied, fleet.WaitApplied},
		"what was never tried waits":   {deployment(applied("")), fleet.WaitApplied, fleet.WaitApplied},
		"what could not be deployed is an error": {
			deployment(applied("s-0:z"), failed), fleet.ErrApplied, fleet.ErrApplied,
		},
		"an error counts only until the deployment is applied": {deployment(failed), fleet.Ready, fleet.Ready},
		"a paused first deployment is not ready, and to its Bundle not applied": {
			deployment(applied(""), notReady, func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = "" }),
			fleet.NotReady, fleet.WaitApplied,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Of(test.in); got != test.want {
				t.Errorf("state = %s, want %s", got, test.want)
			}
			if got := Against(test.in, test.in.Spec.StagedDeploymentID); got != test.against {
				t.Errorf("state against the staged ID = %s, want %s", got, test.against)
			}
		})
	}
}

func TestMessage(t *testing.T) {
	deployed := with("Deployed", "False", "Error", "not deployed")
	installed := with("Installed", "False", "Error", "not installed")
	monitored := with("Monitored", "False", "Error", "not monitored")
	tests := map[string]struct {
		in   *fleet.BundleDeployment
		want string
	}{
		"nothing to say":                        {deployment(), ""},
		"a condition without a message is mute": {deployment(with("Deployed", "True", "", "")), ""},
		"Deployed comes first":                  {deployment(monitored, installed, deployed), "not deployed"},
		"then Installed":                        {deployment(monitored, installed), "not installed"},
		"Installed is about what was tried":     {deployment(monitored, installed, applied("s-0:z")), "not monitored"},
		"then Monitored":                        {deployment(monitored), "not monitored"},
		"Ready is told by the resources":        {deployment(with("Ready", "False", "Error", "x")), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Message(test.in); got != test.want {
				t.Errorf("message = %q, want %q", got, test.want)
			}
		})
	}
}

func TestRank(t *testing.T) {
	order := []fleet.BundleState{"", fleet.Ready, fleet.NotReady, fleet.Pending, fleet.OutOfSync, fleet.Modified, fleet.WaitApplied, fleet.ErrApplied}
	for rank, s := range order {
		if got := Rank(s); got != rank {
			t.Errorf("rank of %q = %d, want %d", s, got, rank)
		}
	}
	if got := Rank("Surprised"); got != 0 {
		t.Errorf("rank of an unknown state = %d, want 0", got)
	}
}

func TestDisplay(t *testing.T) {
	tests := map[string]struct {
		in   *fleet.BundleDeployment
		want fleet.BundleDeploymentDisplay
	}{
		"before the agent has looked only the state is known": {
			deployment(applied("")), fleet.BundleDeploymentDisplay{State: "WaitApplied"},
		},
		"conditions show their status": {
			deployment(with("Deployed", "True", "", ""), with("Monitored", "True", "", "")),
			fleet.BundleDeploymentDisplay{Deployed: "True", Monitored: "True", State: "Ready"},
		},
		"errors show their message": {
			deployment(applied(""), with("Deployed", "False", "Error", "boom"), with("Monitored", "False", "Error", "dark")),
			fleet.BundleDeploymentDisplay{Deployed: "Error: boom", Monitored: "Error: dark", State: "ErrApplied"},
		},
		"another reason is no error": {
			deployment(with("Monitored", "False", "Later", "wait")),
			fleet.BundleDeploymentDisplay{Monitored: "False", State: "Ready"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Display(test.in)); diff != "" {
				t.Errorf("display (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSumCounts(t *testing.T) {
	one := fleet.ResourceCounts{Ready: 1, DesiredReady: 2, WaitApplied: 3, Modified: 4, Orphaned: 5, Missing: 6, Unknown: 7, NotReady: 8}
	want := fleet.ResourceCounts{Ready: 2, DesiredReady: 4, WaitApplied: 6, Modified: 8, Orphaned: 10, Missing: 12, Unknown: 14, NotReady: 16}
	if diff := cmp.Diff(want, SumCounts(one, fleet.ResourceCounts{}, one)); diff != "" {
		t.Errorf("sum (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(fleet.ResourceCounts{}, SumCounts()); diff != "" {
		t.Errorf("sum of nothing (-want +got):\n%s", diff)
	}
}

func TestDescribe(t *testing.T) {
	tests := map[string]string{
		"service.v1 web/a":                        Describe("v1", "Service", "web", "a"),
		"deployment.apps web/a":                   Describe("apps/v1", "Deployment", "web", "a"),
		"clusterrole.rbac.authorization.k8s.io a": Describe("rbac.authorization.k8s.io/v1", "ClusterRole", "", "a"),
		"thing a": Describe("", "Thing", "", "a"),
	}
	for want, got := range tests {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestModifiedText(t *testing.T) {
	service := fleet.ModifiedStatus{Kind: "Service", APIVersion: "v1", Namespace: "ns", Name: "web"}
	change := func(f func(*fleet.ModifiedStatus)) fleet.ModifiedStatus {
		m := service
		f(&m)
		return m
	}
	tests := map[string]struct {
		in   fleet.ModifiedStatus
		want string
	}{
		"missing":                  {change(func(m *fleet.ModifiedStatus) { m.Missing = true }), "service.v1 ns/web missing"},
		"owned by another release": {change(func(m *fleet.ModifiedStatus) { m.Missing, m.Exist = true, true }), "service.v1 ns/web is not owned by us"},
		"extra":                    {change(func(m *fleet.ModifiedStatus) { m.Delete = true }), "service.v1 ns/web extra"},
		"modified":                 {change(func(m *fleet.ModifiedStatus) { m.Patch = `{"a":1}` }), `service.v1 ns/web modified {"a":1}`},
		"of a group":               {change(func(m *fleet.ModifiedStatus) { m.APIVersion, m.Delete = "x.io/v1", true }), "service.x.io ns/web extra"},
		"no version":               {change(func(m *fleet.ModifiedStatus) { m.APIVersion, m.Delete = "", true }), "service ns/web extra"},
		"no namespace":             {change(func(m *fleet.ModifiedStatus) { m.Namespace, m.Delete = "", true }), "service.v1 web extra"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ModifiedText(test.in); got != test.want {
				t.Errorf("text = %q, want %q", got, test.want)
			}
		})
	}
}

func TestNonReadyText(t *testing.T) {
	tests := map[string]struct {
		in   fleet.ResourceSummary
		want string
	}{
		"a state alone":            {fleet.ResourceSummary{State: "Pending"}, "deployment.apps ns/web Pending"},
		"a state and messages":     {fleet.ResourceSummary{State: "Pending", Message: []string{"a", "b"}}, "deployment.apps ns/web Pending a, b"},
		"progress hides the state": {fleet.ResourceSummary{State: "updating", Transitioning: true}, "deployment.apps ns/web [progressing]"},
		"an error hides the state": {fleet.ResourceSummary{State: "failed", Error: true, Message: []string{"a"}}, "deployment.apps ns/web [error] a"},
		"progress and an error":    {fleet.ResourceSummary{Error: true, Transitioning: true}, "deployment.apps ns/web [progressing,error]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := NonReadyText(fleet.NonReadyStatus{Kind: "Deployment", APIVersion: "apps/v1", Namespace: "ns", Name: "web", Summary: test.in})
			if got != test.want {
				t.Errorf("text = %q, want %q", got, test.want)
			}
		})
	}
}
