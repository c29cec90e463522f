package handshake_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/handshake"
	"github.com/fleet-hub/fleet/internal/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

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
