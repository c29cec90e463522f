package watch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/internal/deploy/hub"
	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/deploy/outcome"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestAnyMissing(t *testing.T) {
	a, b := refTo("ConfigMap", "web", "a"), refTo("ConfigMap", "web", "b")
	fine := seenAs("1", fleet.ResourceSummary{State: "active"})
	tests := map[string]struct {
		seen map[manifest.Ref]observation
		want bool
	}{
		"nothing observed yet":              {nil, false},
		"all objects exist":                 {map[manifest.Ref]observation{a: fine, b: fine}, false},
		"one is missing":                    {map[manifest.Ref]observation{a: fine, b: {}}, true},
		"one belongs to another owner":      {map[manifest.Ref]observation{a: fine, b: {Exists: true}}, true},
		"observed object is no longer part": {map[manifest.Ref]observation{refTo("ConfigMap", "web", "c"): {}}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := (&Tracking{refs: []manifest.Ref{a, b}, seen: test.seen}).AnyMissing(); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestHasLost(t *testing.T) {
	cm := refTo("ConfigMap", "web", "cm")
	fine := seenAs("1", fleet.ResourceSummary{State: "active"})
	tests := map[string]struct {
		overwrites fleet.OverwrittenResource
		seen       observation
		want       bool
	}{
		"overwritten object missing":                    {fleet.OverwrittenResource{Kind: "configmap", Name: "cm"}, observation{}, true},
		"overwritten object missing in its namespace":   {fleet.OverwrittenResource{Kind: "ConfigMap", Namespace: "web", Name: "cm"}, observation{}, true},
		"overwritten object exists":                     {fleet.OverwrittenResource{Kind: "ConfigMap", Name: "cm"}, fine, false},
		"overwritten object belongs to another owner":   {fleet.OverwrittenResource{Kind: "ConfigMap", Name: "cm"}, observation{Exists: true}, false},
		"other object missing":                          {fleet.OverwrittenResource{Kind: "ConfigMap", Name: "other"}, observation{}, false},
		"object missing, another namespace overwritten": {fleet.OverwrittenResource{Kind: "ConfigMap", Namespace: "db", Name: "cm"}, observation{}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tracking := &Tracking{refs: []manifest.Ref{cm}, seen: map[manifest.Ref]observation{cm: test.seen}}
			if got := tracking.HasLost([]fleet.OverwrittenResource{test.overwrites}); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func refTo(kind, namespace, name string) manifest.Ref {
	return manifest.Ref{GroupVersionKind: schema.GroupVersionKind{Group: map[string]string{"Deployment": "apps"}[kind], Version: "v1", Kind: kind}, Namespace: namespace, Name: name}
}

// seenAs returns an observation. Its UID also defines its place in the list.
func seenAs(uid string, summary fleet.ResourceSummary) observation {
	return observation{Exists: true, Owned: true, UID: types.UID(uid), Created: metav1.Time{Time: deploytest.Noon()}, Summary: summary}
}

func TestReport(t *testing.T) {
	fine := fleet.ResourceSummary{State: "active"}
	progressing := fleet.ResourceSummary{State: "updating", Transitioning: true, Message: []string{"Available: 0/1"}}
	broken := fleet.ResourceSummary{State: "failed", Error: true, Message: []string{"no room"}}
	many := func(o observation, n int) []observedObject {
		var out []observedObject
		for i := range n {
			o.UID = types.UID(fmt.Sprintf("u%02d", n-i))
			out = append(out, observedObject{refTo("ConfigMap", "web", fmt.Sprintf("cm-%02d", i)), o})
		}
		return out
	}
	tests := map[string][]observedObject{
		"nothing":                               nil,
		"all are ready":                         {{refTo("ConfigMap", "web", "a"), seenAs("1", fine)}, {refTo("Deployment", "web", "b"), seenAs("2", fine)}},
		"listed by kind, namespace and name":    {{refTo("ConfigMap", "web", "z"), seenAs("1", fine)}, {refTo("Deployment", "web", "b"), seenAs("2", fine)}, {refTo("ConfigMap", "web", "a"), seenAs("3", fine)}, {refTo("ConfigMap", "db", "zz"), seenAs("4", fine)}},
		"one is progressing and one has failed": {{refTo("Deployment", "web", "a"), seenAs("2", progressing)}, {refTo("Deployment", "web", "b"), seenAs("1", broken)}, {refTo("ConfigMap", "web", "c"), seenAs("3", fine)}},
		"one is missing":                        {{refTo("ConfigMap", "web", "a"), observation{}}, {refTo("ConfigMap", "web", "b"), seenAs("1", fine)}},
		"one belongs to another owner":          {{refTo("ConfigMap", "web", "a"), observation{Exists: true, UID: "1", Summary: progressing}}},
		"one is missing and one is progressing": {{refTo("ConfigMap", "web", "a"), observation{}}, {refTo("Deployment", "web", "b"), seenAs("1", progressing)}},
		"ten are missing":                       many(observation{}, 10),
		"eleven are missing":                    many(observation{}, 11),
		"eleven are progressing":                many(seenAs("", progressing), 11),
	}
	for name, objects := range tests {
		t.Run(name, func(t *testing.T) {
			var status fleet.BundleDeploymentStatus
			Monitored(&status, deploytest.Noon(), newReport(objects), 3)
			text, err := yaml.Marshal(status)
			if err != nil {
				t.Fatal(err)
			}
			deploytest.ExpectGolden(t, string(text))
		})
	}
}

func TestCompleteList_ClearsIncompleteState(t *testing.T) {
	var status fleet.BundleDeploymentStatus
	var objects []observedObject
	for i := range 11 {
		objects = append(objects, observedObject{refTo("ConfigMap", "web", fmt.Sprint(i)), observation{}})
	}
	Monitored(&status, deploytest.Noon(), newReport(objects), 0)
	before := &fleet.BundleDeployment{Status: *status.DeepCopy()}
	Monitored(&status, deploytest.Noon(), newReport(objects[:1]), 0)
	patch, err := hub.StatusPatch(before, &status)
	if err != nil || !strings.Contains(string(patch), `"incompleteState":null`) {
		t.Errorf("%s %v", patch, err)
	}
}

func TestRefusedLabels_ReleaseIsNotReady(t *testing.T) {
	var status fleet.BundleDeploymentStatus
	outcome.LabelsRefused(&status, deploytest.Noon(), "s-1:a", "web/hello:1", conditions.ReasonForbidden, "because")
	Monitored(&status, deploytest.Noon(), newReport(nil), 0)
	if condition := conditions.Get(status.Conditions, conditions.Ready); status.Ready || condition.Message != "because" {
		t.Errorf("ready %t, condition %+v", status.Ready, condition)
	}
	outcome.Deployed(&status, deploytest.Noon(), "s-1:a", "web/hello:1")
	Monitored(&status, deploytest.Noon(), newReport(nil), 0)
	if condition := conditions.Get(status.Conditions, conditions.Ready); !status.Ready || condition.Status != "True" {
		t.Errorf("ready %t, condition %+v", status.Ready, condition)
	}
}

func TestStatusOfEachOutcome(t *testing.T) {
	later := deploytest.Noon().Add(time.Hour)
	tests := map[string]func(*fleet.BundleDeploymentStatus){
		"deployed":       func(s *fleet.BundleDeploymentStatus) { outcome.Deployed(s, later, "s-2:b", "web/hello:2") },
		"deployed again": func(s *fleet.BundleDeploymentStatus) { outcome.Deployed(s, later, "s-1:a", "web/hello:1") },
		"not deployed": func(s *fleet.BundleDeploymentStatus) {
			outcome.NotDeployed(s, later, conditions.ReasonRenderingFailed, "because")
		},
		"failed permanently": func(s *fleet.BundleDeploymentStatus) {
			outcome.FailedDeployment(s, later, "s-2:b", conditions.ReasonManifestInvalid, "because")
		},
		"failed permanently and then deployed": func(s *fleet.BundleDeploymentStatus) {
			outcome.FailedDeployment(s, later, "s-2:b", conditions.ReasonManifestInvalid, "because")
			outcome.Deployed(s, later, "s-2:b", "web/hello:2")
		},
		"labels of the namespace are forbidden": func(s *fleet.BundleDeploymentStatus) {
			outcome.LabelsRefused(s, later, "s-2:b", "web/hello:2", conditions.ReasonForbidden, "because")
		},
		"not monitored": func(s *fleet.BundleDeploymentStatus) { outcome.NotMonitored(s, later, later, "because") },
	}
	for name, outcome := range tests {
		t.Run(name, func(t *testing.T) {
			status := deploytest.Deployment().Status
			Monitored(&status, deploytest.Noon(), newReport([]observedObject{{refTo("ConfigMap", "web", "a"), seenAs("1", fleet.ResourceSummary{State: "active"})}}), 0)
			outcome(&status)
			text, err := yaml.Marshal(status)
			if err != nil {
				t.Fatal(err)
			}
			deploytest.ExpectGolden(t, string(text))
		})
	}
}
