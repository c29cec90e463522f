package handshake_test

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/handshake"
	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// The set of a recorded token is what the rule returns for it.
func TestRecordedTokens(t *testing.T) {
	hub := recordedOn(t, "hub")
	keys := hub.all("ClusterRegistrationToken")
	expectEqual(t, "recorded tokens", len(keys), 3)
	for _, key := range keys {
		t.Run(key, func(t *testing.T) {
			token := must[fleet.ClusterRegistrationToken](t, hub, key)
			token.CreationTimestamp = metav1.Time{Time: token.Status.Expires.Add(-token.Spec.TTL.Duration)} // recordings have none
			account := must[corev1.ServiceAccount](t, hub, "ServiceAccount "+token.Namespace+"/"+names.ImportAccount(token.Name, string(token.UID)))
			in := handshake.TokenInput{
				Now: token.CreationTimestamp.Time, Token: token, Account: account, RightsExist: true,
				APIServerURL: hub.config(t).APIServerURL, APIServerCA: []byte(redactedPEM), Namespaces: hubNamespaces(),
			}
			in.Secret = valuesSecret(boundJWT(string(account.UID), in.Now.Add(token.Spec.TTL.Duration)))

			out := pure(t, handshake.Token, in)
			expectEqual(t, "set", asRecorded(t, out.Children), hub.set(t, handshake.TokenSetID, ownerOf("ClusterRegistrationToken", token)))
			expectEqual(t, "status", out.Status, token.Status)
		})
	}
}

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

// What a recorded import has noted in the Cluster's status is what ours would note, so that taking over a hub
// imports nothing anew.
func TestRecordedImports(t *testing.T) {
	hub := recordedOn(t, "hub")
	tests := map[string]struct {
		key, kubeconfig string
		agent           recording
	}{
		"a cluster with a kubeconfig": {"Cluster fleet-default/east", "Secret fleet-default/east-kubeconfig", recordedOn(t, "east")},
		"the hub itself":              {"Cluster fleet-local/local", "Secret fleet-local/local-cluster", hub},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := must[fleet.Cluster](t, hub, test.key)
			in := handshake.ImportInput{
				Now: noon(), Cluster: cluster, Kubeconfig: hub.secret(t, test.kubeconfig), Config: hub.config(t),
				Defaults: hubDefaults(), Namespaces: hubNamespaces(),
			}
			if in.Kubeconfig.Data["apiServerCA"] != nil {
				in.Kubeconfig.Data["apiServerCA"] = in.Config.APIServerCA // redacted; on the hub it is the same CA
			}
			expectEqual(t, "stage", pure(t, handshake.Import, in).Stage, handshake.ImportInSync)

			recorded := cluster.Status
			in.Cluster.Status = fleet.ClusterStatus{Namespace: recorded.Namespace}
			token := pure(t, handshake.Import, in).CreateToken
			tokenKey := "ClusterRegistrationToken " + cluster.Namespace + "/import-token-" + cluster.Name
			expectEqual(t, "import token", asRecorded(t, []runtime.Object{token})[tokenKey], bare(hub[tokenKey]))
			in.Token = must[fleet.ClusterRegistrationToken](t, hub, tokenKey)
			expectEqual(t, "owner of the import token", token.OwnerReferences, in.Token.OwnerReferences)
			in.Now = in.Token.Status.Expires.Add(-in.Token.Spec.TTL.Duration)
			in.Values = hub.secret(t, "Secret "+cluster.Namespace+"/import-token-"+cluster.Name)

			out := pure(t, handshake.Import, in)
			expectEqual(t, "stage", out.Stage, handshake.ImportNeedsAgent)
			note(&in.Cluster.Status, out)
			expectEqual(t, "status", importFields(in.Cluster.Status), importFields(recorded))
			expectRecordedAgent(t, test.agent, out.Deploy)
		})
	}
}

