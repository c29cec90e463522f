package conditions

import (
	"slices"
	"strings"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/cut"
)

// MaxMessage is the maximum length of a condition's message as JSON, in bytes. A longer message is cut.
const MaxMessage = 6 << 10

// Types of conditions. Each type is written by one controller, or by the agent.
const (
	// Processed, on Cluster and ClusterGroup, is True when the last change was processed.
	Processed = "Processed"
	// Imported, on Cluster, is True when this hub has installed the agent, or need not because the Cluster has no
	// kubeconfig.
	Imported = "Imported"
	// Reconciled, on Cluster, is True when the agent's settings were compared with the spec.
	Reconciled = "Reconciled"
	// AddressKnown, on Cluster, is False while an agent that was installed by hand uses another URL or CA of
	// the hub than the configured one. The condition is absent if that has never happened.
	AddressKnown = "AddressKnown"
	// AgentManaged, on Cluster, is False while the agent should be managed by its Bundle but cannot be. The
	// condition is absent if that has never happened.
	AgentManaged = "AgentManaged"
	// AgentReporting, on Cluster, is True while the agent's heartbeats arrive. It is absent if the Cluster
	// expects no agent.
	AgentReporting = "AgentReporting"
	// FollowsClusterAPI, on Cluster, is True while the hub keeps the Cluster like the Cluster of Cluster API
	// for which it created it. The condition is absent on Clusters that the hub did not create for Cluster API.
	FollowsClusterAPI = "FollowsClusterAPI"
	// Partitioned, on Bundle, is False while the partitions of its rollout strategy look wrong: one names a
	// ClusterGroup that does not exist, or some clusters are in no partition. The condition is absent if that has
	// never happened.
	Partitioned = "Partitioned"
	// TargetsKnown, on Bundle, is False while a target or restriction names a ClusterGroup that does not
	// exist, or a target a Cluster that does not exist. The condition is absent if that has never happened.
	TargetsKnown = "TargetsKnown"
	// TargetsAccepted, on Bundle, is False while a BundleNamespaceMapping points to a workspace that does
	// not accept the Bundle. The condition is absent if that has never happened.
	TargetsAccepted = "TargetsAccepted"
	// Ready, on Cluster, ClusterGroup, Bundle and BundleDeployment, is True when everything
	// deployed is ready; on ClusterRegistrationToken, when the Secret with the values is there. While a Bundle or Cluster
	// is paused, its agents observe nothing, and the last state stays. A ClusterGroup counts the last report of an agent
	// that is silent.
	Ready = "Ready"
	// Granted, on ClusterRegistration, is True when the credential was written.
	Granted = "Granted"
	// Deployed, on BundleDeployment, is True when the desired state was applied.
	Deployed = "Deployed"
	// Installed, on BundleDeployment, is True when the release exists and its namespace has the labels and annotations
	// of the bundle.
	Installed = "Installed"
	// Monitored, on BundleDeployment, is True when the deployed resources could be checked. Its message describes limits of the
	// check. If every check fails for more than two minutes, Ready becomes False until one succeeds.
	Monitored = "Monitored"
)

// The constants below are reasons for conditions that are not True, grouped by kind. Messages are constant for each
// cause: they contain no times, addresses or versions, because otherwise every retry would change the object.

