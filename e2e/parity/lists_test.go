package parity_test

import (
	"slices"
	"strings"

	"github.com/fleet-hub/fleet/e2e/parity"
)

// Objects that several rows match.
const (
	registered = "hub ClusterRegistration *"
	// westAgent matches west's Cluster, and its agent's Bundle and BundleDeployment. westGroup is west's
	// ClusterGroup.
	westAgent   = "hub * *<cluster env=prod>"
	westGroup   = "hub ClusterGroup fleet-default/prod"
	controllers = "hub Deployment cattle-fleet-system/fleet-controller"
)

// Reasons of several rows.
const (
	replaced = "recorded while west's agent was being replaced; ours takes itself over in its pod (decision 8)"
	unheard  = "recorded before the first heartbeat, without which our agents are not managed (decision 8)"
	// firstUse is the reason why ours has no credential of an agent that reports.
	firstUse = "a credential and the right to read it go at the first heartbeat (decision 42)"
	// sharedContent is the reason for differences in the rights to read Contents.
	sharedContent = "agents share the bindings by which they read Contents (decision 4)"
	signed        = "agents sign their requests (decision 37)"
	expires       = "credentials of agents that renew them expire"
	returns       = "agents return to their Cluster with their key (decision 37)"
	sealed        = "an agent seals the releases that it stores (decision 25)"
	inline        = "values that are no Secret in the Bundle are in the BundleDeployment (decision 39)"
	oneProcess    = "one process and one lease for all controllers (decision 27); probes, rights and resources of the controllers are no part of the contract"
)

// usedTokenRows returns the differences because the token of an import ends when its agent has used it.
func usedTokenRows() []parity.Row {
	const used = "an import token is deleted when the agent has used it (decision 37)"
	var rows []parity.Row
	for _, kind := range []string{"ClusterRegistrationToken", "ServiceAccount", "Role*", "Secret"} {
		rows = append(rows, parity.Row{Is: parity.Missing, On: "hub " + kind + " fleet-*/import-token-*", Why: used})
	}
	return rows
}

