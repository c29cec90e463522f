package rules_test

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// readers maintains the ClusterRoleBindings with which agents read Contents. Each is shared by several accounts.
func (w *world) readers() bool {
	shared := map[string][]types.NamespacedName{}
	for _, binding := range list[rbacv1.ClusterRoleBinding](w, onHub) {
		if contentreaders.IsBinding(binding.Name) {
			shared[binding.Name] = nil // including those without accounts
		}
	}
	for _, account := range list[corev1.ServiceAccount](w, onHub) {
		if w.mayReadContents(account) {
			key := types.NamespacedName{Namespace: account.Namespace, Name: account.Name}
			name := contentreaders.Binding(key)
			shared[name] = append(shared[name], key)
		}
	}
	var writes []func()
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		writes = append(writes, func() {
			if accounts := shared[name]; len(accounts) > 0 {
				w.put(onHub, contentreaders.Desired(name, accounts))
				return
			}
			w.remove(place{onHub, "ClusterRoleBinding", "", name})
		})
	}
	return w.do("readers", "Shared", writes...)
}

func (w *world) mayReadContents(account *corev1.ServiceAccount) bool {
	of, says := contentreaders.RequestOf(account)
	return says && contentreaders.MayRead(account,
		find[fleet.ClusterRegistration](w, onHub, of.Namespace, of.Name),
		find[fleet.Cluster](w, onHub, of.Namespace, account.Annotations[fleet.AnnotationCluster]))
}

// readsContents reports whether an account is in its shared binding.
func (w *world) readsContents(account types.NamespacedName) bool {
	return contentreaders.Reads(find[rbacv1.ClusterRoleBinding](w, onHub, "", contentreaders.Binding(account)), account)
}
