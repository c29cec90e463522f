package handshake_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/handshake"
	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The set of a recorded request is what the rule returns for it and for its credential, but for what was
// decided otherwise.
func TestRecordedRequests(t *testing.T) {
	hub := recordedOn(t, "hub")
	keys := hub.all("ClusterRegistration")
	expectEqual(t, "recorded requests", len(keys), 3)
	for _, key := range keys {
		t.Run(key, func(t *testing.T) {
			request := must[fleet.ClusterRegistration](t, hub, key)
			request.CreationTimestamp = at(0)
			cluster := must[fleet.Cluster](t, hub, "Cluster "+request.Namespace+"/"+request.Status.ClusterName)
			account := must[corev1.ServiceAccount](t, hub, "ServiceAccount "+cluster.Status.Namespace+"/"+names.RequestAccount(request.Name, string(request.UID)))
			in := grantInput(requestRights, func(in *handshake.GrantInput) {
				in.Request, in.Named, in.Clusters, in.Account = request, cluster, []*fleet.Cluster{cluster}, account
				in.Asked = must[fleet.ClusterRegistrationToken](t, hub, "ClusterRegistrationToken "+request.Namespace+"/"+request.Labels[fleet.LabelRegistrationToken])
				in.Imported = into[fleet.ClusterRegistrationToken](t, hub, "ClusterRegistrationToken "+request.Namespace+"/"+names.ImportToken(cluster.Name))
			})

			out := pure(t, handshake.Grant, in)
			expectEqual(t, "stage", out.Stage, handshake.GrantMinting)
			expectEqual(t, "cluster", out.ClusterName, request.Status.ClusterName)
			if out.Own != nil {
				t.Errorf("a recorded request is owned by its Cluster already, and yet: %+v", out.Own)
			}
			out.Credential.Token = redactedJWT
			objects := append(append([]runtime.Object{handshake.CredentialSecret(request, hubNamespaces().Registration, out.Credential)}, out.Children...), out.Reader...)
			want := decidedOtherwise(t, hub.set(t, handshake.GrantSetID, ownerOf("ClusterRegistration", request)), request, account)
			expectEqual(t, "set", asRecorded(t, objects), want)
		})
	}
}

// decidedOtherwise is a recorded set with our deviations: what makes one credential readable is named after the
// request, not the token, and allows to watch it; it and the credential name their request and their Cluster,
// since they are no children of the request. What lets an agent read Contents is shared, and in no set.
func decidedOtherwise(t *testing.T, set map[string]map[string]any, request *fleet.ClusterRegistration, account *corev1.ServiceAccount) map[string]map[string]any {
	t.Helper()
	registration := hubNamespaces().Registration
	decided := map[string]map[string]any{}
	for key, object := range set {
		meta, _ := object["metadata"].(map[string]any)
		if object["kind"] == "ClusterRoleBinding" {
			expectShared(t, object, account)
			continue
		}
		if meta["namespace"] != registration {
			decided[key] = object
			continue
		}
		if object["kind"] != "Secret" {
			meta["name"] = request.Name + "-creds"
		}
		switch object["kind"] {
		case "Role":
			rules, _ := object["rules"].([]any)
			rule, _ := rules[0].(map[string]any)
			expectEqual(t, "recorded verbs", rule["verbs"], any([]any{"get"}))
			rule["verbs"] = []any{"get", "watch"}
		case "RoleBinding":
			ref, _ := object["roleRef"].(map[string]any)
			ref["name"] = request.Name + "-creds"
		}
		meta["annotations"] = map[string]any{
			"fleet.cattle.io/cluster-registration": request.Name, "fleet.cattle.io/cluster-registration-namespace": request.Namespace,
		}
		labels, _ := meta["labels"].(map[string]any)
		labels["fleet.cattle.io/cluster"] = request.Status.ClusterName
		name, _ := meta["name"].(string)
		decided[object["kind"].(string)+" "+registration+"/"+name] = object
	}
	return decided
}

// expectShared compares a recorded binding of one account with the one that it shares: but for their names they are alike.
func expectShared(t *testing.T, recorded map[string]any, account *corev1.ServiceAccount) {
	t.Helper()
	key := types.NamespacedName{Namespace: account.Namespace, Name: account.Name}
	binding := handshake.ContentReaders(account.Annotations[fleet.AnnotationClusterRegistration]+"-content", []types.NamespacedName{key})
	for _, shared := range asRecorded(t, []runtime.Object{binding}) {
		expectEqual(t, "the binding of "+account.Name, shared, recorded)
	}
}

// The Cluster that was created for west's agent is what the rule creates.
func TestRecordedClusterOfAnAgent(t *testing.T) {
	hub := recordedOn(t, "hub")
	request := must[fleet.ClusterRegistration](t, hub, "ClusterRegistration fleet-default/request-pvwtt")
	recorded := hub["Cluster fleet-default/cluster-3f8a81b9896a"].DeepCopy()

	request.Status, request.OwnerReferences = fleet.ClusterRegistrationStatus{}, nil
	out := pure(t, handshake.Grant, grantInput(func(in *handshake.GrantInput) { in.Request = request }))
	out.CreateCluster.Annotations = nil // this implementation's own
	got := asRecorded(t, []runtime.Object{out.CreateCluster})
	// Ints that are always written are no part of what was asked for.
	delete(got["Cluster fleet-default/cluster-3f8a81b9896a"], "status")
	expectEqual(t, "cluster", got, map[string]map[string]any{"Cluster fleet-default/cluster-3f8a81b9896a": bare(recorded)})
}