// decided returns the permanent differences.
func decided() []parity.Row {
	return append(append(replacedRows(), usedTokenRows()...), []parity.Row{
		{Is: parity.Missing, On: "* *", At: "metadata.annotations[objectset.rio.cattle.io/applied]", Why: "the annotation would show the beginning of Secrets; we compare with what is there"},
		{Is: parity.Missing, On: "hub Secret *-token", Why: "tokens come from the TokenRequest API (decision 2)"},
		{Is: parity.Added, On: registered, At: "status.conditions*", Why: "a registration says what it waits for"},
		{Is: parity.Added, On: "hub ClusterRegistrationToken *", At: "status.conditions*", Why: "a token says what it waits for"},
		{Is: parity.Added, On: "hub Cluster *", At: "status.conditions[AgentReporting].*", Why: "a Cluster says whether its agent reports (decision 12)"},
		{Is: parity.Added, On: "hub Cluster *", At: "status.agent.*", Why: "an agent says what cluster it is in (decision 6)"},
		{Is: parity.Added, On: "* ConfigMap */fleet-agent", At: "metadata.annotations[fleet.cattle.io/hub-uid]", Why: "by it, another hub knows whose agent it is (decision 9)"},
		{Is: parity.Added, On: registered, At: "metadata.annotations[fleet.cattle.io/last-seen-at-grant]", Why: "how the first use of a credential is known (decision 2)"},
		{Is: parity.Added, On: registered, At: "metadata.annotations[fleet.cattle.io/token-uid-at-grant]", Why: "a token that is created again under an old name is another token (decision 1)"},
		{Is: parity.Added, On: registered, At: "metadata.annotations[fleet.cattle.io/agent-key]", Why: signed},
		{Is: parity.Added, On: registered, At: "metadata.annotations[fleet.cattle.io/agent-proof]", Why: signed},
		{Is: parity.Added, On: registered, At: "metadata.annotations[fleet.cattle.io/agent-key-at-grant]", Why: signed},
		{Is: parity.Added, On: registered, At: "metadata.annotations[fleet.cattle.io/agent-renews]", Why: "an agent says that it can renew its credential"},
		{Is: parity.Added, On: registered, At: "metadata.annotations[fleet.cattle.io/lifetime-at-grant]", Why: expires},
		{Is: parity.Added, On: "hub ConfigMap cattle-fleet-system/fleet-controller", At: "data.config.agentCredentialLifetime", Why: expires},
		{Is: parity.Added, On: "hub Role* *-renew", Why: expires},
		{Is: parity.Added, On: "hub * *fleet-recovery*", Why: returns},
		{Is: parity.Added, On: "hub Secret cattle-fleet-system/fleet-hub-key", Why: returns},
		{Is: parity.Added, On: "hub Cluster *", At: "metadata.annotations[fleet.cattle.io/agent-key]", Why: signed},
		{Is: parity.Added, On: "hub Cluster *", At: "metadata.labels[fleet.cattle.io/token-uid]", Why: signed},
		{Is: parity.Added, On: "hub Namespace *", At: "metadata.annotations[fleet.cattle.io/system-uid]", Why: "by it a cluster that is imported twice is recognized (decision 38)"},
		{Is: parity.Added, On: "hub Cluster *", At: "metadata.annotations[fleet.cattle.io/created-with-token]", Why: "by it the Clusters that a token has created are counted"},
		{Is: parity.Added, On: "hub BundleDeployment *", At: "spec.options.helm.values.*", Why: inline},
		{Is: parity.Added, On: "hub BundleDeployment *", At: "spec.stagedOptions.helm.values.*", Why: inline},
		{Is: parity.Missing, On: "hub BundleDeployment *", At: "spec.options.helm", Why: inline},
		{Is: parity.Missing, On: "hub BundleDeployment *", At: "spec.stagedOptions.helm", Why: inline},
		{Is: parity.Missing, On: "hub BundleDeployment *", At: "spec.valuesHash", Why: inline},
		{Is: parity.Missing, On: "hub Secret */hello", Why: inline},
		{Is: parity.Added, On: "hub ConfigMap cattle-fleet-system/fleet-controller", At: "data.config.allowLocalKubeconfigs", Why: "local addresses in kubeconfigs are refused by default (decision 7)"},
		{Is: parity.Added, On: "hub ConfigMap cattle-fleet-system/fleet-controller", At: "data.config.plainValuesInSecrets", Why: inline},
		{Is: parity.Added, On: "hub ConfigMap cattle-fleet-system/fleet-controller", At: "data.config.legacyKubeconfigNamespaces", Why: "a kubeconfig Secret of another namespace has to allow it (decision 7)"},
		{Is: parity.Added, On: registered, At: "metadata.annotations[fleet.cattle.io/hub-address-at-grant]", Why: "by it a hub knows who cannot be told of another address (decision 10)"},
		{Is: parity.Added, On: "* Secret */fleet-agent", At: "metadata.annotations[fleet.cattle.io/watched]", Why: "by it a hub knows whose pod need not be deleted after the Secret was rewritten (decision 10)"},
		{Is: parity.Added, On: "* Secret */sh.helm.release.v1.*", At: "metadata.annotations[fleet.cattle.io/release-seal]", Why: sealed},
		{Is: parity.Added, On: "* Secret cattle-fleet-system/fleet-agent-release-key", Why: sealed},
		{Is: parity.Added, On: "hub Cluster fleet-local/local", At: "metadata.annotations[fleet.cattle.io/label-keys]", Why: "tells labels of the chart's values from those that somebody else put on the Cluster"},

		{Is: parity.Missing, On: "hub ClusterRoleBinding /*-content", Why: sharedContent},
		{Is: parity.Added, On: "hub ClusterRoleBinding /fleet-content-readers-*", Why: sharedContent},
		{Is: parity.Missing, On: "hub Role* cattle-fleet-clusters-system/*-creds", Why: firstUse},
		{Is: parity.Missing, On: "hub Secret cattle-fleet-clusters-system/*", Why: firstUse},

		{Is: parity.Missing, On: "west ClusterRole* /fleet-agent-system-fleet-agent-role*", Why: "one pair of roles for the agent, whichever way it came"},
		{Is: parity.Missing, On: "west ConfigMap cattle-fleet-system/fleet-agent", At: "data.config.clientID", Why: "every way in writes the agent's configuration alike: what is not set is not there (decision 8)"},
		{Is: parity.Changed, On: "west ConfigMap cattle-fleet-system/fleet-agent", At: "data.config.garbageCollectionInterval", Why: "every way in writes the agent's configuration alike: durations as Go does (decision 8)"},
		{Is: parity.Changed, On: "west Deployment cattle-fleet-system/fleet-agent", At: "metadata.annotations[deployment.kubernetes.io/revision]", Why: replaced},
		{Is: parity.Changed, On: "* Lease cattle-fleet-system/*", At: "spec.holderIdentity", Why: "each process has an identity of its own, also in the same pod (decision 27)"},

		{Is: parity.Changed, On: "hub Cluster fleet-default/*", At: "status.agent.*", Why: unheard},
		{Is: parity.Changed, On: "hub Cluster fleet-default/east", At: "status.display.state", Why: unheard},

		{Is: parity.Added, On: "hub Bundle fleet-default/raw", At: "status.summary.ready", Why: "counts are written together, zeros included"},
		{Is: parity.Added, On: "hub Bundle *", At: "status.*navailablePartitions", Why: "the first status is written whole, zeros included"},
		{Is: parity.Changed, On: "hub Namespace /cattle-fleet-system", At: "metadata.*[objectset.rio.cattle.io/*]", Why: "of the two sets that the hub's system namespace is in, the one that every hub has keeps it"},
		{Is: parity.Added, On: "hub ServiceAccount cattle-fleet-system/default", Why: "it is among the recorded resources of fleet-agent-local, only its recording was left out"},
		{Is: parity.Missing, On: controllers, At: "spec.template.*", Why: oneProcess},
		{Is: parity.Added, On: controllers, At: "spec.template.*", Why: oneProcess},
		{Is: parity.Changed, On: controllers, At: "spec.template.*", Why: oneProcess},
		{Is: parity.Missing, On: "hub *Role /fleet-controller", At: "rules[*", Why: oneProcess},
		{Is: parity.Added, On: "hub *Role */fleet-controller", At: "rules[*", Why: oneProcess},
		{Is: parity.Changed, On: "hub *Role */fleet-controller", At: "rules[*", Why: oneProcess},
		{Is: parity.Added, On: "hub RoleBinding cattle-fleet-system/fleet-controller", At: "subjects[fleet-controller].namespace", Why: "a ServiceAccount without its namespace is nobody"},
	}...)
}

