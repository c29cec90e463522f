package outcomes

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/selection"
)

func TestLedger(t *testing.T) {
	web := types.NamespacedName{Namespace: "ws", Name: "web"}
	one := selection.Outcome{Generation: 1, Targets: []selection.Target{{Cluster: types.NamespacedName{Namespace: "ws", Name: "one"}}}}
	two := selection.Outcome{Generation: 2}
	l := New()
	l.Set(web, two) // there is no listener yet
	l.Forget(web)
	var told []types.NamespacedName
	l.OnChange(func(key types.NamespacedName) { told = append(told, key) })

	if _, known := l.Get(web); known {
		t.Error("an outcome is known of a Bundle nobody looked at")
	}
	steps := []struct {
		name string
		set  selection.Outcome
		told bool
	}{
		{"the first outcome", one, true},
		{"the same again", selection.Outcome{Generation: 1, Targets: []selection.Target{{Cluster: types.NamespacedName{Namespace: "ws", Name: "one"}}}}, false},
		{"another one", two, true},
	}
	for _, step := range steps {
		told = nil
		l.Set(web, step.set)
		if (len(told) == 1) != step.told {
			t.Errorf("%s: told %v", step.name, told)
		}
		got, known := l.Get(web)
		if diff := cmp.Diff(step.set, got); diff != "" || !known {
			t.Errorf("%s: known %v (-want +got):\n%s", step.name, known, diff)
		}
	}
	l.Forget(web)
	if _, known := l.Get(web); known {
		t.Error("a forgotten outcome is known")
	}
	told = nil
	if l.Set(web, two); len(told) != 1 {
		t.Error("an outcome after a forgotten one tells nobody")
	}
}
