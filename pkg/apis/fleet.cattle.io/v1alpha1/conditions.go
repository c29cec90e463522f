package v1alpha1

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
	// ConditionProcessed, on Cluster and ClusterGroup, is True when the last change was processed.
	ConditionProcessed = "Processed"
	// ConditionImported, on Cluster, is True when this hub has installed the agent.
	ConditionImported = "Imported"
	// ConditionReconciled, on Cluster, is True when the agent's settings were compared with the spec.
	ConditionReconciled = "Reconciled"
	// ConditionAddressKnown, on Cluster, is False while an agent that was installed by hand uses another URL or CA of
	// the hub than the configured one. The condition is absent if that has never happened.
	ConditionAddressKnown = "AddressKnown"
	// ConditionAgentManaged, on Cluster, is False while the agent should be managed by its Bundle but cannot be. The
	// condition is absent if that has never happened.
	ConditionAgentManaged = "AgentManaged"
	// ConditionAgentReporting, on Cluster, is True while the agent's heartbeats arrive. It is absent if the Cluster
	// expects no agent.
	ConditionAgentReporting = "AgentReporting"
	// ConditionPartitioned, on Bundle, is False while the partitions of its rollout strategy look wrong: one names a
	// ClusterGroup that does not exist, or some clusters are in no partition. The condition is absent if that has
	// never happened.
	ConditionPartitioned = "Partitioned"
	// ConditionTargetsKnown, on Bundle, is False while a target or restriction names a ClusterGroup that does not
	// exist. The condition is absent if that has never happened.
	ConditionTargetsKnown = "TargetsKnown"
	// ConditionTargetsAccepted, on Bundle, is False while a BundleNamespaceMapping points to a workspace that does
	// not accept the Bundle. The condition is absent if that has never happened.
	ConditionTargetsAccepted = "TargetsAccepted"
	// ConditionReady, on Cluster, ClusterGroup, Bundle and BundleDeployment, is True when everything
	// deployed is ready; on ClusterRegistrationToken, when the Secret with the values is there.
	ConditionReady = "Ready"
	// ConditionGranted, on ClusterRegistration, is True when the credential was written.
	ConditionGranted = "Granted"
	// ConditionDeployed, on BundleDeployment, is True when the desired state was applied.
	ConditionDeployed = "Deployed"
	// ConditionInstalled, on BundleDeployment, is True when the release exists.
	ConditionInstalled = "Installed"
	// ConditionMonitored, on BundleDeployment, is True when the deployed resources could be checked.
	ConditionMonitored = "Monitored"
)

