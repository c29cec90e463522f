package supervision_test

import (
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	"github.com/fleet-hub/fleet/internal/rules/supervision"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// observed returns the input, at noon, for an agent with the hub's interval of ten minutes that reported this long
// ago.
func observed(ago time.Duration, modifiers ...func(*supervision.ReportingInput)) supervision.ReportingInput {
	return *rulestest.Build(&supervision.ReportingInput{
		Now: rulestest.Noon(), Since: rulestest.Noon().Add(-ago),
		Cluster: &fleet.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: rulestest.Workspace, Name: "east"},
			Spec:       fleet.ClusterSpec{KubeConfigSecret: "east-kubeconfig"},
			Status:     fleet.ClusterStatus{Agent: fleet.AgentStatus{LastSeen: rulestest.At(-ago)}},
		},
		Config: config.Config{
			AgentCheckinInterval: metav1.Duration{Duration: 10 * time.Minute}, Bootstrap: config.Bootstrap{Namespace: "fleet-local"},
		},
	}, modifiers)
}

func neverReported(in *supervision.ReportingInput) { in.Cluster.Status.Agent.LastSeen = metav1.Time{} }

func deployed(in *supervision.ReportingInput) { condition(in, conditions.Imported, "True", "") }

func notDeployed(in *supervision.ReportingInput) {
	condition(in, conditions.Imported, "False", conditions.ReasonDownstreamUnreachable)
}

func condition(in *supervision.ReportingInput, kind, status, reason string) {
	in.Cluster.Status.Conditions = append(in.Cluster.Status.Conditions, genericcondition.GenericCondition{
		Type: kind, Status: corev1.ConditionStatus(status), Reason: reason,
	})
}

func marked(in *supervision.ReportingInput) { in.Marked = true }

func byHand(in *supervision.ReportingInput) { in.Cluster.Spec.KubeConfigSecret = "" }

func adopted(in *supervision.ReportingInput) { in.Adopted = true }

func configured(interval time.Duration) func(*supervision.ReportingInput) {
	return func(in *supervision.ReportingInput) { in.Config.AgentCheckinInterval.Duration = interval }
}

func ownCheckin(values ...string) func(*supervision.ReportingInput) {
	return func(in *supervision.ReportingInput) {
		for _, value := range values {
			in.Cluster.Spec.AgentEnvVars = append(in.Cluster.Spec.AgentEnvVars, corev1.EnvVar{Name: "CHECKIN_INTERVAL", Value: value})
		}
	}
}

func gaps(observed ...time.Duration) func(*supervision.ReportingInput) {
	return func(in *supervision.ReportingInput) {
		for _, gap := range observed {
			in.Gaps = in.Gaps.Add(gap)
		}
	}
}

// skewed shifts the agent's clock.
func skewed(by time.Duration) func(*supervision.ReportingInput) {
	return func(in *supervision.ReportingInput) {
		in.Cluster.Status.Agent.LastSeen = metav1.NewTime(in.Cluster.Status.Agent.LastSeen.Add(by))
	}
}

func notBefore(in time.Duration) func(*supervision.ReportingInput) {
	return func(input *supervision.ReportingInput) { input.NotBefore = rulestest.Noon().Add(in) }
}

func localDisabled(in *supervision.ReportingInput) {
	in.Config.Bootstrap.LocalAgentDisabled = true
	in.Cluster.Namespace, in.Cluster.Name = "fleet-local", "local"
}