// Reasons on several kinds.
const (
	// ReasonError means that something failed for a cause without a specific reason. The message describes it, and the
	// controller or agent tries again. If it lasts, read the log: kubectl logs -n cattle-fleet-system
	// deployment/fleet-controller, or deployment/fleet-agent on the cluster.
	ReasonError = "Error"
	// ReasonNameTaken means that an object with a name that the hub needs exists but was not created for this purpose.
	// The hub needs the name for the rights of a registration or a token, or for the Bundle of an agent. The message
	// names the object, which is not changed. Do not delete or label it for a registration that was never granted,
	// because its client chose the name. For any other, delete the object if nothing needs it, or put back the label
	// that the message names.
	ReasonNameTaken = "NameTaken"
	// ReasonNamespaceTaken means that a namespace with the Cluster's computed name exists but was not created for this
	// Cluster. A request for it that is not granted is deleted after 40 minutes. Delete the namespace, or let the
	// Cluster use it with the annotations that the message names.
	ReasonNamespaceTaken = "NamespaceTaken"
	// ReasonAwaitingNamespace means that the Cluster has no namespace of its own yet. It is being created, or a former
	// one of the same name is still being deleted. If it stays, look for objects with finalizers in it.
	ReasonAwaitingNamespace = "AwaitingNamespace"
	// ReasonClientIDMissing means that the request has no client ID, or the Cluster has neither a client ID nor a
	// kubeconfig from which to get one. Set clientID in the values of the agent, or spec.clientID or
	// spec.kubeConfigSecret of the Cluster.
	ReasonClientIDMissing = "ClientIDMissing"
	// ReasonSelectorInvalid means that the label selector of a ClusterGroup or BundleNamespaceMapping is invalid.
	// Correct it. Everything that depends on it stays unchanged until then.
	ReasonSelectorInvalid = "SelectorInvalid"
	// ReasonAdmissionDenied means that an admission webhook, policy, quota, limit or pod security in the downstream cluster
	// rejected an object of the agent or of a bundle. Change what the message names, or the object.
	ReasonAdmissionDenied = "AdmissionDenied"
	// ReasonNamespaceTerminating means that the namespace of the agent or of a bundle is being deleted downstream. The
	// deployment continues when the namespace is gone. If it stays, look for objects with finalizers in it.
	ReasonNamespaceTerminating = "NamespaceTerminating"
)