// Reasons for conditions that are not True. Messages are constant for each cause: they contain no times,
// addresses or versions, because otherwise every retry would change the object.
const (
	// ReasonError means that something failed for a cause without a specific reason. The message describes it.
	ReasonError = "Error"

	// ReasonHubURLMissing means that apiServerURL is configured neither for Fleet nor in the kubeconfig Secret.
	ReasonHubURLMissing = "HubURLMissing"
	// ReasonHubURLInvalid means that the configured apiServerURL is not an https URL.
	ReasonHubURLInvalid = "HubURLInvalid"
	// ReasonHubCAMissing means that the TLS mode is strict and no CA of the upstream API server is known.
	ReasonHubCAMissing = "HubCAMissing"
	// ReasonKubeconfigMissing means that the Secret named by spec.kubeConfigSecret, or its key, does not exist.
	ReasonKubeconfigMissing = "KubeconfigMissing"
	// ReasonKubeconfigInvalid means that the kubeconfig cannot be read or has no usable context.
	ReasonKubeconfigInvalid = "KubeconfigInvalid"
	// ReasonKubeconfigRefused means that the kubeconfig asks for something unsafe, such as a command, a file, another user,
	// a connection without TLS, a proxy, or an address that means the hub itself; the message says what to change.
	ReasonKubeconfigRefused = "KubeconfigRefused"
	// ReasonKubeconfigNamespaceRefused means that the kubeconfig Secret does not exist, or is in another namespace
	// and does not allow the Cluster's workspace to use it. To allow it, annotate the Secret with
	// fleet.cattle.io/allowed-workspaces.
	ReasonKubeconfigNamespaceRefused = "KubeconfigNamespaceRefused"
	// ReasonKubeconfigExpired means that the client certificate in the kubeconfig has expired; write a new kubeconfig.
	ReasonKubeconfigExpired = "KubeconfigExpired"
	// ReasonDownstreamAnswerRefused means that the downstream API server sent a redirect, or a response longer than
	// 1 MiB. The kubeconfig must contain the address of an API server itself.
	ReasonDownstreamAnswerRefused = "DownstreamAnswerRefused"
	// ReasonDownstreamCertificateExpired means that the downstream API server's certificate has expired or is not
	// valid yet. Renew it, or correct the clock.
	ReasonDownstreamCertificateExpired = "DownstreamCertificateExpired"
	// ReasonDownstreamUnreachable means that the API server named in the kubeconfig did not answer in time.
	ReasonDownstreamUnreachable = "DownstreamUnreachable"
	// ReasonDownstreamUnauthorized means that the downstream API server rejected the kubeconfig's credential.
	ReasonDownstreamUnauthorized = "DownstreamUnauthorized"
	// ReasonDownstreamForbidden means that the kubeconfig's user may not install the agent downstream.
	ReasonDownstreamForbidden = "DownstreamForbidden"
	// ReasonTLSUntrusted means that the downstream API server's certificate is not signed by a CA that is trusted.
	ReasonTLSUntrusted = "TLSUntrusted"
	// ReasonTLSModeUnknown means that agentTLSMode is neither strict nor system-store.
	ReasonTLSModeUnknown = "TLSModeUnknown"
	// ReasonSettingsInvalid means that a setting of the agent in the spec is invalid. The message names it.
	ReasonSettingsInvalid = "SettingsInvalid"
	// ReasonAgentElsewhere means that the agent runs in another namespace than the one in which it would be managed.
	ReasonAgentElsewhere = "AgentElsewhere"
	// ReasonHubAddressChanged means that the hub's URL or CA has changed since the agent registered. The hub cannot
	// tell the agent once the old address is gone.
	ReasonHubAddressChanged = "HubAddressChanged"
	// ReasonAgentFrozen means that settings of the agent wait because they are part of its Bundle, which does not
	// change while manageAgent is false. A new URL or CA of the hub, and redeployAgentGeneration, still reach the
	// agent.
	ReasonAgentFrozen = "AgentFrozen"
	// ReasonPullSecretMissing means that an image pull secret of the agents does not exist.
	ReasonPullSecretMissing = "PullSecretMissing"
	// ReasonAgentInherited means that another Fleet implementation deployed the agent. The agent stays unchanged
	// until the Cluster is annotated with fleet.cattle.io/take-over-agent=true.
	ReasonAgentInherited = "AgentInherited"
	// ReasonAgentPodRejected means that the downstream cluster does not create or schedule the agent's pod, because
	// of a quota, pod security, an admission webhook, or missing nodes.
	ReasonAgentPodRejected = "AgentPodRejected"
	// ReasonAgentPodFailing means that the agent's image cannot be pulled, or its container does not keep running.
	ReasonAgentPodFailing = "AgentPodFailing"
	// ReasonAdmissionDenied means that an admission webhook or policy in the downstream cluster rejected an object
	// of the agent or of a bundle.
	ReasonAdmissionDenied = "AdmissionDenied"
	// ReasonNamespaceTerminating means that the namespace of the agent or of a bundle is being deleted downstream.
	// The deployment continues when the namespace is gone.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonAnotherHub means that the agent in that namespace downstream belongs to another hub.
	ReasonAnotherHub = "AnotherHub"
	// ReasonTargetIsHub means that the kubeconfig points to the hub's own cluster, which is allowed only in the
	// workspace of bootstrap.namespace. Nothing was written.
	ReasonTargetIsHub = "TargetIsHub"
	// ReasonLocalClusterMismatch means that the agent is not removed because the kubeconfig of the local Cluster
	// points to another cluster.
	ReasonLocalClusterMismatch = "LocalClusterMismatch"

	// ReasonSelectorInvalid means that the label selector of a ClusterGroup or BundleNamespaceMapping is invalid.
	// Everything that depends on it stays unchanged until the selector is corrected.
	ReasonSelectorInvalid = "SelectorInvalid"
	// ReasonClusterGroupUnknown means that the Bundle names a ClusterGroup that does not exist. Deployments to
	// clusters that may be its members stay unchanged.
	ReasonClusterGroupUnknown = "ClusterGroupUnknown"
	// ReasonDependsOnCircle means that the Bundle depends on itself, directly or through other Bundles, so that each
	// waits for the next. The message names them.
	ReasonDependsOnCircle = "DependsOnCircle"
	// ReasonRolloutInvalid means that a field of the Bundle's rollout strategy is invalid. The message names it.
	// Everything stays unchanged until it is corrected.
	ReasonRolloutInvalid = "RolloutInvalid"
	// ReasonPartitionsIncomplete means that a partition names a ClusterGroup that does not exist, or that some of
	// the Bundle's clusters are in no partition and get no updates. The message names the field and, in the second
	// case, a cluster.
	ReasonPartitionsIncomplete = "PartitionsIncomplete"
	// ReasonMappingIncomplete means that a BundleNamespaceMapping does not have both selectors and has no effect.
	ReasonMappingIncomplete = "MappingIncomplete"
	// ReasonMappingRefused means that a BundleNamespaceMapping points to Clusters of another workspace whose
	// annotation fleet.cattle.io/accept-bundles-from does not list this workspace. Bundles are not deployed there.
	// Add the workspace to that annotation of the Namespace, or narrow the mapping's namespaceSelector.
	ReasonMappingRefused = "MappingRefused"

	// ReasonAwaitingAgent means that no agent has reported yet: it is being deployed, or must still be installed.
	ReasonAwaitingAgent = "AwaitingAgent"
	// ReasonAgentNotReporting means that the agent has missed three check-in intervals, or that it was deployed and
	// has not reported within 45 seconds.
	ReasonAgentNotReporting = "AgentNotReporting"

	// ReasonAwaitingCluster means that the Cluster of the request is being created.
	ReasonAwaitingCluster = "AwaitingCluster"
	// ReasonAwaitingNamespace means that the Cluster has no namespace of its own yet.
	ReasonAwaitingNamespace = "AwaitingNamespace"
	// ReasonNameTaken means that an object with a name that the hub needs exists but was not created for this
	// purpose. The hub needs the name for the rights of a registration or a token, or for the Bundle of an agent.
	// The message names the object, which is not changed. Do not delete or label it for a registration that was
	// never granted, because its client chose the name.
	ReasonNameTaken = "NameTaken"
	// ReasonNamespaceTaken means that a namespace with the Cluster's computed name exists but was not created for
	// this Cluster. A request for it that is not granted is deleted after 40 minutes.
	ReasonNamespaceTaken = "NamespaceTaken"
	// ReasonClusterManagedElsewhere means that another manager owns the Cluster of the request, according to its
	// label fleet.cattle.io/cluster-management. This hub does not grant the request.
	ReasonClusterManagedElsewhere = "ClusterManagedElsewhere"
	// ReasonAwaitingRights means that the account's rights were written but are not in effect yet.
	ReasonAwaitingRights = "AwaitingRights"

	// ReasonTakeoverPending means that the request would replace a running agent, but uses another token or names
	// none. The operator must confirm it on the Cluster, or the running agent must stop reporting. A token that was
	// deleted and created again with the same name is another token.
	ReasonTakeoverPending = "TakeoverPending"
	// ReasonAccountReplaced means that the agent's account was deleted and created again. The agent's token is no
	// longer valid, so it must register again.
	ReasonAccountReplaced = "AccountReplaced"

	// ReasonTokenExpired means that the token is past its TTL and is being deleted.
	ReasonTokenExpired = "TokenExpired"
	// ReasonTTLMissing means that the operator requires a TTL for every token and this token has no TTL. It is being
	// deleted.
	ReasonTTLMissing = "TTLMissing"
	// ReasonTokenNameTooLong means that the token's name has more than 63 characters, so that agents cannot use it
	// as a label.
	ReasonTokenNameTooLong = "TokenNameTooLong"
	// ReasonValuesInvalid means that the Secret with the token's values could not be parsed. It is being rewritten.
	ReasonValuesInvalid = "ValuesInvalid"
	// ReasonTokenRejected means that the API server no longer accepts the bearer token in the Secret with the
	// token's values, for example after a change of the signing key. A new bearer token is written, and agents that
	// register later need the new values. If the reason persists, the API server does not accept tokens that it
	// issued itself.
	ReasonTokenRejected = "TokenRejected"
	// ReasonTokenBlocked means that the Cluster's import token gets no values. See the token's condition Ready.
	ReasonTokenBlocked = "TokenBlocked"
	// ReasonTokenUnknown means that the request does not name an existing token, so that no account may read the
	// credential.
	ReasonTokenUnknown = "TokenUnknown"
	// ReasonClientIDMissing means that the request has no client ID, or that the Cluster has neither a client ID nor
	// a kubeconfig from which to get one.
	ReasonClientIDMissing = "ClientIDMissing"
	// ReasonClientIDAmbiguous means that an older Cluster of the namespace has the same client ID. Agents with this
	// client ID belong to the older one.
	ReasonClientIDAmbiguous = "ClientIDAmbiguous"
	// ReasonClientIDTaken means that the Cluster whose name is computed from the client ID has another client ID.
	ReasonClientIDTaken = "ClientIDTaken"
	// ReasonCredentialTaken means that another request with the same client ID and random was granted.
	ReasonCredentialTaken = "CredentialTaken"
	// ReasonTooManyRequests means that 10 older requests with this client ID exist, or that 100 requests of this
	// token are being processed. The request waits for older ones and is deleted after 40 minutes. Requests of a
	// workspace whose tokens do not exist count as requests of one token. If the older requests are a mistake, stop
	// what creates them and delete them.
	ReasonTooManyRequests = "TooManyRequests"
	// ReasonTooManyClusters means that the token of the request has created as many Clusters as the hub allows.
	// Delete unneeded Clusters, register with another token, or raise controller.maxClustersPerToken.
	ReasonTooManyClusters = "TooManyClusters"
	// ReasonClientIDTooLong means that the client ID has more than 1024 bytes and belongs to no Cluster. Set a
	// shorter one in the values of the agent.
	ReasonClientIDTooLong = "ClientIDTooLong"
	// ReasonLabelsLeftOut means that the request was granted, but some of its labels are not copied to the Cluster:
	// they are invalid, or come after the first 64. Correct them in the values of the agent, or label the Cluster.
	ReasonLabelsLeftOut = "LabelsLeftOut"
	// ReasonUnsupported means that this agent cannot deploy the bundle, because its content is in an OCI registry or
	// is a chart that must be downloaded.
	ReasonUnsupported = "Unsupported"
	// ReasonAwaitingDependencies means that bundles on which this one depends are not in an accepted state. It is
	// deployed as soon as they are.
	ReasonAwaitingDependencies = "AwaitingDependencies"
	// ReasonDependencyMissing means that a bundle on which this one depends does not exist.
	ReasonDependencyMissing = "DependencyMissing"
	// ReasonNamespaceRefused means that the bundle may not be deployed to that namespace, because the namespace
	// lacks labels that the bundle's allowedTargetNamespaceSelector requires.
	ReasonNamespaceRefused = "NamespaceRefused"
	// ReasonNamespaceMissing means that the namespace does not exist and that the bundle must not create it.
	ReasonNamespaceMissing = "NamespaceMissing"
	// ReasonOutsideNamespace means that the bundle sets namespace, but an object, hook or CRD of it is
	// cluster-scoped or in another namespace, or an object in its folder crds/ is not a CRD. To lift the
	// restriction, use defaultNamespace instead.
	ReasonOutsideNamespace = "OutsideNamespace"
	// ReasonServiceAccountMissing means that the service account of the bundle does not exist in the agent's
	// namespace.
	ReasonServiceAccountMissing = "ServiceAccountMissing"
	// ReasonForbidden means that the service account of the bundle lacks a right that the bundle needs. It is also
	// set if the bundle sets a service account or namespace and contains a Secret of type helm.sh/release.v1. Remove
	// that Secret: only the agent writes releases.
	ReasonForbidden = "Forbidden"
	// ReasonReleaseTaken means that a Helm release with that name exists and does not belong to the bundle.
	ReasonReleaseTaken = "ReleaseTaken"
	// ReasonObjectTaken means that an object of the bundle exists and does not belong to the bundle. To take it
	// over, set helm.takeOwnership.
	ReasonObjectTaken = "ObjectTaken"
	// ReasonObjectRejected means that the API server rejects an object of the bundle as invalid.
	ReasonObjectRejected = "ObjectRejected"
	// ReasonKindMissing means that the cluster does not have the kind of an object of the bundle. The bundle is
	// deployed as soon as the kind exists.
	ReasonKindMissing = "KindMissing"
	// ReasonContentDamaged means that the Content of the bundle on the hub does not match its hash.
	ReasonContentDamaged = "ContentDamaged"
	// ReasonContentMissing means that the Content of the bundle, or a Secret or ConfigMap that belongs to it, does
	// not exist on the hub.
	ReasonContentMissing = "ContentMissing"
	// ReasonBundleTooLarge means that the bundle, or the Helm release made from it, is larger than can be stored, or
	// that its files have more than 128 MiB in total, decompressed and with packed charts unpacked. Make it smaller,
	// or split it.
	ReasonBundleTooLarge = "BundleTooLarge"
	// ReasonBundleDeploymentForged means that a BundleDeployment requests copies of Secrets or ConfigMaps
	// (downstreamResources), but the hub did not create it for a Cluster that its Bundle may target. Nothing is
	// copied. Delete it: kubectl delete bundledeployment -n <namespace> <name>. If only its Cluster, its Bundle or a
	// mapping is missing, the copies follow when that is created.
	ReasonBundleDeploymentForged = "BundleDeploymentForged"
	// ReasonHelmValuesInvalid means that the Helm values are missing, are not a map, or do not match the chart's
	// schema.
	ReasonHelmValuesInvalid = "HelmValuesInvalid"
	// ReasonManifestInvalid means that a file of the bundle is not valid YAML, is not an object, or has a name that
	// points outside the bundle.
	ReasonManifestInvalid = "ManifestInvalid"
	// ReasonRenderingFailed means that the chart or the kustomization does not render.
	ReasonRenderingFailed = "RenderingFailed"
	// ReasonKubeVersionUnsupported means that the chart does not support the cluster's Kubernetes version.
	ReasonKubeVersionUnsupported = "KubeVersionUnsupported"
	// ReasonNotReadyInTime means that the objects of the bundle were not ready within its timeout.
	ReasonNotReadyInTime = "NotReadyInTime"

	// ReasonSecretNameTaken means that a Secret with the token's name belongs to another owner. It is not changed.
	ReasonSecretNameTaken = "SecretNameTaken"
)