func TestDecideReporting(t *testing.T) {
	const m = time.Minute
	heard := func(lookAgain time.Duration) supervision.ReportingOutcome {
		return supervision.ReportingOutcome{Stage: supervision.ReportingHeard, LookAgain: rulestest.Noon().Add(lookAgain)}
	}
	late := func(lookAgain time.Duration) supervision.ReportingOutcome {
		return supervision.ReportingOutcome{Stage: supervision.ReportingHeard, Late: true, LookAgain: rulestest.Noon().Add(lookAgain)}
	}
	silent := supervision.ReportingOutcome{Stage: supervision.ReportingSilent, Late: true}
	awaited := supervision.ReportingOutcome{Stage: supervision.ReportingAwaited, Absent: true}
	missing := supervision.ReportingOutcome{Stage: supervision.ReportingMissing, Absent: true}
	unexpected := supervision.ReportingOutcome{Stage: supervision.ReportingUnexpected}
	tests := map[string]struct {
		in   supervision.ReportingInput
		want supervision.ReportingOutcome
	}{
		"agent just reported: heard":                            {observed(0), heard(33 * m)},
		"agent missed one heartbeat: heard":                     {observed(15 * m), heard(18 * m)},
		"agent missed two heartbeats: late":                     {observed(20 * m), late(13 * m)},
		"agent missed three heartbeats, within jitter: late":    {observed(32 * m), late(m)},
		"agent missed three heartbeats and jitter: silent":      {observed(33 * m), silent},
		"agent's clock an hour ahead: no difference":            {observed(15*m, skewed(time.Hour)), heard(18 * m)},
		"agent's clock an hour behind: no difference":           {observed(15*m, skewed(-time.Hour)), heard(18 * m)},
		"agent's clock ahead: silence is still noticed":         {observed(33*m, skewed(time.Hour)), silent},
		"marked agent: silent until its next heartbeat":         {observed(0, marked), silent},
		"before NotBefore: late":                                {observed(40*m, notBefore(5*m)), late(5 * m)},
		"after NotBefore: silent":                               {observed(40*m, notBefore(0)), silent},
		"NotBefore: does not shorten the limit of a live agent": {observed(0, notBefore(5*m)), heard(33 * m)},
		"agent not deployed yet: awaited":                       {observed(time.Hour, neverReported), awaited},
		"agent cannot be deployed: awaited":                     {observed(time.Hour, neverReported, notDeployed), awaited},
		"agent deployed less than 45 seconds ago: awaited": {
			observed(15*time.Second, neverReported, deployed),
			supervision.ReportingOutcome{Stage: supervision.ReportingAwaited, LookAgain: rulestest.Noon().Add(30 * time.Second)},
		},
		"agent to be installed by hand, Cluster is new: awaited, not absent yet": {
			observed(0, neverReported, byHand),
			supervision.ReportingOutcome{Stage: supervision.ReportingAwaited, LookAgain: rulestest.Noon().Add(45 * time.Second)},
		},
		"agent deployed 45 seconds ago: missing":                              {observed(45*time.Second, neverReported, deployed), missing},
		"missing agent: stays missing":                                        {observed(0, neverReported, deployed, marked), missing},
		"missing agent is deployed again: stays missing":                      {observed(0, neverReported, notDeployed, marked), missing},
		"agent to be installed by hand: awaited":                              {observed(time.Hour, neverReported, byHand), awaited},
		"agent to be installed by hand, Cluster was imported before: awaited": {observed(time.Hour, neverReported, byHand, deployed), awaited},
		"local agent disabled: not expected":                                  {observed(time.Hour, localDisabled), unexpected},
		"local agent disabled while awaited: not expected":                    {observed(time.Hour, localDisabled, neverReported, deployed), unexpected},
		"Cluster of another manager: not expected": {observed(time.Hour, func(in *supervision.ReportingInput) {
			in.Cluster.Labels = map[string]string{fleet.LabelClusterManagement: "somebody"}
		}), unexpected},
		"Cluster is being deleted: not expected": {observed(time.Hour, marked, func(in *supervision.ReportingInput) {
			in.Cluster.DeletionTimestamp = &in.Cluster.Status.Agent.LastSeen
		}), unexpected},
		"Cluster paused: silence is still noticed": {observed(33*m, func(in *supervision.ReportingInput) { in.Cluster.Spec.Paused = true }), silent},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rulestest.ExpectEqual(t, "outcome", rulestest.Pure(t, supervision.DecideReporting, test.in), test.want)
		})
	}
}

