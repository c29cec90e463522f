package charts_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestRecoveryPolicy_IsForTheRecoveryAccountOnly checks whom the policy concerns, and that it requires what the
// controllers verify.
func TestRecoveryPolicy_IsForTheRecoveryAccountOnly(t *testing.T) {
	objects := objectsOf(t, map[string]string{"p.yaml": mustRender(t, controllers(""))["recovery.yaml"]})
	if len(objects) != 2 {
		t.Fatalf("%d objects, want the policy and its binding", len(objects))
	}
	conditions, _, err := unstructured.NestedSlice(objects[0].Object, "spec", "matchConditions")
	if err != nil || len(conditions) != 1 {
		t.Fatalf("conditions %v, %v", conditions, err)
	}
	condition, _ := conditions[0].(map[string]any)
	if text, _ := condition["expression"].(string); !strings.HasSuffix(text, `request.namespace + ':fleet-recovery'`) {
		t.Errorf("the policy concerns %q", text)
	}
	validations, _, err := unstructured.NestedSlice(objects[0].Object, "spec", "validations")
	if err != nil || len(validations) != 1 {
		t.Fatalf("validations %v, %v", validations, err)
	}
	validation, _ := validations[0].(map[string]any)
	for _, annotation := range []string{"'agent-key'", "'agent-proof'", "'agent-ticket'"} {
		if text, _ := validation["expression"].(string); !strings.Contains(text, annotation) {
			t.Errorf("the policy does not require %s", annotation)
		}
	}
}