// Reasons on a Cluster. To see them: kubectl describe clusters.fleet.cattle.io -n fleet-default east
const (
	// ReasonHubURLMissing means that apiServerURL is configured neither for Fleet nor in the kubeconfig Secret. Set
	// apiServerURL of the hub's chart.
	ReasonHubURLMissing = "HubURLMissing"
	// ReasonHubURLInvalid means that the configured apiServerURL is not an https URL. Correct apiServerURL of the hub's
	// chart, or of the kubeconfig Secret.
	ReasonHubURLInvalid = "HubURLInvalid"
	// ReasonHubCAMissing means that the TLS mode is strict and no CA of the upstream API server is known. Set
	// apiServerCA of the hub's chart, or agentTLSMode to system-store.
	ReasonHubCAMissing = "HubCAMissing"
	// ReasonHubCAInvalid means that the configured apiServerCA contains no certificate in PEM, for example because it is encoded
	// in base64. Correct apiServerCA of the hub's chart, or of the kubeconfig Secret: --set-file apiServerCA=hub-ca.pem.
	ReasonHubCAInvalid = "HubCAInvalid"
	// ReasonKubeconfigMissing means that the Secret named by spec.kubeConfigSecret, or its key, does not exist. Create
	// it: kubectl create secret generic -n fleet-default east-kubeconfig --from-file=value=east.kubeconfig.
	ReasonKubeconfigMissing = "KubeconfigMissing"
	// ReasonKubeconfigInvalid means that the kubeconfig cannot be read or has no usable context. Write one that kubectl
	// accepts: kubectl config view --raw --flatten --minify.
	ReasonKubeconfigInvalid = "KubeconfigInvalid"
	// ReasonKubeconfigRefused means that the kubeconfig asks for something unsafe, such as a command, a file, another
	// user, a connection without TLS, a proxy, or an address that means the hub itself. The message says what to
	// change. install.md has a recipe for a kubeconfig that is accepted.
	ReasonKubeconfigRefused = "KubeconfigRefused"
	// ReasonKubeconfigNamespaceRefused means that the kubeconfig Secret does not exist, or is in another namespace and
	// does not allow the Cluster's workspace to use it. To allow it, annotate the Secret with
	// fleet.cattle.io/allowed-workspaces.
	ReasonKubeconfigNamespaceRefused = "KubeconfigNamespaceRefused"
	// ReasonKubeconfigExpired means that the client certificate in the kubeconfig has expired. Write a new kubeconfig
	// into the Secret.
	ReasonKubeconfigExpired = "KubeconfigExpired"
	// ReasonDownstreamAnswerRefused means that the downstream API server sent a redirect, or a response longer than 1
	// MiB. The kubeconfig must contain the address of an API server itself.
	ReasonDownstreamAnswerRefused = "DownstreamAnswerRefused"
	// ReasonDownstreamCertificateExpired means that the downstream API server's certificate has expired or is not valid
	// yet. Renew it, or correct the clock.
	ReasonDownstreamCertificateExpired = "DownstreamCertificateExpired"
	// ReasonDownstreamUnreachable means that the API server named in the kubeconfig did not answer in time. Correct the
	// address, and check that the hub's pods reach it.
	ReasonDownstreamUnreachable = "DownstreamUnreachable"
	// ReasonDownstreamUnauthorized means that the downstream API server rejected the kubeconfig's credential. Write a
	// kubeconfig with a valid token or client certificate into the Secret.
	ReasonDownstreamUnauthorized = "DownstreamUnauthorized"
	// ReasonDownstreamForbidden means that the kubeconfig's user may not install the agent downstream. Give the user
	// the rights of cluster-admin.
	ReasonDownstreamForbidden = "DownstreamForbidden"
	// ReasonTLSUntrusted means that the downstream API server's certificate is not signed by a CA that is trusted.
	// Write the right certificate-authority-data into the kubeconfig.
	ReasonTLSUntrusted = "TLSUntrusted"
	// ReasonTLSModeUnknown means that agentTLSMode is neither strict nor system-store. Correct it in the hub's chart.
	ReasonTLSModeUnknown = "TLSModeUnknown"
	// ReasonSettingsInvalid means that a setting of the agent in the spec is invalid. The message names it. Correct it.
	ReasonSettingsInvalid = "SettingsInvalid"
	// ReasonAgentElsewhere means that the agent runs in another namespace than the one in which it would be managed.
	// Set spec.agentNamespace of the Cluster to the namespace of the agent.
	ReasonAgentElsewhere = "AgentElsewhere"
	// ReasonHubAddressChanged means that the agent does not have the hub's current URL or CA. Keep the old ones until
	// the condition is True: an agent with status.agent.hubSerial reads the new ones when it renews its credential, within
	// a day. For the others: fleet repair west -n fleet-default. If the agent then reports and the condition stays False,
	// run the command of the message.
	ReasonHubAddressChanged = "HubAddressChanged"
	// ReasonAgentFrozen means that changed settings of the agent wait, because they are part of its Bundle, and
	// manageAgent is false in the hub's ConfigMap fleet-controller. A new URL or CA of the hub, and
	// redeployAgentGeneration, still reach the agent. To apply the settings, set manageAgent to true there, or delete the
	// Bundle.
	ReasonAgentFrozen = "AgentFrozen"
	// ReasonPullSecretMissing means that an image pull secret of the agents does not exist. Create it in the hub's
	// system namespace, or correct imagePullSecrets of the hub's chart.
	ReasonPullSecretMissing = "PullSecretMissing"
	// ReasonAgentInherited means that Rancher Fleet deployed the agent. The agent stays unchanged until
	// the Cluster is annotated with fleet.cattle.io/take-over-agent=true.
	ReasonAgentInherited = "AgentInherited"
	// ReasonAgentPodRejected means that the downstream cluster does not create or schedule the agent's pod, because of
	// a quota, pod security, an admission webhook, or missing nodes. The message says which. Correct it; the hub tries
	// again.
	ReasonAgentPodRejected = "AgentPodRejected"
	// ReasonAgentPodFailing means that the agent's image cannot be pulled, or its container does not keep running. Look at
	// the pod: kubectl describe pods -n cattle-fleet-system on that cluster. Correct agentImage, the pull secret, or what
	// the log says. The hub applies corrected settings of the Cluster and of its chart to the agent's Deployment, and keeps
	// fields of other clients. It removes what is no longer set, except for tolerations, node selectors, and fields that
	// another client has set, too: remove these there.
	ReasonAgentPodFailing = "AgentPodFailing"
	// ReasonAnotherHub means that the agent in that namespace downstream belongs to another hub. Set
	// spec.agentNamespace of the Cluster, or take the agent over as the message says. `fleet join` reports it for a hub
	// that is not proven to be that of the agent.
	ReasonAnotherHub = "AnotherHub"
	// ReasonTargetIsHub means that the kubeconfig points to the hub's own cluster, which is allowed only in the
	// workspace of bootstrap.namespace. Nothing was written. Write a kubeconfig of another cluster into the Secret, or
	// use the Cluster local of that workspace.
	ReasonTargetIsHub = "TargetIsHub"
	// ReasonLocalClusterMismatch means that the agent is not removed because the kubeconfig of the local Cluster points
	// to another cluster. Write a kubeconfig of the hub's own cluster into its Secret.
	ReasonLocalClusterMismatch = "LocalClusterMismatch"
	// ReasonAwaitingAgent means that no agent has reported yet: it is being deployed, or must still be installed. If
	// the Cluster has no kubeconfig, join the cluster with fleet token create west --cluster west. Otherwise read the
	// condition Imported.
	ReasonAwaitingAgent = "AwaitingAgent"
	// ReasonAgentNotReporting means that the agent has missed three check-in intervals, or it was deployed and has not
	// reported within 45 seconds. Look at its pods and its log on the cluster: kubectl logs -n cattle-fleet-system
	// deployment/fleet-agent. They must reach the hub at its apiServerURL.
	ReasonAgentNotReporting = "AgentNotReporting"
	// ReasonTokenBlocked means that the Cluster's import token gets no values. See the token's condition Ready.
	ReasonTokenBlocked = "TokenBlocked"
	// ReasonClientIDAmbiguous means that an older Cluster of the namespace has the same client ID. Agents with this
	// client ID belong to the older one. Give one of them another client ID, or delete it.
	ReasonClientIDAmbiguous = "ClientIDAmbiguous"
)

