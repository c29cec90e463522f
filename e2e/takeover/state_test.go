package takeover_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// here gives UIDs in names those of the recording.
func (h *hub) here(lines []string) []string {
	var back []string
	for i := 0; i+1 < len(h.old.given); i += 2 {
		back = append(back, h.old.given[i+1], h.old.given[i])
	}
	replacer := strings.NewReplacer(back...)
	var found []string
	for _, line := range lines {
		found = append(found, replacer.Replace(line))
	}
	return found
}

// settles waits until the controllers lead for this many times and have written nothing for a while.
func (h *hub) settles(t *testing.T, times int) {
	t.Helper()
	var last, quiet int
	NewWithT(t).Eventually(func(g Gomega) {
		lease, err := h.Hub.Kube.CoordinationV1().Leases(names.SystemNamespace).Get(t.Context(), names.ControllerLease, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(lease.Spec.HolderIdentity).NotTo(BeNil())
		g.Expect(*lease.Spec.HolderIdentity).NotTo(BeEmpty())
		g.Expect(lease.Spec.LeaseTransitions).To(HaveValue(BeNumerically(">=", times-1)))
		now := len(h.writes(t, 0))
		if now != last {
			last, quiet = now, 0
		}
		quiet++
		g.Expect(quiet).To(BeNumerically(">", 12), "three seconds without a write")
	}).WithContext(t.Context()).WithTimeout(2 * framework.Patience).WithPolling(250 * time.Millisecond).Should(Succeed())
}

// objects are the recorded objects as they are now, without what is decided to be ours.
func (h *hub) objects(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, k := range kinds() {
		list, err := h.old.client.Resource(k.resource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			if !h.old.recorded[string(object.GetUID())] || object.GetAnnotations()[framework.ReleaseAnnotation] != "" {
				continue // made since, or the chart's, which was upgraded
			}
			text, err := json.MarshalIndent(withoutOurs(object).Object, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			all[fmt.Sprintf("%s %s/%s %s", k.name, object.GetNamespace(), object.GetName(), object.GetUID())] = string(text)
		}
	}
	return all
}

// withoutOurs leaves out what an API server notes, and what our controllers say where the others said nothing.
func withoutOurs(object *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	for _, own := range []string{"resourceVersion", "managedFields", "generation"} {
		unstructured.RemoveNestedField(object.Object, "metadata", own)
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "fleet.cattle.io/label-keys")
	unstructured.RemoveNestedField(object.Object, "metadata", "labels", "kubernetes.io/legacy-token-last-used") // the day it was tried
	if object.GetKind() == "Namespace" && object.GetName() == names.SystemNamespace {
		object.SetLabels(nil)
		object.SetAnnotations(nil)
	}
	conditions, found, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	if !found || !slices.Contains([]string{"Cluster", "ClusterRegistration", "ClusterRegistrationToken"}, object.GetKind()) {
		return object
	}
	theirs := slices.DeleteFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		delete(condition, "lastUpdateTime")
		return !slices.Contains([]any{"Processed", "Imported", "Reconciled", "Ready"}, condition["type"]) || object.GetKind() != "Cluster"
	})
	if len(theirs) == 0 {
		unstructured.RemoveNestedField(object.Object, "status", "conditions")
		return object
	}
	_ = unstructured.SetNestedSlice(object.Object, theirs, "status", "conditions") // of what was just read
	return object
}
