package rules_test

import (
	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func (w *world) grant(at place) bool {
	request := find[fleet.ClusterRegistration](w, onHub, at.namespace, at.name)
	if request == nil {
		return w.do("grant", "Gone", func() { w.revoke(at) })
	}
	in := w.grantInput(request)
	out := ask(w, grant.Decide, in)
	if out.Stage == grant.Leaving {
		return w.do("grant", string(out.Stage), func() { w.revoke(at) })
	}
	if out.Stage == grant.Abandoned || out.Stage == grant.Unproven {
		return w.do("grant", string(out.Stage), func() { w.deleteAt(at) })
	}
	if out.Stage == grant.TakeoverPending {
		return w.do("grant", string(out.Stage), func() { w.revoke(at) }, func() { w.report(request, out) })
	}
	if out.Mint != nil && out.Key != "" && find[corev1.ServiceAccount](w, onHub, at.namespace, names.Recovery) == nil {
		return false // no answer without what the agent needs to return
	}
	writes := []func(){func() {
		if out.CreateCluster != nil {
			w.put(onHub, out.CreateCluster)
		}
		if out.Own != nil {
			request.OwnerReferences = []metav1.OwnerReference{out.Own.Owner}
			metav1.SetMetaDataAnnotation(&request.ObjectMeta, annotation.LastSeenAtGrant, out.Own.LastSeen)
			for key, value := range map[string]string{annotation.TokenUIDAtGrant: out.Own.TokenUID, annotation.AgentKeyAtGrant: out.Own.Key} {
				delete(request.Annotations, key)
				if value != "" {
					request.Annotations[key] = value
				}
			}
			w.put(onHub, request)
		}
	}, func() {
		if out.Reason == conditions.ReasonAccountReplaced && in.Account == nil {
			w.report(request, out) // before the account is created again
		}
	}, func() {
		if len(out.Children) > 0 {
			w.apply(at, out.Children)
		}
		for _, o := range out.CredentialAccess {
			w.put(onHub, o.(object))
		}
	}, func() { w.recordRecovery(in, out) }, func() {
		if out.Mint != nil {
			out.Credential.Token = w.mint(out.Mint)
			secret := grant.CredentialSecret(request, in.Namespaces.Registration, out.Credential)
			w.addRecovery(secret, in, out)
			w.put(onHub, secret)
		}
	}, func() {
		for _, name := range out.Superseded {
			w.remove(place{onHub, "ClusterRegistration", at.namespace, name})
		}
	}, func() { w.report(request, out) }}
	return w.do("grant", string(out.Stage), writes...)
}

// report writes the status, unless the request is only waiting.
func (w *world) report(request *fleet.ClusterRegistration, out grant.Outcome) {
	condition := genericcondition.GenericCondition{Type: conditions.Granted, Status: corev1.ConditionTrue}
	switch {
	case out.Reason != "":
		condition.Status, condition.Reason = corev1.ConditionFalse, out.Reason
	case out.Stage != grant.Done && out.Stage != grant.Minting:
		return
	}
	if out.ClusterName != "" {
		request.Status.ClusterName = out.ClusterName
	}
	request.Status.Granted = out.Granted
	conditions.Set(&request.Status.Conditions, w.now, condition)
	w.put(onHub, request)
}

func (w *world) grantInput(request *fleet.ClusterRegistration) grant.Input {
	workspace := request.Namespace
	in := grant.Input{
		Now: w.now, Request: request, Namespaces: rulestest.HubNamespaces(),
		Derived:    find[fleet.Cluster](w, onHub, workspace, names.Cluster(request.Spec.ClientID)),
		Named:      find[fleet.Cluster](w, onHub, workspace, request.Status.ClusterName),
		NamedToken: find[fleet.ClusterRegistrationToken](w, onHub, workspace, request.Labels[fleet.LabelRegistrationToken]),
		Credential: find[corev1.Secret](w, onHub, rulestest.HubNamespaces().Registration,
			names.CredentialSecret(request.Spec.ClientID, request.Spec.ClientRandom)),
	}
	w.gatherRecovery(&in)
	if name := grant.ImporterOf(request, in.NamedToken); name != "" {
		in.Importer = find[fleet.Cluster](w, onHub, workspace, name)
	}
	for _, cluster := range list[fleet.Cluster](w, onHub) {
		if cluster.Namespace == workspace && cluster.Spec.ClientID == request.Spec.ClientID {
			in.Clusters = append(in.Clusters, cluster)
		}
	}
	for _, other := range list[fleet.ClusterRegistration](w, onHub) {
		if other.Namespace == workspace && (other.Spec.ClientID == request.Spec.ClientID || other.Status.ClusterName != "" && other.Status.ClusterName == request.Status.ClusterName) {
			in.Others = append(in.Others, other)
		}
		if other.Spec.ClientID+other.Spec.ClientRandom == request.Spec.ClientID+request.Spec.ClientRandom {
			in.SameAnswer = append(in.SameAnswer, other)
		}
	}
	cluster := grant.ClusterOf(in)
	if cluster == nil {
		return in
	}
	account := grant.RequestAccount(request, cluster)
	in.HeartbeatAccount = w.speakers[cluster.Name]
	in.Account = find[corev1.ServiceAccount](w, onHub, account.Namespace, account.Name)
	in.Imported = find[fleet.ClusterRegistrationToken](w, onHub, workspace, names.ImportToken(cluster.Name))
	w.gatherRecovery(&in) // who may read the answer may depend on the Cluster
	in.RightsExist = find[rbacv1.Role](w, onHub, workspace, request.Name) != nil &&
		find[rbacv1.RoleBinding](w, onHub, workspace, request.Name) != nil &&
		find[rbacv1.RoleBinding](w, onHub, cluster.Status.Namespace, request.Name) != nil &&
		w.readsContents(account)
	in.AccessExists = find[rbacv1.Role](w, onHub, rulestest.HubNamespaces().Registration, grant.CredentialAccessName(request.Name)) != nil &&
		find[rbacv1.RoleBinding](w, onHub, rulestest.HubNamespaces().Registration, grant.CredentialAccessName(request.Name)) != nil
	return in
}

// revoke deletes everything that belongs to a request: its set, its credential and the rights to read it.
func (w *world) revoke(request place) {
	w.apply(request, nil)
	for _, at := range w.places() {
		if w.objects[at].GetAnnotations()[fleet.AnnotationClusterRegistration] == request.name && at.namespace == rulestest.HubNamespaces().Registration {
			w.remove(at)
		}
	}
}