// Reasons on a Cluster that the hub created for Cluster API, or in Events of the Cluster of Cluster API before
// that. KubeconfigMissing, NameTaken and AwaitingAgent have the meaning above, LabelsLeftOut that below. So do the reasons
// for which a Cluster is not imported, if the agent comes with a manifest. To see them: kubectl describe clusters.cluster.x-k8s.io -n fleet-default east
const (
	// ReasonAwaitingControlPlane means that the control plane is not initialized. The cluster is registered when it is.
	// If it stays, see the conditions of the Cluster of Cluster API.
	ReasonAwaitingControlPlane = "AwaitingControlPlane"
	// ReasonJoinUnknown means that the annotation fleet.cattle.io/capi-join of the Cluster of Cluster API has a value other
	// than "agent". Correct or remove it. The hub creates nothing meanwhile.
	ReasonJoinUnknown = "JoinUnknown"
	// ReasonClusterPaused means that the Cluster of Cluster API is paused, or is being moved to another management
	// cluster. The hub changes and deletes nothing. It continues when spec.paused is false.
	ReasonClusterPaused = "ClusterPaused"
	// ReasonNotSelected means that the label selectors capi.namespaceSelector and capi.clusterSelector of the hub's
	// chart do not select the Cluster of Cluster API. The hub creates no Cluster, and does not change or delete one
	// that it created before. Label the namespace or the Cluster, or change the selectors.
	ReasonNotSelected = "NotSelected"
	// ReasonImportedTwice means that another Cluster of the hub is the same cluster: it names the same kubeconfig Secret,
	// or the UID of its namespace kube-system is the same. The hub installs no second agent there. Keep the other
	// Cluster, or delete it. If it is in another workspace, ask the operator of the hub, who finds it in docs/capi.md. On a
	// Cluster without Cluster API it also means that a later import took the agent over, and that this Cluster leaves the
	// agent alone. Delete this Cluster, or take the agent back, with the commands that the message names.
	ReasonImportedTwice = "ImportedTwice"
	// ReasonIsTheHub means that the kubeconfig points to the hub's own cluster, which is the Cluster local. The hub
	// creates no other Cluster for it. To get no more of these Events, exclude the cluster with capi.clusterSelector of
	// the hub's chart.
	ReasonIsTheHub = "IsTheHub"
	// ReasonVariablesLeftOut means that the variables of the Cluster of Cluster API are too long, so that some of them are
	// missing in spec.templateValues.capi of the Cluster. Remove variables there.
	ReasonVariablesLeftOut = "VariablesLeftOut"
	// ReasonKubeconfigExpiring means that the client certificate or token in the kubeconfig Secret expires soon, and
	// the provider of the control plane has not renewed it. The agent continues to work. The hub can repair or
	// reinstall it only with a valid kubeconfig. See why the provider does not renew it.
	ReasonKubeconfigExpiring = "KubeconfigExpiring"
)