func TestCheckinInterval(t *testing.T) {
	const m = time.Minute
	tests := map[string]struct {
		in   supervision.ReportingInput
		want time.Duration
	}{
		"the hub's":                                                 {observed(0), 10 * m},
		"no configured interval: default":                           {observed(0, configured(0)), 15 * m},
		"Cluster's interval is longer: used":                        {observed(0, ownCheckin("1h")), time.Hour},
		"Cluster's interval is shorter: not used yet":               {observed(0, ownCheckin("20s")), 10 * m},
		"Cluster's interval is shorter, and observed: used":         {observed(0, ownCheckin("20s"), gaps(20*time.Second, 21*time.Second, 19*time.Second)), 20 * time.Second},
		"Cluster's interval is shorter, but not observed: not used": {observed(0, ownCheckin("20s"), gaps(10*m, 10*m, 9*m)), 10 * m},
		"Cluster's interval is longer than the observed one: used":  {observed(0, ownCheckin("1h"), gaps(10*m, 10*m, 10*m)), time.Hour},
		"variable set twice: last one counts":                       {observed(0, ownCheckin("1h", "2h")), 2 * time.Hour},
		"variable set twice, last one shorter: last one counts":     {observed(0, ownCheckin("2h", "1h")), time.Hour},
		"variable set twice, last one invalid: not used":            {observed(0, ownCheckin("2h", "tomorrow")), 10 * m},
		"variable empty: default":                                   {observed(0, ownCheckin("")), 15 * m},
		"variable zero: default":                                    {observed(0, ownCheckin("0")), 15 * m},
		"variable invalid: not used":                                {observed(0, ownCheckin("tomorrow")), 10 * m},
		"variable with valueFrom: not used":                         {observed(0, ownCheckin("2h"), fromTheNode), 10 * m},
		"other variable: not used": {observed(0, func(in *supervision.ReportingInput) {
			in.Cluster.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "A", Value: "2h"}}
		}), 10 * m},
		"agent installed by hand: default":                                  {observed(0, byHand), 15 * m},
		"agent installed by hand, hub's interval is longer: hub's interval": {observed(0, byHand, configured(time.Hour)), time.Hour},
		"agent installed by hand, adopted: hub's interval":                  {observed(0, byHand, adopted), 10 * m},
		"agent installed by hand, enough gaps observed: hub's interval":     {observed(0, byHand, gaps(10*m, 10*m, 10*m)), 10 * m},
		"agent installed by hand, two gaps observed: default":               {observed(0, byHand, gaps(10*m, 10*m)), 15 * m},
		"one long gap observed: used at once":                               {observed(0, gaps(30*m)), 30 * m},
		"two gaps observed: shorter one":                                    {observed(0, gaps(3*time.Hour, 30*m)), 30 * m},
		"one outage among the gaps: ignored":                                {observed(0, gaps(10*m, 5*time.Hour, 10*m)), 10 * m},
		"one restart among the gaps: ignored":                               {observed(0, gaps(30*m, m, 30*m)), 30 * m},
		"old gaps: forgotten":                                               {observed(0, gaps(time.Hour, time.Hour, 10*m, 10*m, 10*m)), 10 * m},
		"gaps shorter than the hub's interval: hub's interval":              {observed(0, gaps(time.Second, time.Second, time.Second)), 10 * m},
		"gaps shorter than the default, none configured: default":           {observed(0, configured(0), gaps(time.Second, time.Second, time.Second)), 15 * m},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := rulestest.Pure(t, supervision.CheckinInterval, test.in); got != test.want {
				t.Errorf("interval %s, want %s", got, test.want)
			}
		})
	}
}

func fromTheNode(in *supervision.ReportingInput) {
	in.Cluster.Spec.AgentEnvVars[0].ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}
}

func TestReportingCondition(t *testing.T) {
	trouble := map[supervision.Reporting]bool{supervision.ReportingMissing: true, supervision.ReportingSilent: true}
	for stage, reason := range map[supervision.Reporting]string{
		supervision.ReportingHeard: "", supervision.ReportingAwaited: conditions.ReasonAwaitingAgent,
		supervision.ReportingMissing: conditions.ReasonAgentNotReporting, supervision.ReportingSilent: conditions.ReasonAgentNotReporting,
	} {
		t.Run(string(stage), func(t *testing.T) {
			for _, in := range []supervision.ReportingInput{observed(0), observed(0, byHand)} {
				got := supervision.ReportingCondition(stage, in.Cluster)
				if got.Type != conditions.AgentReporting || got.Reason != reason || (got.Message == "") != (reason == "") ||
					(got.Status == corev1.ConditionTrue) != (stage == supervision.ReportingHeard) || conditions.IsTrouble(*got) != trouble[stage] {
					t.Errorf("%+v", got)
				}
				marking := &fleet.Cluster{Status: fleet.ClusterStatus{Conditions: []genericcondition.GenericCondition{*got}}}
				if supervision.MarkedNotReporting(marking) != trouble[stage] {
					t.Errorf("a Cluster with this condition is marked: %v", !trouble[stage])
				}
				marking.Status.Agent.LastSeen = metav1.NewTime(rulestest.Noon())
				if supervision.MarkedNotReporting(marking) != (stage == supervision.ReportingSilent) {
					t.Errorf("a Cluster with this condition and a heartbeat is marked: %v", stage != supervision.ReportingSilent)
				}
			}
		})
	}
	if got := supervision.ReportingCondition(supervision.ReportingUnexpected, observed(0).Cluster); got != nil {
		t.Errorf("condition of a Cluster without an expected agent: %+v", got)
	}
	if supervision.MarkedNotReporting(observed(0).Cluster) {
		t.Error("a Cluster without the condition is marked")
	}
}