// IsTrouble reports whether a condition needs attention. It does if it is False with a reason, except for
// reasons that begin with "Awaiting" (work in progress) and for an inherited agent, which waits for a decision
// of the operator.
func IsTrouble(condition genericcondition.GenericCondition) bool {
	return condition.Status == corev1.ConditionFalse && condition.Reason != "" &&
		!strings.HasPrefix(condition.Reason, "Awaiting") && condition.Reason != ReasonAgentInherited
}

// GetCondition finds the condition of a type; nil when there is none. The result
// points into the list: do not change it.
func GetCondition(list []genericcondition.GenericCondition, conditionType string) *genericcondition.GenericCondition {
	for i := range list {
		if list[i].Type == conditionType {
			return &list[i]
		}
	}
	return nil
}

// RemoveCondition takes the condition of a type out of the list, which keeps its order.
func RemoveCondition(list *[]genericcondition.GenericCondition, conditionType string) {
	*list = slices.DeleteFunc(*list, func(c genericcondition.GenericCondition) bool { return c.Type == conditionType })
}

// SetCondition adds a condition to the list, or replaces the one of its type. The
// lastUpdateTime becomes now, in UTC and whole seconds, when status, reason or
// message differ, and stays otherwise; lastTransitionTime is never written. The rest of the list keeps its place.
// A message that is longer than MaxMessage is cut, and holds no control characters.
func SetCondition(list *[]genericcondition.GenericCondition, now time.Time, condition genericcondition.GenericCondition) {
	condition.Message = cut.Text(condition.Message, MaxMessage)
	condition.LastTransitionTime = ""
	old := GetCondition(*list, condition.Type)
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
