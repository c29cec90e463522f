package handshake

import (
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// GrantSetID is the set of the objects behind a ClusterRegistration. Changing it orphans them.
const GrantSetID = "cluster-registration"

// CredentialLife is how long an agent has to fetch the answer to its request.
const CredentialLife = 40 * time.Minute

// GrantStage says how far a ClusterRegistration is.
type GrantStage string

const (
	// GrantLeaving means that the request or its Cluster is going: its rights and its credential go.
	GrantLeaving GrantStage = "Leaving"
	// GrantAbandoned means that the request belongs to an import whose Cluster is gone, and that nobody can read an
	// answer to it: it is deleted, as it would have been with that Cluster.
	GrantAbandoned GrantStage = "Abandoned"
	// GrantRejected means that the request can never be granted as it is; its condition says why.
	GrantRejected GrantStage = "Rejected"
	// GrantAwaitingCluster means that no Cluster has the request's client ID yet; one is created.
	GrantAwaitingCluster GrantStage = "AwaitingCluster"
	// GrantAwaitingNamespace means that the Cluster has no namespace for the account yet.
	GrantAwaitingNamespace GrantStage = "AwaitingNamespace"
	// GrantAwaitingRights means that the account and its rights are written but not yet seen.
	GrantAwaitingRights GrantStage = "AwaitingRights"
	// GrantMinting means that everything is there but the account's bearer token, asked for now.
	GrantMinting GrantStage = "Minting"
	// GrantDone means that the credential was handed out, fetched or has expired; the rights stay.
	GrantDone GrantStage = "Granted"
)

// GrantInput is what was found about a ClusterRegistration. A nil object was not found.
type GrantInput struct {
	Now     time.Time
	Request *fleet.ClusterRegistration
	// Clusters are those of the workspace with the request's client ID, in any order.
	Clusters []*fleet.Cluster
	// Derived is the Cluster of the name that the client ID gives, whatever its client ID.
	Derived *fleet.Cluster
	// Named is the Cluster in the request's status.
	Named *fleet.Cluster
	// Account is the request account, seen in the cache; RightsExist says the same of its rights.
	Account     *corev1.ServiceAccount
	RightsExist bool
	// Credential is the Secret that answers the request.
	Credential *corev1.Secret
	// Asked is the ClusterRegistrationToken the request names; Imported the one an import made for the Cluster.
	Asked, Imported *fleet.ClusterRegistrationToken
	// Importer is the Cluster of the name that ImporterOf gives.
	Importer *fleet.Cluster
	// Others are the workspace's requests with the same client ID.
	Others []*fleet.ClusterRegistration
	// IgnoreLabels drops the labels the agent proposes.
	IgnoreLabels bool
	Namespaces   Namespaces
}

// GrantOutcome is what a ClusterRegistration is owed now.
type GrantOutcome struct {
	Stage GrantStage
	// Reason explains a rejection, as one of the condition reasons; Message says what to do.
	Reason, Message string
	// CreateCluster is the Cluster to make for a client that has none.
	CreateCluster *fleet.Cluster
	// Own makes the Cluster the request's only owner and notes the heartbeat before the grant.
	Own *Ownership
	// Children is the whole set; empty when the request leaves.
	Children []runtime.Object
	// Mint, if set, asks for the bearer token with which Credential becomes the answer. Reader lets
	// the account that asked read it. It is written before the answer, together with the Children: the
	// API server takes its time to check who gives away which rights.
	Mint       *Mint
	Credential Credential
	Reader     []runtime.Object
	// Unreadable means that nobody may read the answer and nobody has used it: the request names no token that
	// exists.
	Unreadable bool
	// Superseded are older requests of the same client, to be deleted: the new credential is in use.
	Superseded []string
	// ClusterName and Granted are the request's status.
	ClusterName string
	Granted     bool
}

// Ownership is what the grant writes into a request's metadata.
type Ownership struct {
	Owner metav1.OwnerReference
	// LastSeen is the Cluster's last heartbeat before the grant, RFC 3339, "" for none. A heartbeat
	// that differs is the first use of the credential.
	LastSeen string
}

// Grant decides what a request is owed now.
func Grant(in GrantInput) GrantOutcome {
	cluster := ClusterOf(in)
	switch {
	case leaving(in, cluster):
		return GrantOutcome{Stage: GrantLeaving, ClusterName: in.Request.Status.ClusterName, Granted: in.Request.Status.Granted}
	case cluster == nil && ofGoneImport(in):
		return GrantOutcome{Stage: GrantAbandoned}
	case in.Request.Spec.ClientID == "":
		return rejected(fleet.ReasonClientIDMissing, "the request has no clientID: set one in the agent's values, or leave it to the agent, which takes the UID of its kube-system namespace")
	case cluster == nil && in.Derived != nil:
		return rejected(fleet.ReasonClientIDTaken, "a Cluster of the name that belongs to this clientID exists with another clientID: rename that Cluster, or create one with this clientID")
	case refused(in):
		return rejected(fleet.ReasonCredentialTaken, "another request with this clientID and clientRandom was answered: ask with another clientRandom")
	case cluster == nil:
		return GrantOutcome{Stage: GrantAwaitingCluster, CreateCluster: newCluster(in)}
	}
	return give(in, cluster)
}

// give decides how far the grant of a request is, whose Cluster is there.
func give(in GrantInput, cluster *fleet.Cluster) GrantOutcome {
	out := GrantOutcome{ClusterName: cluster.Name, Granted: in.Request.Status.Granted, Own: ownership(in.Request, cluster)}
	if cluster.Status.Namespace == "" {
		out.Stage = GrantAwaitingNamespace
		return out
	}
	out.Children = requestRights(in.Request, cluster)
	switch {
	case in.Account == nil || !in.RightsExist:
		out.Stage = GrantAwaitingRights
		if !in.Request.Status.Granted { // else the answer was given, and only the rights are being healed
			out.Reader = reader(in)
		}
	case answered(in):
		out.Stage, out.Granted, out.Superseded = GrantDone, true, superseded(in, cluster)
		out.Unreadable = unreadable(in, cluster)
	default:
		out.Stage, out.Granted = GrantMinting, true
		out.Mint = &Mint{Namespace: in.Account.Namespace, Account: in.Account.Name, Lifetime: TokenLifetime}
		out.Credential = credentialOf(cluster, in.Namespaces)
		out.Reader = reader(in)
		out.Unreadable = unreadable(in, cluster)
	}
	return out
}

func rejected(reason, message string) GrantOutcome {
	return GrantOutcome{Stage: GrantRejected, Reason: reason, Message: message}
}

// ClusterOf is the Cluster a request speaks for: the one it was given, else the oldest of its client ID,
// so that the answer does not depend on the order in which they are found. A Cluster that is going gives
// way to one that stays. What was granted stays with its Cluster, whatever client ID that has by now.
func ClusterOf(in GrantInput) *fleet.Cluster {
	if in.Named != nil && (in.Request.Status.Granted || in.Named.Spec.ClientID == in.Request.Spec.ClientID) {
		return in.Named
	}
	found := append([]*fleet.Cluster(nil), in.Clusters...)
	if in.Derived != nil && in.Derived.Spec.ClientID == in.Request.Spec.ClientID {
		found = append(found, in.Derived)
	}
	return firstOf(found)
}

// firstOf is the Cluster that agents join as, of those with one client ID.
func firstOf(found []*fleet.Cluster) *fleet.Cluster {
	if len(found) == 0 {
		return nil
	}
	return slices.MinFunc(found, func(a, b *fleet.Cluster) int {
		if going := a.DeletionTimestamp != nil; going != (b.DeletionTimestamp != nil) {
			if going {
				return 1
			}
			return -1
		}
		if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
}

// leaving is true when the request or its Cluster is being deleted, or the Cluster it once had is gone: another one
// is not made for it, since nobody may be there any more to read the answer.
func leaving(in GrantInput, cluster *fleet.Cluster) bool {
	owners := in.Request.OwnerReferences
	switch {
	case in.Request.DeletionTimestamp != nil || cluster != nil && cluster.DeletionTimestamp != nil:
		return true
	case in.Request.Status.Granted:
		return in.Named == nil || isAnother(in.Named, owners)
	default:
		return cluster == nil && ownedByCluster(owners)
	}
}

// ofGoneImport says whether a request was made with the token of an import whose Cluster is gone. Such a token goes
// with its Cluster, so that the request came too late. With a token whose Cluster is there anybody may ask for another
// one, as with any token.
func ofGoneImport(in GrantInput) bool {
	if ImporterOf(in.Request, in.Asked) == "" {
		return false
	}
	return in.Importer == nil || in.Asked != nil && isAnother(in.Importer, in.Asked.OwnerReferences)
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

// isAnother says whether the owners tell of a Cluster that is gone: of this one's name, but not this one.
func isAnother(cluster *fleet.Cluster, owners []metav1.OwnerReference) bool {
	namesake := false
	for _, owner := range owners {
		if owner.Kind == "Cluster" && owner.UID == cluster.UID {
			return false
		}
		namesake = namesake || owner.Kind == "Cluster" && owner.Name == cluster.Name
	}
	return namesake
}

// newCluster is the Cluster of a client the hub has not met. Its name follows from the client ID, so
// that two requests of one client cannot make two.
func newCluster(in GrantInput) *fleet.Cluster {
	name := names.Cluster(in.Request.Spec.ClientID)
	labels := map[string]string{}
	if !in.IgnoreLabels {
		labels = sanitized(in.Request.Spec.ClusterLabels)
	}
	labels[fleet.LabelCluster] = name
	return &fleet.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: in.Request.Namespace, Name: name, Labels: labels},
		Spec:       fleet.ClusterSpec{ClientID: in.Request.Spec.ClientID},
	}
}

// sanitized are the labels an agent may assert: none of ours but the name of its pod, and nothing that
// is no label, with which the Cluster could never be created.
func sanitized(proposed map[string]string) map[string]string {
	labels := map[string]string{}
	for key, value := range proposed {
		ours := strings.HasPrefix(key, "fleet.cattle.io/") || strings.HasPrefix(key, "management.cattle.io/")
		if (!ours || key == fleet.LabelCreatedByAgentPod) && len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0 {
			labels[key] = value
		}
	}
	return labels
}

// ownership is nil if the request's metadata says it all already.
func ownership(request *fleet.ClusterRegistration, cluster *fleet.Cluster) *Ownership {
	owners := request.OwnerReferences
	_, noted := request.Annotations[fleet.AnnotationLastSeenAtGrant]
	if len(owners) == 1 && owners[0].UID == cluster.UID && (noted || request.Status.Granted) {
		return nil
	}
	own := &Ownership{Owner: metav1.OwnerReference{
		APIVersion: fleet.SchemeGroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
	}}
	own.LastSeen = request.Annotations[fleet.AnnotationLastSeenAtGrant]
	if !noted {
		own.LastSeen = lastSeen(cluster)
	}
	return own
}

func lastSeen(cluster *fleet.Cluster) string {
	if cluster.Status.Agent.LastSeen.IsZero() {
		return ""
	}
	return cluster.Status.Agent.LastSeen.UTC().Format(time.RFC3339)
}

// answered is true when there is nothing more to hand out: the credential is there and works, or it
// was and its time is over.
func answered(in GrantInput) bool {
	if in.Credential == nil {
		return in.Request.Status.Granted && in.Now.After(in.Request.CreationTimestamp.Add(CredentialLife))
	}
	if answersAnother(in) {
		return true // this one's answer was there before it
	}
	credential, err := ParseCredential(in.Credential.Data)
	return err == nil && works(credential.Token, string(in.Account.UID), in.Now)
}

// refused says whether a request cannot be answered since another one was, in its place. What was granted stays.
func refused(in GrantInput) bool { return !in.Request.Status.Granted && answersAnother(in) }

// answersAnother says whether the credential that this request would get is the answer to another one. Were it
// written anew, the two would take turns; were its reading granted, whoever copied a request could read the answer.
func answersAnother(in GrantInput) bool {
	if in.Credential == nil {
		return false
	}
	name := in.Credential.Annotations[fleet.AnnotationClusterRegistration]
	namespace := in.Credential.Annotations[fleet.AnnotationClusterRegistrationNamespace]
	return name != "" && (name != in.Request.Name || namespace != in.Request.Namespace)
}

// superseded are the older requests of the same client, once the agent was seen with the new credential.
func superseded(in GrantInput, cluster *fleet.Cluster) []string {
	before, noted := in.Request.Annotations[fleet.AnnotationLastSeenAtGrant]
	if seen := lastSeen(cluster); noted && (seen == "" || seen == before) {
		return nil // the old credential may be the only one in use
	}
	var older []string
	for _, other := range in.Others {
		if other.Spec.ClientID == in.Request.Spec.ClientID && other.Spec.ClientRandom != in.Request.Spec.ClientRandom && isOlder(other, in.Request) {
			older = append(older, other.Name)
		}
	}
	sort.Strings(older)
	return older
}

// isOlder orders requests by creation, then by grant, both of which the API tells in seconds, then by who was
// written last, which is who was granted last, then by name: of any two exactly one is older.
func isOlder(a, b *fleet.ClusterRegistration) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	if x, y := grantedAt(a), grantedAt(b); x != y {
		return x != "" && (y == "" || x < y) // one still in flight is the newer
	}
	if order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion); err == nil && order != 0 {
		return order < 0
	}
	return a.Name < b.Name
}

