package hub

import (
	"maps"
	"unique"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// maxSets is the number of sets of children whose labels and annotations are shared, three times the clusters that we
// test with.
const maxSets = 1 << 15

// repeated are the labels and annotations whose values many objects have.
var repeated = map[string]bool{
	fleet.AnnotationSetID: true, fleet.AnnotationSetOwnerGVK: true, fleet.AnnotationSetOwnerNamespace: true,
	fleet.LabelManaged: true, fleet.LabelBundleNamespace: true, fleet.LabelClusterNamespace: true,
	fleet.LabelRegistrationToken: true, fleet.AnnotationCreatedWithToken: true, fleet.LabelTokenUID: true,
	fleet.AnnotationTokenUIDAtGrant: true, fleet.AnnotationHubAddressAtGrant: true, fleet.AnnotationLifetimeAtGrant: true,
	fleet.AnnotationAgentKey: true, fleet.AnnotationAgentKeyAtGrant: true, // two objects of a cluster have it
}

// share replaces texts by equal ones that are in memory already, if they were used since the last garbage collection.
func share[T ~string](texts ...*T) {
	for _, text := range texts {
		*text = T(unique.Make(string(*text)).Value())
	}
}

// shareAll shares the elements of lists.
func shareAll(lists ...[]string) {
	for _, texts := range lists {
		for i := range texts {
			share(&texts[i])
		}
	}
}

// metadata are the labels and annotations of the children of one set, which mostly have the same ones.
type metadata struct{ labels, annotations map[string]string }

// shareMetadata shares what many objects have in common: keys, frequent values, the namespace, and all labels and
// annotations with other children of the same set. A map takes 336 bytes, and a cluster has six children.
func (s stripper) shareMetadata(item metav1.Object) {
	namespace := item.GetNamespace()
	share(&namespace)
	item.SetNamespace(namespace)
	shareAll(item.GetFinalizers())
	now := metadata{withSharedKeys(item.GetLabels()), withSharedKeys(item.GetAnnotations())}
	if hash := now.labels[fleet.LabelSetHash]; hash != "" {
		found, _ := s.sets.Get(hash)
		before, _ := found.(metadata)
		now = metadata{sharedMap(before.labels, now.labels), sharedMap(before.annotations, now.annotations)}
		if before.labels == nil {
			s.sets.Add(hash, now)
		}
	}
	item.SetLabels(now.labels)
	item.SetAnnotations(now.annotations)
}

// sharedMap returns the earlier map if both are equal.
func sharedMap(before, now map[string]string) map[string]string {
	if before != nil && maps.Equal(before, now) {
		return before
	}
	return now
}

// withSharedKeys returns a map with shared keys and shared frequent values, or nil if it would be empty.
func withSharedKeys(from map[string]string) map[string]string {
	if len(from) == 0 {
		return nil
	}
	to := make(map[string]string, len(from))
	for key, value := range from {
		if repeated[key] {
			share(&value)
		}
		share(&key)
		to[key] = value
	}
	return to
}

// shareConditions shares the texts of conditions, and returns them without room for more.
func shareConditions(conditions []genericcondition.GenericCondition) []genericcondition.GenericCondition {
	for i := range conditions {
		c := &conditions[i]
		share((*string)(&c.Status), &c.Type, &c.Reason, &c.Message, &c.LastUpdateTime, &c.LastTransitionTime)
	}
	return tight(conditions)
}

// tight returns a slice without room for more elements. Decoders leave up to half of one empty.
func tight[S ~[]E, E any](from S) S {
	if len(from) == cap(from) {
		return from
	}
	to := make(S, len(from))
	copy(to, from)
	return to
}

// shareRules shares what the Roles of all agents have in common.
func shareRules(rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		shareAll(rule.Verbs, rule.APIGroups, rule.Resources)
	}
}

// shareSubjects shares what the RoleBindings of all agents have in common.
func shareSubjects(binding *rbacv1.RoleBinding) {
	share(&binding.RoleRef.APIGroup, &binding.RoleRef.Kind)
	for i := range binding.Subjects {
		share(&binding.Subjects[i].Kind, &binding.Subjects[i].APIGroup, &binding.Subjects[i].Namespace)
	}
}
