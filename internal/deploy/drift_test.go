package deploy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/rules/drift"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestContentHash_IgnoresStatus(t *testing.T) {
	const base = "apiVersion: v1\nkind: A\nmetadata: {name: a, resourceVersion: '1', generation: 1, labels: {a: b}}\nspec: {a: 1}\nstatus: {b: 1}\n"
	tests := map[string]struct {
		text string
		same bool
	}{
		"the same":     {base, true},
		"the status":   {"apiVersion: v1\nkind: A\nmetadata: {name: a, resourceVersion: '2', generation: 2, managedFields: [], labels: {a: b}}\nspec: {a: 1}\nstatus: {b: 2}\n", true},
		"a label":      {"apiVersion: v1\nkind: A\nmetadata: {name: a, labels: {a: c}}\nspec: {a: 1}\n", false},
		"the spec":     {"apiVersion: v1\nkind: A\nmetadata: {name: a, labels: {a: b}}\nspec: {a: 2}\n", false},
		"another name": {"apiVersion: v1\nkind: A\nmetadata: {name: b, labels: {a: b}}\nspec: {a: 1}\n", false},
	}
	first := objectOf(t, base)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := objectOf(t, test.text)
			before := object.DeepCopy()
			if got := contentOf(object) == contentOf(first); got != test.same {
				t.Errorf("the same: %v", got)
			}
			if diff := cmp.Diff(before, object); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
		})
	}
}

func TestSurplus(t *testing.T) {
	ref := func(group, version, kind, name string) objectRef {
		return objectRef{schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, "ns", name}
	}
	elsewhere := ref("", "v1", "ConfigMap", "a")
	elsewhere.Namespace = "other"
	former := []objectRef{
		ref("", "v1", "ConfigMap", "a"), ref("", "v1", "ConfigMap", "b"), ref("autoscaling", "v1", "HorizontalPodAutoscaler", "h"),
		ref("", "v1", "Secret", "a"), elsewhere,
	}
	now := []objectRef{ref("", "v1", "ConfigMap", "a"), ref("autoscaling", "v2", "HorizontalPodAutoscaler", "h"), ref("", "v1", "ConfigMap", "c")}
	want := []objectRef{ref("", "v1", "ConfigMap", "b"), ref("", "v1", "Secret", "a"), elsewhere}
	if diff := cmp.Diff(want, surplus(former, now)); diff != "" {
		t.Error(diff)
	}
	if got := surplus(nil, now); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

func TestFailedCorrections_IncreasePause(t *testing.T) {
	var c correction
	now := noon
	for i := range correctionsPerMinute {
		if wait := c.wait(now); wait != 0 {
			t.Fatalf("correction %d waits %s", i, wait)
		}
		c.began(now)
		now = now.Add(time.Second)
	}
	if got := c.wait(now); got != 50*time.Second {
		t.Errorf("after ten in ten seconds it waits %s", got)
	}
	now = now.Add(50 * time.Second)
	if got := c.wait(now); got != 0 {
		t.Errorf("a minute after the first it waits %s", got)
	}
	c.began(now)
	if got := c.wait(now); got != time.Second {
		t.Errorf("the next one waits %s", got)
	}
	now = now.Add(time.Hour)
	var pauses []time.Duration
	for range 13 {
		c.failed(now, "because", 0)
		pauses = append(pauses, c.wait(now))
	}
	want := []time.Duration{
		500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second,
		64 * time.Second, 128 * time.Second, 256 * time.Second, 512 * time.Second, lastCorrection, lastCorrection,
	}
	if diff := cmp.Diff(want, pauses); diff != "" {
		t.Errorf("after failures (-want +got):\n%s", diff)
	}
	c.worked()
	if got := c.wait(now); got != 0 || c.failure != "" {
		t.Errorf("after success it waits %s because %q", got, c.failure)
	}
}

func TestRandomValue_SpreadsPauses(t *testing.T) {
	var c correction
	c.failed(noon, "", 0.99)
	if got := c.wait(noon); got <= firstRetry || got > firstRetry*3/2 {
		t.Errorf("waits %s", got)
	}
}

func TestChangedDiffRules_CompareAllObjectsAgain(t *testing.T) {
	ref := refTo("ConfigMap", "ns", "a")
	seen := seenAs("1", fleet.ResourceSummary{})
	seen.Compared, seen.ResourceVersion = true, "7"
	options := &fleet.BundleDeploymentOptions{Diff: &fleet.DiffOptions{ComparePatches: []fleet.ComparePatch{{Kind: "ConfigMap"}}}}
	tr := &tracking{refs: []objectRef{ref}, seen: map[objectRef]observation{ref: seen}, rules: drift.RulesOf(options.Diff)}
	tr.heed(options)
	if diff := cmp.Diff(seen, tr.seen[ref]); diff != "" {
		t.Errorf("the same rules (-before +after):\n%s", diff)
	}
	tr.heed(&fleet.BundleDeploymentOptions{})
	if got := tr.seen[ref]; got.Compared || got.ResourceVersion != "" {
		t.Errorf("other rules: %+v", got)
	}
	if tr.rules != nil {
		t.Errorf("rules %v", tr.rules)
	}
}
