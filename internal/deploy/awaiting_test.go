package deploy

import (
	"errors"
	"fmt"
	"testing"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestAwaitedBy(t *testing.T) {
	bd := deployment()
	bd.Spec.Options.TargetNamespace = "web"
	refused := until(core("namespaces", "", "team-a"), because(fleet.ReasonNamespaceMissing, errors.New("none")))
	tests := map[string]struct {
		err   error
		want  string
		alone bool
	}{
		"no error":                {},
		"another error":           {err: errors.New("connection refused")},
		"a namespace":             {err: fmt.Errorf("x: %w", refused), want: "namespaces.v1 team-a", alone: true},
		"a terminating namespace": {err: because(fleet.ReasonNamespaceTerminating, errors.New("x")), want: "namespaces.v1 web"},
		"nil error, marked":       {err: until(core("secrets", "a", "b"), nil)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object, alone := awaitedBy(bd, test.err)
			got := ""
			if object != nil {
				got = object.String()
			}
			if got != test.want || alone != test.alone {
				t.Errorf("got %q, alone %t", got, alone)
			}
		})
	}
}
