package outcome

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fleet-hub/fleet/internal/deploy/deploytest"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestAwaitedBy(t *testing.T) {
	bd := deploytest.Deployment()
	bd.Spec.Options.TargetNamespace = "web"
	refused := Until(CoreObject("namespaces", "", "team-a"), Because(conditions.ReasonNamespaceMissing, errors.New("none")))
	tests := map[string]struct {
		labels map[string]string
		err    error
		want   string
		alone  bool
	}{
		"no error":                {},
		"no error, labels":        {labels: map[string]string{"a": "b"}, want: "namespaces.v1 web"},
		"another error":           {err: errors.New("connection refused")},
		"a namespace":             {err: fmt.Errorf("x: %w", refused), want: "namespaces.v1 team-a", alone: true},
		"a terminating namespace": {err: Because(conditions.ReasonNamespaceTerminating, errors.New("x")), want: "namespaces.v1 web"},
		"nil error, marked":       {err: Until(CoreObject("secrets", "a", "b"), nil)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bd := bd.DeepCopy()
			bd.Spec.Options.NamespaceLabels = test.labels
			object, alone := AwaitedBy(bd, test.err)
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