func grantedAt(request *fleet.ClusterRegistration) string {
	if granted := fleet.GetCondition(request.Status.Conditions, fleet.ConditionGranted); granted != nil && granted.Status == corev1.ConditionTrue {
		return granted.LastUpdateTime
	}
	return ""
}

func credentialOf(cluster *fleet.Cluster, namespaces Namespaces) Credential {
	return Credential{
		DeploymentNamespace: cluster.Status.Namespace,
		ClusterNamespace:    cluster.Namespace,
		ClusterName:         cluster.Name,
		SystemNamespace:     namespaces.System,
	}
}

// CredentialSecret is the Secret that answers a request. It is no child of the request's set: it goes
// after CredentialLife while the set stays.
func CredentialSecret(request *fleet.ClusterRegistration, registrationNamespace string, credential Credential) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: answerMeta(registrationNamespace, names.CredentialSecret(request.Spec.ClientID, request.Spec.ClientRandom), credential.ClusterName, request),
		Type:       SecretTypeCredential,
		Data:       credential.Encode(),
	}
}

// answerMeta is the metadata of the credential Secret and of what makes it readable. The annotations
// name the request, so that all three can be removed with it.
func answerMeta(namespace, name, cluster string, request *fleet.ClusterRegistration) metav1.ObjectMeta {
	meta := managed(namespace, name)
	meta.Labels[fleet.LabelCluster] = names.SafeConcat(cluster) // names may be longer than labels
	meta.Annotations = map[string]string{
		fleet.AnnotationClusterRegistration:          request.Name,
		fleet.AnnotationClusterRegistrationNamespace: request.Namespace,
	}
	return meta
}

