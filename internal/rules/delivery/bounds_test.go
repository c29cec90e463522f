package delivery

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/targeting/targetingtest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// allocated returns how many bytes f allocates, whether they are freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// large returns a JSON object of about half a megabyte.
func large() []byte {
	return []byte(`{"a":["` + strings.Repeat(`x","`, 125_000) + `"]}`)
}

// Any number of targets may have the same name, and with it the same values.
func TestValuesOfTargetsOfTheSameName_AreDecodedOnce(t *testing.T) {
	data := map[string][]byte{"same": large()}
	b := targetingtest.Bundle(func(b *fleet.Bundle) {
		b.Spec.ValuesHash = BundleValuesHash(data)
		for range 100 {
			b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{Name: "same"})
		}
	})
	var got *fleet.Bundle
	cost := allocated(func() {
		var err error
		if got, err = InjectValues(b, data); err != nil {
			t.Fatal(err)
		}
	})
	if cost > 50<<20 {
		t.Errorf("%d MiB were allocated", cost>>20)
	}
	for i := range got.Spec.Targets {
		if values := got.Spec.Targets[i].Helm.Values.Data; len(values) != 1 {
			t.Fatalf("target %d has values with %d keys", i, len(values))
		}
	}
}

// A BundleDeployment is computed for each cluster. It needs little of its Bundle.
func TestDecide_DoesNotCopyTheBundle(t *testing.T) {
	in := Input{Bundle: targetingtest.Bundle(func(b *fleet.Bundle) {
		b.Spec.DependsOn = []fleet.BundleRef{{Name: "db"}}
		for i := range 20_000 {
			b.Spec.Targets = append(b.Spec.Targets, fleet.BundleTarget{Name: fmt.Sprint(i)})
		}
	}), Target: newTarget(t), Action: rollout.Promote}
	var got Outcome
	cost := allocated(func() {
		var err error
		if got, err = Decide(in); err != nil {
			t.Fatal(err)
		}
	})
	if cost > 1<<20 {
		t.Errorf("%d KiB were allocated", cost>>10)
	}
	if depends := got.Deployment.Spec.DependsOn; len(depends) != 1 || &depends[0] == &in.Bundle.Spec.DependsOn[0] {
		t.Errorf("dependencies %v are not a copy", depends)
	}
}
