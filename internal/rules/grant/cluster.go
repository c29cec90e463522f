package grant

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ClusterOf is the Cluster a request speaks for: the one it was given, else the oldest of its client ID,
// so that the answer does not depend on the order in which they are found. A Cluster that is going gives
// way to one that stays. What was granted stays with its Cluster, whatever client ID that has by now.
func ClusterOf(in Input) *fleet.Cluster {
	if in.Named != nil && (in.Request.Status.Granted || in.Named.Spec.ClientID == in.Request.Spec.ClientID) {
		return in.Named
	}
	found := append([]*fleet.Cluster(nil), in.Clusters...)
	if in.Derived != nil && in.Derived.Spec.ClientID == in.Request.Spec.ClientID {
		found = append(found, in.Derived)
	}
	return clusters.FirstOf(found)
}

// leaving is true when the request or its Cluster is being deleted, or the Cluster it once had is gone: another one
// is not made for it, since nobody may be there any more to read the answer.
func leaving(in Input, cluster *fleet.Cluster) bool {
	owners := in.Request.OwnerReferences
	switch {
	case in.Request.DeletionTimestamp != nil || cluster != nil && cluster.DeletionTimestamp != nil:
		return true
	case in.Request.Status.Granted:
		return in.Named == nil || clusters.IsAnother(in.Named, owners)
	default:
		return cluster == nil && ownedByCluster(owners)
	}
}

// abandoned says whether nobody waits for an answer to a request, or whether what it was granted for is gone without
// anything else that would take it along.
func abandoned(in Input, cluster *fleet.Cluster) bool {
	request := in.Request
	switch {
	case request.DeletionTimestamp != nil:
		return false // it is going
	case request.Status.Granted:
		return in.Named == nil && !ownedByCluster(request.OwnerReferences)
	case saysTakeover(request) && cluster == nil:
		return true // no Cluster is made in place of the one it was about
	case saysTakeover(request), cluster == nil && request.Status.ClusterName != "" && in.Named == nil:
		return !in.Now.Before(request.CreationTimestamp.Add(CredentialLife))
	default:
		return false
	}
}

// ofGoneImport says whether a request was made with the token of an import whose Cluster is gone. Such a token goes
// with its Cluster, so that the request came too late. With a token whose Cluster is there anybody may ask for another
// one, as with any token.
func ofGoneImport(in Input) bool {
	if ImporterOf(in.Request, in.Asked) == "" {
		return false
	}
	return in.Importer == nil || in.Asked != nil && clusters.IsAnother(in.Importer, in.Asked.OwnerReferences)
}

// ImporterOf is the name of the Cluster whose import made the token that a request was made with, "" if no import did.
// A token that is gone tells only by its name.
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

// newCluster is the Cluster of a client the hub has not met. Its name follows from the client ID, so
// that two requests of one client cannot make two.
func newCluster(in Input) *fleet.Cluster {
	name := names.Cluster(in.Request.Spec.ClientID)
	labels := map[string]string{}
	if !in.IgnoreLabels {
		labels, _ = sanitized(in.Request.Spec.ClusterLabels)
	}
	labels[fleet.LabelCluster] = name
	finalizers := []string{fleet.FinalizerCluster} // which every Cluster gets; here it costs no request
	return &fleet.Cluster{
		TypeMeta: metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in.Request.Namespace, Name: name, Labels: labels, Finalizers: finalizers,
			Annotations: map[string]string{fleet.AnnotationCreatedWithToken: CreatedWith(in.Asked)},
		},
		Spec: fleet.ClusterSpec{ClientID: in.Request.Spec.ClientID},
	}
}

// ownership is nil if the request's metadata says it all already. The heartbeat is noted anew until the credential is
// written: what was noted before may be of an agent that is still at work, or was written by whoever made the request.
func ownership(in Input, cluster *fleet.Cluster) *Ownership {
	request := in.Request
	before, noted := request.Annotations[fleet.AnnotationLastSeenAtGrant]
	want := before
	if !noted && !request.Status.Granted || !given(in, cluster) {
		want = clusters.LastSeen(cluster)
	}
	owners, token := request.OwnerReferences, tokenUID(in)
	if len(owners) == 1 && owners[0].UID == cluster.UID && want == before && (noted || request.Status.Granted) &&
		token == request.Annotations[fleet.AnnotationTokenUIDAtGrant] {
		return nil
	}
	if !noted {
		want = clusters.LastSeen(cluster)
	}
	own := &Ownership{LastSeen: want, TokenUID: token, Owner: metav1.OwnerReference{
		APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
	}}
	if !request.Status.Granted { // what an older one was told nobody knows
		own.HubAddress = in.HubAddress
	}
	return own
}

// tokenUID returns the UID to record of the token that a request names. It is computed until the request is answered,
// because the client that created the request may have written the annotation. After that the recorded UID stays.
func tokenUID(in Input) string {
	switch {
	case in.Request.Status.Granted || in.Credential != nil:
		return in.Request.Annotations[fleet.AnnotationTokenUIDAtGrant]
	case in.Asked == nil:
		return ""
	}
	return string(in.Asked.UID)
}

// given says whether there is, or was, an answer to the request that can be used: it ends with the account.
func given(in Input, cluster *fleet.Cluster) bool {
	if in.Request.Status.Granted {
		return in.Account != nil || cluster.Status.Namespace == ""
	}
	return in.Credential != nil
}
