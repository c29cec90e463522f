package grant_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/contentreaders"
	"github.com/fleet-hub/fleet/internal/rules/grant"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Decide returns the recorded objects, except where decidedOtherwise lists a deliberate difference.
func TestRecordedRequests_GiveTheRecordedObjects(t *testing.T) {
	hub := rulestest.RecordedOn(t, "hub")
	keys := hub.All("ClusterRegistration")
	rulestest.ExpectEqual(t, "recorded requests", len(keys), 3)
	for _, key := range keys {
		t.Run(key, func(t *testing.T) {
			request := rulestest.Must[fleet.ClusterRegistration](t, hub, key)
			request.CreationTimestamp = rulestest.At(0)
			cluster := rulestest.Must[fleet.Cluster](t, hub, "Cluster "+request.Namespace+"/"+request.Status.ClusterName)
			account := rulestest.Must[corev1.ServiceAccount](t, hub, "ServiceAccount "+cluster.Status.Namespace+"/"+names.RequestAccount(request.Name, string(request.UID)))
			in := grantInput(requestRights, func(in *grant.Input) {
				in.Request, in.Named, in.Clusters, in.Account = request, cluster, []*fleet.Cluster{cluster}, account
				in.NamedToken = rulestest.Must[fleet.ClusterRegistrationToken](t, hub, "ClusterRegistrationToken "+request.Namespace+"/"+request.Labels[fleet.LabelRegistrationToken])
				in.Imported = rulestest.Into[fleet.ClusterRegistrationToken](t, hub, "ClusterRegistrationToken "+request.Namespace+"/"+names.ImportToken(cluster.Name))
			})

			out := rulestest.Pure(t, grant.Decide, in)
			rulestest.ExpectEqual(t, "stage", out.Stage, grant.Minting)
			rulestest.ExpectEqual(t, "cluster", out.ClusterName, request.Status.ClusterName)
			if out.Own != nil {
				t.Errorf("a recorded request is owned by its Cluster already, and yet: %+v", out.Own)
			}
			out.Credential.Token = rulestest.RedactedJWT
			objects := append(append([]runtime.Object{grant.CredentialSecret(request, rulestest.HubNamespaces().Registration, out.Credential)}, out.Children...), out.CredentialAccess...)
			want := decidedOtherwise(t, hub.Set(t, grant.SetID, rulestest.OwnerOf("ClusterRegistration", request)), request, account)
			rulestest.ExpectEqual(t, "set", rulestest.AsRecorded(t, objects), want)
		})
	}
}

// decidedOtherwise is a recorded set with our deviations: what makes one credential readable is named after the
// request, not the token, and allows to watch it; it and the credential name their request and their Cluster,
// since they are no children of the request. What lets an agent read Contents is shared, and in no set.
func decidedOtherwise(t *testing.T, set map[string]map[string]any, request *fleet.ClusterRegistration, account *corev1.ServiceAccount) map[string]map[string]any {
	t.Helper()
	registration := rulestest.HubNamespaces().Registration
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
			rulestest.ExpectEqual(t, "recorded verbs", rule["verbs"], any([]any{"get"}))
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
		labels["fleet.cattle.io/answers"] = string(request.UID)
		name, _ := meta["name"].(string)
		decided[object["kind"].(string)+" "+registration+"/"+name] = object
	}
	return decided
}

// expectShared compares a recorded binding of one account with the one that it shares: but for their names they are alike.
func expectShared(t *testing.T, recorded map[string]any, account *corev1.ServiceAccount) {
	t.Helper()
	key := types.NamespacedName{Namespace: account.Namespace, Name: account.Name}
	binding := contentreaders.Desired(account.Annotations[fleet.AnnotationClusterRegistration]+"-content", []types.NamespacedName{key})
	for _, shared := range rulestest.AsRecorded(t, []runtime.Object{binding}) {
		rulestest.ExpectEqual(t, "the binding of "+account.Name, shared, recorded)
	}
}

func TestRecordedAgent_GetsTheRecordedCluster(t *testing.T) {
	hub := rulestest.RecordedOn(t, "hub")
	request := rulestest.Must[fleet.ClusterRegistration](t, hub, "ClusterRegistration fleet-default/request-pvwtt")
	recorded := hub["Cluster fleet-default/cluster-3f8a81b9896a"].DeepCopy()

	request.Status, request.OwnerReferences = fleet.ClusterRegistrationStatus{}, nil
	out := rulestest.Pure(t, grant.Decide, grantInput(func(in *grant.Input) { in.Request = request }))
	out.CreateCluster.Annotations = nil // this implementation's own
	got := rulestest.AsRecorded(t, []runtime.Object{out.CreateCluster})
	// Ints that are always written are no part of what was asked for.
	delete(got["Cluster fleet-default/cluster-3f8a81b9896a"], "status")
	rulestest.ExpectEqual(t, "cluster", got, map[string]map[string]any{"Cluster fleet-default/cluster-3f8a81b9896a": rulestest.Bare(recorded)})
}