// Reasons on a ClusterRegistration. To see them: kubectl describe clusterregistrations.fleet.cattle.io -n fleet-default
const (
	// ReasonAwaitingCluster means that the Cluster of the request is being created. Nothing has to be done.
	ReasonAwaitingCluster = "AwaitingCluster"
	// ReasonAwaitingRights means that the account's rights were written but are not in effect yet. Nothing has to be
	// done.
	ReasonAwaitingRights = "AwaitingRights"
	// ReasonClusterManagedElsewhere means that another manager owns the Cluster of the request, according to its label
	// fleet.cattle.io/cluster-management. This hub does not grant the request. If this hub is to manage the Cluster,
	// remove the label.
	ReasonClusterManagedElsewhere = "ClusterManagedElsewhere"
	// ReasonTakeoverPending means that the request would replace a registered agent and does not prove that it comes
	// from the same one: it is not signed with the agent's key or, for an agent without a key, it names another token or no token.
	// The operator must confirm it on the Cluster, even if the agent is silent. A token that was deleted and created
	// again with the same name is another token. To confirm: fleet confirm-takeover west REQUEST, or kubectl annotate
	// --overwrite clusters.fleet.cattle.io -n fleet-default west fleet.cattle.io/confirm-takeover=REQUEST.
	ReasonTakeoverPending = "TakeoverPending"
	// ReasonAccountReplaced means that the agent's account was deleted and created again. The agent's token is no longer
	// valid, so it must register again. Imported agents and those with a key do so by themselves. For the others, run
	// helm upgrade for the agent with the values of its token.
	ReasonAccountReplaced = "AccountReplaced"
	// ReasonTokenUnknown means that the request does not name an existing token, so that no account may read the
	// credential. Create a token in this workspace, and run helm upgrade for the agent with its values.
	ReasonTokenUnknown = "TokenUnknown"
	// ReasonClientIDTaken means that the Cluster whose name is computed from the client ID has another client ID. Set
	// another clientID in the values of the agent, or create a Cluster with this client ID.
	ReasonClientIDTaken = "ClientIDTaken"
	// ReasonClientIDTooLong means that the client ID has more than 1024 bytes and belongs to no Cluster. Set a shorter
	// one in the values of the agent.
	ReasonClientIDTooLong = "ClientIDTooLong"
	// ReasonClientIDNotAllowed means that the token of the request is for another client ID: its annotation
	// fleet.cattle.io/token-for-client-id names the one. Create a token for this cluster: fleet token create.
	ReasonClientIDNotAllowed = "ClientIDNotAllowed"
	// ReasonCredentialTaken means that another request with the same client ID and random was granted. The client has
	// to send another random; the agents of this product do.
	ReasonCredentialTaken = "CredentialTaken"
	// ReasonTooManyRequests means that 10 older requests with this client ID exist, or 100 requests of this token are
	// being processed. The request waits for older ones and is deleted after 40 minutes. Requests of a workspace whose
	// tokens do not exist count as requests of one token. If the older requests are a mistake, stop what creates them
	// and delete them.
	ReasonTooManyRequests = "TooManyRequests"
	// ReasonTooManyClusters means that the token of the request has created as many Clusters as the hub allows. Delete
	// unneeded Clusters, register with another token, or raise controller.maxClustersPerToken.
	ReasonTooManyClusters = "TooManyClusters"
	// ReasonLabelsLeftOut means that the request was granted, but some of its labels are not copied to the Cluster:
	// they are invalid, or come after the first 64. Correct them in the values of the agent, or label the Cluster.
	ReasonLabelsLeftOut = "LabelsLeftOut"
)