// importFields are those of the status that belong to imports.
func importFields(s fleet.ClusterStatus) fleet.ClusterStatus {
	return fleet.ClusterStatus{
		AgentDeployedGeneration: s.AgentDeployedGeneration,
		AgentMigrated:           s.AgentMigrated, AgentNamespaceMigrated: s.AgentNamespaceMigrated, CattleNamespaceMigrated: s.CattleNamespaceMigrated,
		APIServerURL: s.APIServerURL, APIServerCAHash: s.APIServerCAHash, AgentTLSMode: s.AgentTLSMode,
		GarbageCollectionInterval: s.GarbageCollectionInterval, AgentTolerationsHash: s.AgentTolerationsHash,
		AgentEnvVarsHash: s.AgentEnvVarsHash, AgentAffinityHash: s.AgentAffinityHash, AgentResourcesHash: s.AgentResourcesHash,
		AgentSchedulingCustomizationHash: s.AgentSchedulingCustomizationHash, AgentPrivateRepoURL: s.AgentPrivateRepoURL,
		AgentHostNetwork: s.AgentHostNetwork, AgentConfigChanged: s.AgentConfigChanged,
	}
}

// expectRecordedAgent compares what is deployed with what was recorded downstream.
func expectRecordedAgent(t *testing.T, downstream recording, deploy *handshake.AgentDeployment) {
	t.Helper()
	recorded := must[corev1.ConfigMap](t, downstream, "ConfigMap cattle-fleet-system/fleet-agent")
	configuration, err := deploy.Values.Config.Encode()
	if err != nil {
		t.Fatal(err)
	}
	expectEqual(t, "configuration of the agent", configuration, recorded.Data[names.ConfigKey])
	expectEqual(t, "set", names.SetHash(deploy.SetID, names.Owner{}), recorded.Labels[fleet.LabelSetHash])
	expectEqual(t, "namespace", deploy.Values.Namespace, recorded.Namespace)
	expectEqual(t, "token", deploy.Values.Bootstrap.Token, redactedJWT)
}

// Every recorded Secret of the handshake can be read, and is written as it was.
func TestRecordedSecrets(t *testing.T) {
	hub := recordedOn(t, "hub")
	seen := map[corev1.SecretType]int{}
	for _, key := range hub.all("Secret") {
		secret := hub.secret(t, key)
		seen[secret.Type]++
		t.Run(key, func(t *testing.T) {
			switch secret.Type {
			case handshake.SecretTypeValues:
				values, err := handshake.ParseValues(secret.Data[handshake.ValuesKey])
				if err != nil {
					t.Fatal(err)
				}
				document, err := values.Encode()
				if err != nil {
					t.Fatal(err)
				}
				expectEqual(t, "values", string(document), string(secret.Data[handshake.ValuesKey]))
			case handshake.SecretTypeCredential:
				credential, err := handshake.ParseCredential(secret.Data)
				if err != nil {
					t.Fatal(err)
				}
				expectEqual(t, "credential", credential.Encode(), secret.Data)
			}
		})
	}
	expectEqual(t, "recorded values and credentials", []int{seen[handshake.SecretTypeValues], seen[handshake.SecretTypeCredential]}, []int{3, 3})
}

func TestRecordedIdentities(t *testing.T) {
	want := map[string]string{"hub": "local", "east": "east", "west": "cluster-3f8a81b9896a"}
	for _, where := range slices.Sorted(maps.Keys(want)) {
		t.Run(where, func(t *testing.T) {
			data := recordedOn(t, where).secretData(t, "Secret cattle-fleet-system/"+names.Agent)
			identity, err := handshake.ParseIdentity(data)
			if err != nil {
				t.Fatal(err)
			}
			expectEqual(t, "cluster", identity.ClusterName, want[where])
			expectEqual(t, "namespace on the hub", identity.DeploymentNamespace, names.ClusterNamespace(identity.ClusterNamespace, identity.ClusterName))
			expectEqual(t, "identity", identity.Encode(), data)
		})
	}
}
