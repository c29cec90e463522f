package recovery_test

import (
	"crypto/rand"
	"testing"

	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/rules/recovery"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestKeyToPin(t *testing.T) {
	created, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key := created.Public()
	for name, test := range map[string]struct {
		reported    string
		annotations map[string]string
		want        string
	}{
		"reported: is pinned":                        {key, nil, key},
		"nothing reported":                           {"", nil, ""},
		"another is pinned: stays":                   {key, map[string]string{fleet.AnnotationAgentKey: "another"}, ""},
		"the key was blocked":                        {key, map[string]string{fleet.AnnotationBlockedKey: "another"}, ""},
		"its agent was replaced by one without key":  {key, map[string]string{fleet.AnnotationReplacedKey: key}, ""},
		"the key of another agent was replaced":      {key, map[string]string{fleet.AnnotationReplacedKey: "another"}, key},
		"not a key: is not pinned, whatever it says": {"x", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := rulestest.ACluster()
			cluster.Annotations, cluster.Status.Agent.RecoveryKey = test.annotations, test.reported
			if got := recovery.KeyToPin(cluster); got != test.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
