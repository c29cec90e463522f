package grant

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/requests"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// ClusterOf returns the Cluster of a request: the Cluster in the request's status, or else the oldest one with its
// client ID, so that the result does not depend on the order of in.Clusters. A Cluster that is being deleted is
// chosen only as the last resort. A granted request keeps its Cluster even if the Cluster's client ID changed.
func ClusterOf(in Input) *fleet.Cluster {
	if in.Named != nil && (in.Request.Status.Granted || in.Named.Spec.ClientID == in.Request.Spec.ClientID) {
		return in.Named
	}
	if named := in.Recovery.Named; named != nil && named.Spec.ClientID == in.Request.Spec.ClientID {
		return named
	}
	found := append([]*fleet.Cluster(nil), in.Clusters...)
	if in.Derived != nil && in.Derived.Spec.ClientID == in.Request.Spec.ClientID {
		found = append(found, in.Derived)
	}
	return clusters.FirstOf(found)
}

// leaving reports whether the request or its Cluster is being deleted, or whether the request's former Cluster is
// gone. No other Cluster is created for such a request, because perhaps no agent waits for its answer.
func leaving(in Input, cluster *fleet.Cluster) bool {
	owners := in.Request.OwnerReferences
	switch {
	case in.Request.DeletionTimestamp != nil || cluster != nil && cluster.DeletionTimestamp != nil:
		return true
	case in.Request.Status.Granted:
		return LostCluster(in)
	default:
		return cluster == nil && ownedByCluster(owners)
	}
}

// LostCluster reports whether a request was granted for a Cluster that is gone, or whose name another one has. The agent
// then loses its rights.
func LostCluster(in Input) bool {
	return in.Request.Status.Granted && (in.Named == nil || clusters.IsAnother(in.Named, in.Request.OwnerReferences))
}

// abandoned reports whether no agent waits for an answer to a request, or whether the Cluster of a granted request is
// gone and garbage collection does not delete the request.
func abandoned(in Input, cluster *fleet.Cluster) bool {
	request := in.Request
	switch {
	case request.DeletionTimestamp != nil:
		return false // it is being deleted
	case request.Status.Granted:
		return in.Named == nil && !ownedByCluster(request.OwnerReferences)
	case saysTakeover(request) && cluster == nil:
		return true // no Cluster is created in place of the one it was about
	case saysTakeover(request), cluster == nil && request.Status.ClusterName != "" && in.Named == nil,
		cluster == nil && ownedByCluster(request.OwnerReferences): // garbage collection does not know every owner
		return !in.Now.Before(request.CreationTimestamp.Add(CredentialLife))
	default:
		return false
	}
}

// saysTakeover reports whether the request's condition has the reason TakeoverPending.
func saysTakeover(request *fleet.ClusterRegistration) bool {
	return requests.HasReason(request, conditions.ReasonTakeoverPending)
}

// ofGoneImport reports whether a request was made with the token of an import whose Cluster is gone. Such a token is
// deleted with its Cluster, so the request came too late. While the Cluster exists, any client may request another
// Cluster with the token, as with any other token.
func ofGoneImport(in Input) bool {
	if ImporterOf(in.Request, in.NamedToken) == "" {
		return false
	}
	return in.Importer == nil || in.NamedToken != nil && clusters.IsAnother(in.Importer, in.NamedToken.OwnerReferences)
}

// ImporterOf returns the name of the Cluster whose import created the request's token. It returns "" if no import
// created it. If the token no longer exists, only its name shows this.
func ImporterOf(request *fleet.ClusterRegistration, asked *fleet.ClusterRegistrationToken) string {
	if asked == nil {
		name, of := strings.CutPrefix(request.Labels[fleet.LabelRegistrationToken], names.ImportToken(""))
		if !of {
			return ""
		}
		return name
	}
	for _, owner := range asked.OwnerReferences {
		if owner.Kind == "Cluster" {
			return owner.Name
		}
	}
	return ""
}

func ownedByCluster(owners []metav1.OwnerReference) bool {
	return slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.Kind == "Cluster" })
}

// newCluster returns the Cluster for a client that is unknown to the hub. Its name is derived from the client ID, so
// two requests of one client cannot create two Clusters.
func newCluster(in Input) *fleet.Cluster {
	name := names.Cluster(in.Request.Spec.ClientID)
	labels := map[string]string{}
	if !in.IgnoreLabels {
		labels, _ = requests.Labels(in.Request.Spec.ClusterLabels)
	}
	labels[fleet.LabelCluster] = name
	if in.NamedToken != nil {
		labels[fleet.LabelTokenUID] = string(in.NamedToken.UID)
	}
	finalizers := []string{fleet.FinalizerCluster} // added to every Cluster anyway; here it saves a request
	return &fleet.Cluster{
		TypeMeta: metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in.Request.Namespace, Name: name, Labels: labels, Finalizers: finalizers,
			Annotations: map[string]string{annotation.CreatedWithToken: CreatedWith(in.NamedToken)},
		},
		Spec: fleet.ClusterSpec{ClientID: in.Request.Spec.ClientID},
	}
}

// ownership returns what to write into the request's metadata, or nil if nothing has to change. The heartbeat is
// recorded again until the credential is written: an earlier value may come from an agent that is still running, or
// from the client that created the request.
func ownership(in Input, cluster *fleet.Cluster) *Ownership {
	request := in.Request
	before, noted := request.Annotations[annotation.LastSeenAtGrant]
	want := before
	if !noted && !request.Status.Granted || !hasUsableAnswer(in, cluster) {
		want = clusters.Heartbeat(cluster)
	}
	own := &Ownership{TokenUID: tokenUID(in), Key: keyOf(in), ReplacesKey: replacesKey(in, cluster), Lifetime: lifetimeText(in), Owner: metav1.OwnerReference{
		APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
	}}
	owners := request.OwnerReferences
	if len(owners) == 1 && owners[0].UID == cluster.UID && want == before && (noted || request.Status.Granted) && own.isRecorded(request) {
		return nil
	}
	if own.LastSeen = want; !noted {
		own.LastSeen = clusters.Heartbeat(cluster)
	}
	if !request.Status.Granted { // the address that older requests were granted with is unknown
		own.HubAddress = in.HubAddress
	}
	return own
}

// isRecorded reports whether a request shows how it was granted.
func (o *Ownership) isRecorded(request *fleet.ClusterRegistration) bool {
	return o.TokenUID == request.Annotations[annotation.TokenUIDAtGrant] &&
		o.Key == request.Annotations[annotation.AgentKeyAtGrant] &&
		o.ReplacesKey == request.Annotations[annotation.ReplacesKey] &&
		o.Lifetime == request.Annotations[annotation.LifetimeAtGrant]
}

// tokenUID returns the UID to record of the token that a request names. It is computed until the request is answered,
// because the client that created the request may have written the annotation. After that the recorded UID stays.
func tokenUID(in Input) string {
	switch {
	case isAnswered(in):
		return in.Request.Annotations[annotation.TokenUIDAtGrant]
	case in.NamedToken == nil:
		return ""
	}
	return string(in.NamedToken.UID)
}

// hasUsableAnswer reports whether the request has, or had, an answer that can be used. An answer becomes useless when its
// account is deleted.
func hasUsableAnswer(in Input, cluster *fleet.Cluster) bool {
	if in.Request.Status.Granted {
		return in.Account != nil || cluster.Status.Namespace == ""
	}
	return in.Credential != nil
}
