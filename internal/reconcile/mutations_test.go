package reconcile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func accountAt(version string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", ResourceVersion: version}}
}

func TestMutationCache_ReturnsTheNewest(t *testing.T) {
	tests := map[string]struct {
		written []string
		over    string // what the cache had when it was written; empty: nothing
		cached  string // empty: it is not there
		want    string
	}{
		"nothing was written, nothing is cached":             {},
		"nothing was written":                                {cached: "5", want: "5"},
		"created, not cached yet":                            {written: []string{"10"}, want: "10"},
		"changed, the cache has the old version":             {written: []string{"10"}, cached: "8", want: "10"},
		"changed twice, the cache has the old version":       {written: []string{"10", "11"}, cached: "8", want: "11"},
		"two responses in the wrong order":                   {written: []string{"11", "10"}, cached: "8", want: "11"},
		"changed, the cache has the same version":            {written: []string{"10"}, cached: "10", want: "10"},
		"changed by another client afterwards":               {written: []string{"10"}, cached: "11", want: "11"},
		"changed, then deleted":                              {written: []string{"10"}, over: "8"},
		"recreated while the former object was cached":       {written: []string{"10"}, over: "other", want: "10"},
		"versions cannot be compared: the cache is believed": {written: []string{"x"}, cached: "8", want: "8"},
		"versions are numbers, not text":                     {written: []string{"100"}, cached: "99", want: "100"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var c MutationCache[string, *corev1.ServiceAccount]
			var over, cached *corev1.ServiceAccount
			if test.over != "" {
				over = accountAt(test.over)
			}
			if test.over == "other" {
				over.UID = "other"
			}
			if test.cached != "" {
				cached = accountAt(test.cached)
			}
			for _, version := range test.written {
				c.Note("a", accountAt(version), over, time.Unix(0, 0))
			}
			got := ""
			if found := c.Newest("a", cached, time.Unix(0, 0).Add(mutationLife)); found != nil {
				got = found.ResourceVersion
			}
			if got != test.want {
				t.Errorf("version %q, want %q", got, test.want)
			}
			if found := c.Newest("b", cached, time.Unix(0, 0)); found != cached {
				t.Errorf("another object: %v", found)
			}
		})
	}
}

// After a restore from an older state, the cache stays older than the writes before the restore.
func TestMutationCache_RestoredServerWins(t *testing.T) {
	var c MutationCache[string, *corev1.ServiceAccount]
	began := time.Unix(1000, 0)
	later := began.Add(mutationLife + time.Second)
	c.Note("a", accountAt("90"), nil, began)
	if got := c.Newest("a", accountAt("10"), later); got.ResourceVersion != "10" {
		t.Errorf("version %s, want the one on the server", got.ResourceVersion)
	}
	c.Note("a", accountAt("11"), nil, later)
	if got := c.Newest("a", accountAt("10"), later); got.ResourceVersion != "11" {
		t.Errorf("version %s, want the one written after the restore", got.ResourceVersion)
	}
}

func TestMutationCache_ForgetsOldWrites(t *testing.T) {
	c := MutationCache[string, *corev1.ServiceAccount]{Life: time.Minute}
	began := time.Unix(1000, 0)
	c.Note("a", accountAt("1"), nil, began)
	c.Note("b", accountAt("1"), nil, began.Add(time.Minute))
	if n := len(c.All()); n != 2 {
		t.Errorf("%d are remembered, want both", n)
	}
	c.Note("c", accountAt("1"), nil, began.Add(time.Minute+time.Second))
	if _, there := c.All()["a"]; there || len(c.All()) != 2 {
		t.Errorf("remembered: %v", c.All())
	}
}

func TestMutationCache_Forget(t *testing.T) {
	var c MutationCache[string, *corev1.ServiceAccount]
	another := accountAt("12")
	another.UID = types.UID("another")
	c.Note("a", accountAt("10"), nil, time.Unix(0, 0))
	c.CaughtUp("a", accountAt("9"))
	if c.Forget("a", another); len(c.All()) != 1 {
		t.Error("forgotten because of another object, or of an older one")
	}
	if c.CaughtUp("a", accountAt("10")); len(c.All()) != 0 {
		t.Error("the cache has it, and it is remembered")
	}
	c.Note("a", accountAt("10"), nil, time.Unix(0, 0))
	if c.Forget("a", accountAt("9")); len(c.All()) != 0 {
		t.Error("a deleted object is remembered")
	}
	c.Forget("a", accountAt("9"))
	c.CaughtUp("a", accountAt("9"))
}

func TestMutationCache_DropsManagedFields(t *testing.T) {
	var c MutationCache[types.UID, Object]
	written := accountAt("10")
	written.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	c.Note("u", written, nil, time.Unix(0, 0))
	if found := c.Newest("u", accountAt("9"), time.Unix(0, 0)); len(found.GetManagedFields()) > 0 {
		t.Errorf("managed fields: %v", found.GetManagedFields())
	}
}