// replacedRows returns the differences caused by the replacement of west's agent during the recording.
func replacedRows() []parity.Row {
	var rows []parity.Row
	for _, row := range []parity.Row{
		{Is: parity.Missing, On: westAgent, At: "status.*nonReady*"},
		{Is: parity.Missing, On: westAgent, At: "status.*.notReady"},
		{Is: parity.Changed, On: westAgent, At: "status.resourceCounts.notReady"},
		{Is: parity.Changed, On: westAgent, At: "status.*ready"},
		{Is: parity.Added, On: westAgent, At: "status.*ready"},
		{Is: parity.Missing, On: westAgent, At: "status.conditions[Ready].*"},
		{Is: parity.Changed, On: westAgent, At: "status.conditions[Ready].status"},
		{Is: parity.Missing, On: westAgent, At: "status.display.state"},
		{Is: parity.Changed, On: westAgent, At: "status.display.*"},
		{Is: parity.Missing, On: westAgent, At: "status.*unavailable"},
		{Is: parity.Changed, On: westAgent, At: "status.unavailable", Perhaps: true},
		{Is: parity.Missing, On: westGroup, At: "status.*nonReady*"},
		{Is: parity.Missing, On: westGroup, At: "status.summary.notReady"},
		{Is: parity.Changed, On: westGroup, At: "status.nonReadyClusterCount", Perhaps: true},
		{Is: parity.Changed, On: westGroup, At: "status.*.*eady"},
		{Is: parity.Missing, On: westGroup, At: "status.conditions[Ready].message"},
		{Is: parity.Changed, On: westGroup, At: "status.conditions[Ready].status"},
		{Is: parity.Missing, On: westGroup, At: "status.display.state"},
		{Is: parity.Changed, On: westGroup, At: "status.display.*"},
	} {
		row.Why = replaced
		rows = append(rows, row)
	}
	return rows
}

// waiting returns differences that later work removes. That work removes the row too.
func waiting() []parity.Row {
	const git = "comes with GitRepos"
	return []parity.Row{
		{Is: parity.Missing, On: "hub ConfigMap cattle-fleet-system/fleet-controller", At: "data.config.githubURLPrefix", Why: git},
		{Is: parity.Missing, On: "hub ConfigMap cattle-fleet-system/fleet-controller", At: "data.config.webhookReceiverURL", Why: git},
	}
}

// renamed maps recorded objects to our objects with other names.
func renamed() map[string]string {
	ours := map[string]string{}
	for _, kind := range []string{"Role", "RoleBinding"} {
		for cluster, workspace := range map[string]string{"east": "fleet-default", "local": "fleet-local"} {
			token := "import-token-" + cluster
			place := "hub " + kind + " cattle-fleet-clusters-system/"
			ours[place+token+"-<uid of hub ClusterRegistrationToken "+workspace+"/"+token+">-creds"] = place + "<request of " + cluster + ">-creds"
		}
	}
	return ours
}

// about returns the rows for some clusters.
func about(clusters []string, rows []parity.Row) []parity.Row {
	var found []parity.Row
	for _, row := range rows {
		cluster, _, _ := strings.Cut(row.On, " ")
		if cluster == "*" || slices.Contains(clusters, cluster) {
			found = append(found, row)
		}
	}
	return found
}
