package agentchart_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fleet-hub/fleet/internal/agentchart"
)

func TestObjects_AreAllThatAnAgentMayHave(t *testing.T) {
	var got []string
	for _, object := range agentchart.Objects("cattle-fleet-system") {
		m, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1.")+" "+m.GetNamespace()+"/"+m.GetName())
	}
	want := []string{
		"ClusterRole /cattle-fleet-system-fleet-agent-role",
		"ClusterRoleBinding /cattle-fleet-system-fleet-agent-role-binding",
		"Secret cattle-fleet-system/fleet-agent",
		"Secret cattle-fleet-system/fleet-agent-bootstrap",
		"Secret cattle-fleet-system/fleet-agent-recovery-cattle-fleet-system",
		"Secret kube-system/fleet-agent-recovery-cattle-fleet-system",
		"ConfigMap cattle-fleet-system/fleet-agent",
		"ServiceAccount cattle-fleet-system/fleet-agent",
		"NetworkPolicy cattle-fleet-system/default-allow-all",
		"Deployment cattle-fleet-system/fleet-agent",
		"StatefulSet cattle-fleet-system/fleet-agent",
		"PodDisruptionBudget cattle-fleet-system/fleet-agent-pod-disruption-budget",
		"Secret cattle-fleet-system/fleet-agent-release-key",
		"Lease cattle-fleet-system/fleet-agent",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