// unreadable says whether an answer is one that nobody may read and nobody uses. A token that goes after its agent
// has joined is missed by nobody; of requests that others have granted, nobody knows.
func unreadable(in GrantInput, cluster *fleet.Cluster) bool {
	before, noted := in.Request.Annotations[fleet.AnnotationLastSeenAtGrant]
	return in.Asked == nil && in.Imported == nil && noted && lastSeen(cluster) == before
}

// ReaderName is the name of the Role and of the RoleBinding that make one credential readable.
func ReaderName(request string) string { return names.SafeConcat(request, "creds") }

// reader lets the import account that asked read its one credential. A request that names no token we
// know, and that no import made, can be read by nobody: nil.
func reader(in GrantInput) []runtime.Object {
	token := in.Asked
	if token == nil {
		token = in.Imported
	}
	if token == nil {
		return nil
	}
	meta := func() metav1.ObjectMeta {
		return answerMeta(in.Namespaces.Registration, ReaderName(in.Request.Name), ClusterOf(in).Name, in.Request)
	}
	secret := names.CredentialSecret(in.Request.Spec.ClientID, in.Request.Spec.ClientRandom)
	account := names.ImportAccount(token.Name, string(token.UID))
	return []runtime.Object{
		// watch beside get: an agent of ours learns of its credential the moment it is written.
		roleOf(meta(), rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret}, Verbs: []string{"get", "watch"}}),
		bindingOf(meta(), "Role", ReaderName(in.Request.Name), subject(token.Namespace, account)),
	}
}

