package importing_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/importing"
	"github.com/fleet-hub/fleet/internal/rules/rulestest"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// This hub writes the same status as a recorded import of Rancher Fleet, so that no agent is imported again when it
// replaces Rancher Fleet.
func TestRecordedImport_IsInSyncAndWrittenUnchanged(t *testing.T) {
	hub := rulestest.RecordedOn(t, "hub")
	tests := map[string]struct {
		key, kubeconfig string
		agent           rulestest.Recording
	}{
		"a cluster with a kubeconfig": {"Cluster fleet-default/east", "Secret fleet-default/east-kubeconfig", rulestest.RecordedOn(t, "east")},
		"the hub itself":              {"Cluster fleet-local/local", "Secret fleet-local/local-cluster", hub},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := rulestest.Must[fleet.Cluster](t, hub, test.key)
			in := importing.Input{
				Now: rulestest.Noon(), Cluster: cluster, Kubeconfig: hub.Secret(t, test.kubeconfig), Config: hub.Config(t),
				Defaults: rulestest.HubDefaults(), Namespaces: rulestest.HubNamespaces(),
			}
			if in.Kubeconfig.Data["apiServerCA"] != nil {
				in.Kubeconfig.Data["apiServerCA"] = in.Config.APIServerCA // redacted; on the hub it is the same CA
			}
			rulestest.ExpectEqual(t, "stage", rulestest.Pure(t, importing.Decide, in).Stage, importing.InSync)

			recorded := cluster.Status
			in.Cluster.Status = fleet.ClusterStatus{Namespace: recorded.Namespace}
			token := rulestest.Pure(t, importing.Decide, in).CreateToken
			tokenKey := "ClusterRegistrationToken " + cluster.Namespace + "/import-token-" + cluster.Name
			rulestest.ExpectEqual(t, "import token", rulestest.AsRecorded(t, []runtime.Object{token})[tokenKey], rulestest.Bare(hub[tokenKey]))
			in.Token = rulestest.Must[fleet.ClusterRegistrationToken](t, hub, tokenKey)
			rulestest.ExpectEqual(t, "owner of the import token", token.OwnerReferences, in.Token.OwnerReferences)
			in.Now = in.Token.Status.Expires.Add(-in.Token.Spec.TTL.Duration)
			in.Values = hub.Secret(t, "Secret "+cluster.Namespace+"/import-token-"+cluster.Name)

			out := rulestest.Pure(t, importing.Decide, in)
			rulestest.ExpectEqual(t, "stage", out.Stage, importing.NeedsAgent)
			rulestest.Note(&in.Cluster.Status, out)
			rulestest.ExpectEqual(t, "status", importFields(in.Cluster.Status), importFields(recorded))
			expectRecordedAgent(t, test.agent, out.Deploy)
		})
	}
}

// importFields returns the fields of the status that belong to imports.
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

// expectRecordedAgent compares the deployment with the recorded downstream objects.
func expectRecordedAgent(t *testing.T, downstream rulestest.Recording, deploy *importing.AgentDeployment) {
	t.Helper()
	recorded := rulestest.Must[corev1.ConfigMap](t, downstream, "ConfigMap cattle-fleet-system/fleet-agent")
	configuration, err := deploy.Values.Config.Encode()
	if err != nil {
		t.Fatal(err)
	}
	rulestest.ExpectEqual(t, "configuration of the agent", configuration, recorded.Data[names.ConfigKey])
	rulestest.ExpectEqual(t, "set", names.SetHash(deploy.SetID, names.Owner{}), recorded.Labels[fleet.LabelSetHash])
	rulestest.ExpectEqual(t, "namespace", deploy.Values.Namespace, recorded.Namespace)
	rulestest.ExpectEqual(t, "token", deploy.Values.Bootstrap.Token, rulestest.RedactedJWT)
}