// Reasons on a ClusterRegistrationToken. To see them: kubectl describe clusterregistrationtokens.fleet.cattle.io -n
// fleet-default west
const (
	// ReasonTokenExpired means that the token is past its TTL and is being deleted. Create another one to register more
	// clusters. Clusters that have joined with it stay.
	ReasonTokenExpired = "TokenExpired"
	// ReasonTTLMissing means that the operator requires a TTL for every token and this token has no TTL. It is being
	// deleted. Create it with spec.ttl.
	ReasonTTLMissing = "TTLMissing"
	// ReasonTokenNameTooLong means that the token's name has more than 63 characters, so that agents cannot use it as a
	// label. Create a token with a shorter name.
	ReasonTokenNameTooLong = "TokenNameTooLong"
	// ReasonValuesInvalid means that the Secret with the token's values could not be parsed. It is being rewritten. If
	// you have copied the values elsewhere, copy them again.
	ReasonValuesInvalid = "ValuesInvalid"
	// ReasonTokenRejected means that the API server no longer accepts the bearer token in the Secret with the token's
	// values, for example after a change of the signing key. A new bearer token is written, and agents that register
	// later need the new values. If the reason persists, the API server does not accept tokens that it issued itself.
	ReasonTokenRejected = "TokenRejected"
	// ReasonSecretNameTaken means that a Secret with the token's name belongs to another owner. It is not changed.
	// Delete that Secret if nothing needs it, or create a token with another name.
	ReasonSecretNameTaken = "SecretNameTaken"
)

// Reasons on a Bundle or BundleNamespaceMapping. To see them: kubectl describe bundles.fleet.cattle.io -n fleet-default
// hello
const (
	// ReasonClusterGroupUnknown means that the Bundle names a ClusterGroup that does not exist. Deployments to clusters
	// that may be its members stay unchanged, unless another target selects the cluster: then that target applies.
	// Create the group, or correct its name in the Bundle.
	ReasonClusterGroupUnknown = "ClusterGroupUnknown"
	// ReasonAwaitingTargetCluster means that a target names a Cluster that does not exist, neither by its name nor by its
	// display name. The Bundle is deployed there as soon as the Cluster exists. If the name is misspelt, correct it in
	// the Bundle.
	ReasonAwaitingTargetCluster = "AwaitingTargetCluster"
	// ReasonDependsOnCircle means that the Bundle depends on itself, directly or through other Bundles, so that each
	// waits for the next. The message names them. Remove one of the dependencies from spec.dependsOn.
	ReasonDependsOnCircle = "DependsOnCircle"
	// ReasonRolloutInvalid means that a field of the Bundle's rollout strategy is invalid. The message names it.
	// Everything stays unchanged until it is corrected.
	ReasonRolloutInvalid = "RolloutInvalid"
	// ReasonPartitionsIncomplete means that a partition names a ClusterGroup that does not exist, or that some of the
	// Bundle's clusters are in no partition and get no updates. The message names the field and, in the second case, a
	// cluster. Correct the partitions, or annotate the Bundle with fleet.cattle.io/rollout-remaining-clusters=true.
	ReasonPartitionsIncomplete = "PartitionsIncomplete"
	// ReasonMappingIncomplete means that a BundleNamespaceMapping does not have both selectors and has no effect. Set
	// both.
	ReasonMappingIncomplete = "MappingIncomplete"
	// ReasonMappingRefused means that a BundleNamespaceMapping points to Clusters of another workspace whose annotation
	// fleet.cattle.io/accept-bundles-from does not list this workspace. Bundles are not deployed there. Add the
	// workspace to that annotation of the Namespace, or narrow the mapping's namespaceSelector.
	ReasonMappingRefused = "MappingRefused"
)