// requestRights are the request account and what it may do: report its Cluster's status, work on the
// BundleDeployments of its namespace, read Contents.
func requestRights(request *fleet.ClusterRegistration, cluster *fleet.Cluster) []runtime.Object {
	account := names.RequestAccount(request.Name, string(request.UID))
	namespace := cluster.Status.Namespace
	to := subject(namespace, account)
	meta := managed(namespace, account)
	meta.Annotations = map[string]string{
		fleet.AnnotationCluster:                      cluster.Name,
		fleet.AnnotationClusterRegistration:          request.Name,
		fleet.AnnotationClusterRegistrationNamespace: request.Namespace,
	}
	return []runtime.Object{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta},
		roleOf(managed(request.Namespace, request.Name), rbacv1.PolicyRule{
			APIGroups: []string{fleet.SchemeGroupVersion.Group}, Resources: []string{"clusters/status"}, ResourceNames: []string{cluster.Name}, Verbs: []string{"patch"},
		}),
		bindingOf(managed(request.Namespace, request.Name), "Role", request.Name, to),
		bindingOf(managed(namespace, request.Name), "ClusterRole", names.BundleDeploymentRole, to),
		clusterBindingOf(managed("", names.SafeConcat(request.Name, "content")), names.ContentRole, to),
	}
}
