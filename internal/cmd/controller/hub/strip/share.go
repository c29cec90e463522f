package strip

import (
	"maps"
	"slices"
	"unique"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

const (
	// maxShared is the number of maps that are shared: two for each set of children, for more clusters than we test with.
	maxShared = 1 << 15
	// maxEntries and maxBytes limit each of them. They are kept after the objects are deleted, and tenants can name any set.
	maxEntries, maxBytes = 8, 512
)

// isRepeated reports whether several objects have the same value of a label or annotation. The agent's key, for example, is
// on two objects per cluster.
func isRepeated(key string) bool {
	switch key {
	case fleet.AnnotationSetID, fleet.AnnotationSetOwnerGVK, fleet.AnnotationSetOwnerNamespace,
		fleet.LabelManaged, fleet.LabelBundleNamespace, fleet.LabelClusterNamespace,
		fleet.LabelRegistrationToken, annotation.CreatedWithToken, fleet.LabelTokenUID,
		annotation.TokenUIDAtGrant, annotation.HubAddressAtGrant, annotation.LifetimeAtGrant,
		annotation.AgentKey, annotation.AgentKeyAtGrant:
		return true
	}
	return false
}

// share replaces texts by equal ones that are in memory already, if they were used since the last garbage collection.
func share[T ~string](texts ...*T) {
	for _, text := range texts {
		*text = T(unique.Make(string(*text)).Value())
	}
}

func shareAll(lists ...[]string) {
	for _, texts := range lists {
		for i := range texts {
			share(&texts[i])
		}
	}
}

// shareMetadata shares what many objects have in common: keys, frequent values, the namespace, and all labels and all
// annotations with other children of the same set. A map takes 336 bytes, and a cluster has six children.
func (s stripper) shareMetadata(item metav1.Object) {
	namespace := item.GetNamespace()
	share(&namespace)
	item.SetNamespace(namespace)
	shareAll(item.GetFinalizers())
	_, isBundle := item.(*fleet.Bundle) // the annotation identifies agents deployed by Rancher Fleet
	labels, annotations := withSharedKeys(item.GetLabels(), false), withSharedKeys(item.GetAnnotations(), isBundle)
	switch item.(type) {
	case *corev1.ServiceAccount, *rbacv1.Role, *rbacv1.RoleBinding, *fleet.Bundle:
		set := labels[fleet.LabelSetHash]
		labels, annotations = s.sharedMap(set, labelsOf, labels), s.sharedMap(set, annotationsOf, annotations)
	}
	item.SetLabels(labels)
	item.SetAnnotations(annotations)
}

// A mapOfSet identifies the maps of a set that are probably equal.
type mapOfSet struct {
	hash    string
	what    kindOfMap
	entries int
}

// kindOfMap tells labels from annotations.
type kindOfMap bool

const labelsOf, annotationsOf kindOfMap = true, false

// sharedMap returns an equal map of another child of the set, or the map itself.
func (s stripper) sharedMap(set string, what kindOfMap, now map[string]string) map[string]string {
	if set == "" || len(now) == 0 || len(now) > maxEntries || bytesOf(now) > maxBytes {
		return now
	}
	key := mapOfSet{set, what, len(now)}
	if found, is := s.maps.Get(key); is {
		if before, _ := found.(map[string]string); maps.Equal(before, now) {
			return before
		}
	}
	s.maps.Add(key, now)
	return now
}

func bytesOf(texts map[string]string) (bytes int) {
	for key, value := range texts {
		bytes += len(key) + len(value)
	}
	return bytes
}

// withSharedKeys returns a map with shared keys and shared frequent values, or nil if it would be empty. It drops the value
// of the annotation in which Rancher Fleet stores what it applied last, and without noted the annotation.
func withSharedKeys(from map[string]string, noted bool) map[string]string {
	to := make(map[string]string, len(from))
	for key, value := range from {
		if key == fleet.AnnotationSetApplied {
			if noted {
				to[fleet.AnnotationSetApplied] = ""
			}
			continue
		}
		if isRepeated(key) {
			share(&value)
		}
		share(&key)
		to[key] = value
	}
	if len(to) == 0 {
		return nil
	}
	return to
}

// shareConditions shares the texts of conditions, and returns them without room for more.
func shareConditions(conditions []genericcondition.GenericCondition) []genericcondition.GenericCondition {
	for i := range conditions {
		c := &conditions[i]
		share((*string)(&c.Status), &c.Type, &c.Reason, &c.Message, &c.LastUpdateTime, &c.LastTransitionTime)
	}
	return slices.Clone(conditions) // decoders leave up to half of a list empty
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