// Reasons on a BundleDeployment. To see them: kubectl describe bundledeployments.fleet.cattle.io -A
const (
	// ReasonUnsupported means that this agent cannot deploy the bundle, because its content is in an OCI registry or is
	// a chart that must be downloaded. Put the files into the Bundle.
	ReasonUnsupported = "Unsupported"
	// ReasonAwaitingDependencies means that bundles on which this one depends are not in an accepted state. It is
	// deployed as soon as they are. If that lasts, look at these bundles.
	ReasonAwaitingDependencies = "AwaitingDependencies"
	// ReasonDependencyMissing means that a bundle on which this one depends does not exist. Create it, or remove it
	// from spec.dependsOn.
	ReasonDependencyMissing = "DependencyMissing"
	// ReasonNamespaceRefused means that the bundle may not be deployed to that namespace, because the namespace lacks
	// labels that the bundle's allowedTargetNamespaceSelector requires. Label the namespace, or deploy to another one.
	ReasonNamespaceRefused = "NamespaceRefused"
	// ReasonNamespaceMissing means that the namespace does not exist and the bundle must not create it. Create it, or
	// remove createNamespace: false from the bundle.
	ReasonNamespaceMissing = "NamespaceMissing"
	// ReasonOutsideNamespace means that the bundle sets namespace, but an object, hook or CRD of it is cluster-scoped
	// or in another namespace, or an object in its folder crds/ is not a CRD. To lift the restriction, use
	// defaultNamespace instead.
	ReasonOutsideNamespace = "OutsideNamespace"
	// ReasonServiceAccountMissing means that the service account of the bundle does not exist in the agent's namespace.
	// Create it on the cluster, or correct serviceAccount of the bundle.
	ReasonServiceAccountMissing = "ServiceAccountMissing"
	// ReasonForbidden means that the service account of the bundle lacks a right that the bundle needs. Give it the
	// right that the message names. It is also set if the bundle sets a service account or namespace and contains a
	// Secret of type helm.sh/release.v1. Remove that Secret: only the agent writes releases.
	ReasonForbidden = "Forbidden"
	// ReasonReleaseTaken means that a Helm release with that name exists and does not belong to the bundle. Set another
	// helm.releaseName, or uninstall that release.
	ReasonReleaseTaken = "ReleaseTaken"
	// ReasonObjectTaken means that an object of the bundle exists and does not belong to the bundle. To take it over,
	// set helm.takeOwnership.
	ReasonObjectTaken = "ObjectTaken"
	// ReasonObjectRejected means that the API server rejects an object of the bundle, or namespaceLabels or
	// namespaceAnnotations, as invalid. The message names it. Correct it in the bundle. If the message says that the
	// object has been modified, remove metadata.resourceVersion there.
	ReasonObjectRejected = "ObjectRejected"
	// ReasonKindMissing means that the cluster does not have the kind of an object of the bundle. The bundle is
	// deployed as soon as the kind exists. Install its CRD on the cluster.
	ReasonKindMissing = "KindMissing"
	// ReasonContentDamaged means that the Content of the bundle on the hub does not match its hash. Delete the Content,
	// and the hub writes it again: kubectl delete contents.fleet.cattle.io NAME.
	ReasonContentDamaged = "ContentDamaged"
	// ReasonContentMissing means that the Content of the bundle, or a Secret or ConfigMap that belongs to it, does not
	// exist on the hub. Create the Secret or ConfigMap that the message names. The hub writes Contents by itself while
	// its controllers run.
	ReasonContentMissing = "ContentMissing"
	// ReasonBundleTooLarge means that the bundle, or the Helm release made from it, is larger than can be stored, or
	// its files have more than 128 MiB in total, decompressed and with packed charts unpacked. Make it smaller, or
	// split it.
	ReasonBundleTooLarge = "BundleTooLarge"
	// ReasonBundleDeploymentForged means that a BundleDeployment requests copies of Secrets or ConfigMaps
	// (downstreamResources), but the hub did not create it for a Cluster that its Bundle may target. Nothing is copied.
	// Delete it: kubectl delete bundledeployments.fleet.cattle.io -n NAMESPACE NAME. If only its Cluster, its Bundle or a mapping is
	// missing, the copies follow when that is created.
	ReasonBundleDeploymentForged = "BundleDeploymentForged"
	// ReasonHelmValuesInvalid means that the Helm values are missing, are not a map, or do not match the chart's
	// schema. Correct the value that the message names.
	ReasonHelmValuesInvalid = "HelmValuesInvalid"
	// ReasonManifestInvalid means that a file of the bundle is not valid YAML, is not an object, or has a name that
	// points outside the bundle. Correct the file that the message names.
	ReasonManifestInvalid = "ManifestInvalid"
	// ReasonRenderingFailed means that the chart or the kustomization does not render. Correct the template, the value
	// or the file that the message names.
	ReasonRenderingFailed = "RenderingFailed"
	// ReasonKubeVersionUnsupported means that the chart does not support the cluster's Kubernetes version. Use another
	// version of the chart, or upgrade the cluster.
	ReasonKubeVersionUnsupported = "KubeVersionUnsupported"
	// ReasonNotReadyInTime means that the objects of the bundle were not ready within its timeout, or a Job among them has
	// failed. Look at these objects on the cluster, or raise helm.timeoutSeconds of the bundle.
	ReasonNotReadyInTime = "NotReadyInTime"
)

// IsTrouble reports whether a condition needs attention. It does if it is False with a reason, except for reasons that
// begin with "Awaiting" (work in progress), for an inherited agent, which waits for a decision of the operator, and for a
// cluster of Cluster API that the operator has paused or does not select.
func IsTrouble(condition genericcondition.GenericCondition) bool {
	if condition.Status != corev1.ConditionFalse {
		return false
	}
	switch condition.Reason {
	case "", ReasonAgentInherited, ReasonClusterPaused, ReasonNotSelected:
		return false
	}
	return !strings.HasPrefix(condition.Reason, "Awaiting")
}

// Get returns the condition of a type, or nil. The result points into the list: do not change it.
func Get(list []genericcondition.GenericCondition, conditionType string) *genericcondition.GenericCondition {
	for i := range list {
		if list[i].Type == conditionType {
			return &list[i]
		}
	}
	return nil
}

// Remove takes the condition of a type out of the list, which keeps its order.
func Remove(list *[]genericcondition.GenericCondition, conditionType string) {
	*list = slices.DeleteFunc(*list, func(c genericcondition.GenericCondition) bool { return c.Type == conditionType })
}

// Set adds a condition to the list, or replaces the one of its type. The
// lastUpdateTime becomes now, in UTC and whole seconds, when status, reason or
// message differ, and stays otherwise; lastTransitionTime is never written. The rest of the list keeps its place.
// A message that is longer than MaxMessage is cut, and holds no control characters.
func Set(list *[]genericcondition.GenericCondition, now time.Time, condition genericcondition.GenericCondition) {
	condition.Message = cut.Text(condition.Message, MaxMessage)
	condition.LastTransitionTime = ""
	old := Get(*list, condition.Type)
	if old == nil {
		condition.LastUpdateTime = now.UTC().Format(time.RFC3339)
		*list = append(*list, condition)
		return
	}
	if old.Status == condition.Status && old.Reason == condition.Reason && old.Message == condition.Message {
		return
	}
	condition.LastUpdateTime = now.UTC().Format(time.RFC3339)
	*old = condition
}
