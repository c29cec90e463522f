package v1alpha1

import (
	"slices"
	"strings"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/cut"
)

// MaxMessage is how many bytes the message of a condition may take as JSON. A longer one is cut.
const MaxMessage = 6 << 10

// Types of conditions. Each is written by one controller, or by the agent.
const (
	// ConditionProcessed, on Cluster and ClusterGroup, is True when the last change was taken in.
	ConditionProcessed = "Processed"
	// ConditionImported, on Cluster, is True when the agent was installed from here.
	ConditionImported = "Imported"
	// ConditionReconciled, on Cluster, is True when the agent's settings were compared with the spec.
	ConditionReconciled = "Reconciled"
	// ConditionAddressKnown, on Cluster, is False while an agent that came by itself knows another URL or CA of the hub
	// than is configured; a Cluster that never had this trouble has no such condition.
	ConditionAddressKnown = "AddressKnown"
	// ConditionAgentManaged, on Cluster, is False while the agent cannot be managed by its Bundle though it
	// should be; a Cluster that never had this trouble has no such condition.
	ConditionAgentManaged = "AgentManaged"
	// ConditionAgentReporting, on Cluster, is True while the agent's heartbeats arrive; one that expects no agent has
	// no such condition.
	ConditionAgentReporting = "AgentReporting"
	// ConditionPartitioned, on Bundle, is False while the partitions of its rollout strategy can hardly be meant as they
	// are: one names a group that is not there, or clusters are in none; a Bundle that never had this trouble has no such
	// condition.
	ConditionPartitioned = "Partitioned"
	// ConditionTargetsKnown, on Bundle, is False while a target or restriction names a ClusterGroup that is not there; a
	// Bundle that never had this trouble has no such condition.
	ConditionTargetsKnown = "TargetsKnown"
	// ConditionTargetsAccepted, on Bundle, is False while a BundleNamespaceMapping leads it to a workspace that does not
	// accept it; a Bundle that never had this trouble has no such condition.
	ConditionTargetsAccepted = "TargetsAccepted"
	// ConditionReady, on Cluster, ClusterGroup, Bundle and BundleDeployment, is True when everything
	// deployed is ready; on ClusterRegistrationToken, when the Secret with the values is there.
	ConditionReady = "Ready"
	// ConditionGranted, on ClusterRegistration, is True when the credential was handed out.
	ConditionGranted = "Granted"
	// ConditionDeployed, on BundleDeployment, is True when the wanted state was applied.
	ConditionDeployed = "Deployed"
	// ConditionInstalled, on BundleDeployment, is True when there is a release.
	ConditionInstalled = "Installed"
	// ConditionMonitored, on BundleDeployment, is True when the deployed resources could be looked at.
	ConditionMonitored = "Monitored"
)

// Reasons, for whoever looks at a condition that is not True. Messages are
// constant for each cause: no times, addresses or versions, or every retry would
// be a change.
const (
	// ReasonError means that something failed in a way without a reason of its own; the message says what.
	ReasonError = "Error"

	// ReasonHubURLMissing means that apiServerURL is configured neither for Fleet nor in the kubeconfig Secret.
	ReasonHubURLMissing = "HubURLMissing"
	// ReasonHubURLInvalid means that the apiServerURL that is configured is no https URL.
	ReasonHubURLInvalid = "HubURLInvalid"
	// ReasonHubCAMissing means that the TLS mode is strict and no CA of the upstream API server is known.
	ReasonHubCAMissing = "HubCAMissing"
	// ReasonKubeconfigMissing means that the Secret named by spec.kubeConfigSecret, or its key, is not there.
	ReasonKubeconfigMissing = "KubeconfigMissing"
	// ReasonKubeconfigInvalid means that the kubeconfig cannot be read or has no usable context.
	ReasonKubeconfigInvalid = "KubeconfigInvalid"
	// ReasonKubeconfigRefused means that the kubeconfig asks for something unsafe, such as a command, a file, another user,
	// a connection without TLS, a proxy, or an address that means the hub itself; the message says what to change.
	ReasonKubeconfigRefused = "KubeconfigRefused"
	// ReasonKubeconfigNamespaceRefused means that the kubeconfig Secret is of another namespace and does not allow the
	// Cluster's workspace to use it, or does not exist; annotate the Secret with fleet.cattle.io/allowed-workspaces.
	ReasonKubeconfigNamespaceRefused = "KubeconfigNamespaceRefused"
	// ReasonKubeconfigExpired means that the client certificate in the kubeconfig has expired; write a new kubeconfig.
	ReasonKubeconfigExpired = "KubeconfigExpired"
	// ReasonDownstreamAnswerRefused means that the downstream API server redirects, or answers with more than 1 MiB; the
	// kubeconfig has to lead to an API server itself.
	ReasonDownstreamAnswerRefused = "DownstreamAnswerRefused"
	// ReasonDownstreamCertificateExpired means that the downstream API server's certificate has expired or is not valid
	// yet; renew it, or correct a clock that is wrong.
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
	// ReasonSettingsInvalid means that a setting of the agent in the spec cannot be used; the message names it.
	ReasonSettingsInvalid = "SettingsInvalid"
	// ReasonAgentElsewhere means that the agent runs in another namespace than the one it would be managed in.
	ReasonAgentElsewhere = "AgentElsewhere"
	// ReasonHubAddressChanged means that the hub's URL or CA is another one than when the agent registered, which nothing
	// can tell the agent once the old one is gone.
	ReasonHubAddressChanged = "HubAddressChanged"
	// ReasonAgentFrozen means that the agent's settings come with its Bundle, which stays as it is while manageAgent is
	// false. Only these settings wait: another URL or CA of the hub, and redeployAgentGeneration, still reach the agent.
	ReasonAgentFrozen = "AgentFrozen"
	// ReasonPullSecretMissing means that a Secret is not there which the agents are to pull their image with.
	ReasonPullSecretMissing = "PullSecretMissing"
	// ReasonAgentInherited means that the agent is another implementation's and stays as it is, until the Cluster is
	// annotated fleet.cattle.io/take-over-agent=true.
	ReasonAgentInherited = "AgentInherited"
	// ReasonAgentPodRejected means that the downstream cluster lets the agent have no pod: a quota, pod security, an
	// admission webhook, or no node takes it.
	ReasonAgentPodRejected = "AgentPodRejected"
	// ReasonAgentPodFailing means that the agent's image cannot be pulled, or its container does not keep running.
	ReasonAgentPodFailing = "AgentPodFailing"
	// ReasonAdmissionDenied means that an admission webhook or policy downstream does not let an object pass, of the agent
	// or of a bundle.
	ReasonAdmissionDenied = "AdmissionDenied"
	// ReasonNamespaceTerminating means that the namespace of the agent, or of a bundle, is being deleted downstream; what
	// was to be deployed there is deployed once it is gone.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonAnotherHub means that the agent in that namespace downstream belongs to another hub.
	ReasonAnotherHub = "AnotherHub"
	// ReasonTargetIsHub means that the kubeconfig leads to the hub's own cluster, which only the workspace of
	// bootstrap.namespace may do; nothing was written.
	ReasonTargetIsHub = "TargetIsHub"
	// ReasonLocalClusterMismatch means that the agent is not removed because the kubeconfig of the local
	// Cluster leads to another one.
	ReasonLocalClusterMismatch = "LocalClusterMismatch"

	// ReasonSelectorInvalid means that the label selector of a ClusterGroup or BundleNamespaceMapping does not
	// parse; what depends on it stays as it is until the selector is corrected.
	ReasonSelectorInvalid = "SelectorInvalid"
	// ReasonClusterGroupUnknown means that the Bundle names a ClusterGroup that is not there; what was deployed to
	// clusters that could be its members stays as it is.
	ReasonClusterGroupUnknown = "ClusterGroupUnknown"
	// ReasonDependsOnCircle means that the Bundle depends on itself, by way of others or directly, so that each of them
	// waits for the next; the message names them.
	ReasonDependsOnCircle = "DependsOnCircle"
	// ReasonRolloutInvalid means that a field of the Bundle's rollout strategy cannot be used; the message names it.
	// Everything stays as it is until it is corrected.
	ReasonRolloutInvalid = "RolloutInvalid"
	// ReasonPartitionsIncomplete means that a partition names a ClusterGroup that is not there, or some of the
	// Bundle's clusters are in no partition and get nothing new; the message names the field and, then, a cluster.
	ReasonPartitionsIncomplete = "PartitionsIncomplete"
	// ReasonMappingIncomplete means that a BundleNamespaceMapping has only one of its two selectors, or none,
	// and does nothing.
	ReasonMappingIncomplete = "MappingIncomplete"
	// ReasonMappingRefused means that a BundleNamespaceMapping leads to Clusters of another workspace, whose Namespace has
	// the annotation fleet.cattle.io/accept-bundles-from and does not list this one: its Bundles do not go there. Add the
	// workspace to that list, if that is meant, or narrow the mapping's namespaceSelector.
	ReasonMappingRefused = "MappingRefused"

	// ReasonAwaitingAgent means that no agent was heard of yet: it is being deployed, or has yet to be installed.
	ReasonAwaitingAgent = "AwaitingAgent"
	// ReasonAgentNotReporting means that the agent has missed three check-in intervals, or it was deployed and was
	// not heard of within 45 seconds.
	ReasonAgentNotReporting = "AgentNotReporting"

	// ReasonAwaitingCluster means that the Cluster of the request is being created.
	ReasonAwaitingCluster = "AwaitingCluster"
	// ReasonAwaitingNamespace means that the Cluster has no namespace of its own yet.
	ReasonAwaitingNamespace = "AwaitingNamespace"
	// ReasonNameTaken means that an object exists of a name that the hub needs, for the rights of a registration or a token
	// or for the Bundle of an agent, and was not made for it; the message names the object, which is left as it is.
	// Do not delete or label it for a registration that was never granted: its client chose the name.
	ReasonNameTaken = "NameTaken"
	// ReasonNamespaceTaken means that a namespace of the Cluster's computed name exists and was not made for this Cluster.
	// A request for it that is not granted is deleted after 40 minutes.
	ReasonNamespaceTaken = "NamespaceTaken"
	// ReasonClusterManagedElsewhere means that another manager owns the Cluster of the request, as its label
	// fleet.cattle.io/cluster-management says; this hub grants nothing for it.
	ReasonClusterManagedElsewhere = "ClusterManagedElsewhere"
	// ReasonAwaitingRights means that the account's rights were written and are not seen yet.
	ReasonAwaitingRights = "AwaitingRights"

	// ReasonTakeoverPending means that the request would take the place of an agent that is at work, and comes with
	// another token, or names none: the operator has to confirm it on the Cluster, or that agent has to be gone. A
	// token that was deleted and created again under the same name is another token.
	ReasonTakeoverPending = "TakeoverPending"
	// ReasonAccountReplaced means that the agent's account was deleted and made anew, so that the token the agent may
	// hold has ended: it has to register again.
	ReasonAccountReplaced = "AccountReplaced"

	// ReasonTokenExpired means that the token is past its TTL and is being deleted.
	ReasonTokenExpired = "TokenExpired"
	// ReasonTTLMissing means that the operator wants every token to have a TTL, and this one, which is being
	// deleted, has none.
	ReasonTTLMissing = "TTLMissing"
	// ReasonTokenNameTooLong means that the token's name has more than 63 characters, so that no agent could
	// repeat it in a label.
	ReasonTokenNameTooLong = "TokenNameTooLong"
	// ReasonValuesInvalid means that the Secret with the token's values cannot be read, and is written anew.
	ReasonValuesInvalid = "ValuesInvalid"
	// ReasonTokenRejected means that the API server no longer accepts the bearer token in the Secret with the values of
	// the token, as after a change of its signing key: another one is written, and agents that are still to register
	// need the new values. If it stays, the API server does not accept the tokens it issues itself.
	ReasonTokenRejected = "TokenRejected"
	// ReasonTokenBlocked means that the Cluster's import token gets no values; its condition Ready says why.
	ReasonTokenBlocked = "TokenBlocked"
	// ReasonTokenUnknown means that the request names no token that exists, so that nobody may read its answer.
	ReasonTokenUnknown = "TokenUnknown"
	// ReasonClientIDMissing means that the request names no client ID, or the Cluster has none and no
	// kubeconfig by which it would get one.
	ReasonClientIDMissing = "ClientIDMissing"
	// ReasonClientIDAmbiguous means that an older Cluster of the namespace has the same client ID, and agents
	// with it are that one's.
	ReasonClientIDAmbiguous = "ClientIDAmbiguous"
	// ReasonClientIDTaken means that a Cluster of the name that the client ID gives has another client ID.
	ReasonClientIDTaken = "ClientIDTaken"
	// ReasonCredentialTaken means that another request with the same client ID and random was answered.
	ReasonCredentialTaken = "CredentialTaken"
	// ReasonTooManyRequests means that 10 older requests with this client ID are there, or 100 of this token are
	// being answered: the request waits for its turn, oldest first, and is deleted after 40 minutes. Requests of a
	// workspace that name tokens that do not exist count as those of one token. If the older ones are a mistake, stop
	// what creates them and delete them.
	ReasonTooManyRequests = "TooManyRequests"
	// ReasonTooManyClusters means that the token of the request has created as many Clusters as the hub allows: delete
	// Clusters that are not needed, register with another token, or raise controller.maxClustersPerToken.
	ReasonTooManyClusters = "TooManyClusters"
	// ReasonClientIDTooLong means that the client ID has more than 1024 bytes, and no Cluster has it: set a shorter one
	// in the values of the agent.
	ReasonClientIDTooLong = "ClientIDTooLong"
	// ReasonLabelsLeftOut means that the request was granted although some of the labels that it proposes are never
	// copied to a Cluster: they are not valid, or come after the first 64. Correct them in the values of the agent, or
	// label the Cluster.
	ReasonLabelsLeftOut = "LabelsLeftOut"
	// ReasonUnsupported means that this agent cannot deploy such a bundle: its content is in an OCI registry, or a chart
	// that the agent would have to download.
	ReasonUnsupported = "Unsupported"
	// ReasonAwaitingDependencies means that bundles this one depends on are not in a state it accepts; it is deployed
	// as soon as they are.
	ReasonAwaitingDependencies = "AwaitingDependencies"
	// ReasonDependencyMissing means that no bundle is there which this one depends on.
	ReasonDependencyMissing = "DependencyMissing"
	// ReasonNamespaceRefused means that the bundle may not be deployed to that namespace: its
	// allowedTargetNamespaceSelector asks for labels which the namespace does not have.
	ReasonNamespaceRefused = "NamespaceRefused"
	// ReasonNamespaceMissing means that the namespace is not there, and the bundle must not create it.
	ReasonNamespaceMissing = "NamespaceMissing"
	// ReasonOutsideNamespace means that the bundle has namespace, and an object, hook or CRD of it would be in no
	// namespace or in another one, or an object in its folder crds/ is no CRD; defaultNamespace sets no such bound.
	ReasonOutsideNamespace = "OutsideNamespace"
	// ReasonServiceAccountMissing means that the service account of the bundle is not in the agent's namespace.
	ReasonServiceAccountMissing = "ServiceAccountMissing"
	// ReasonForbidden means that the service account of the bundle may not do what the bundle asks for; or the bundle has
	// a service account or namespace and brings a Secret of type helm.sh/release.v1, which is to be taken out of it:
	// releases are the agent's to write.
	ReasonForbidden = "Forbidden"
	// ReasonReleaseTaken means that there is a Helm release of that name, and it is somebody else's.
	ReasonReleaseTaken = "ReleaseTaken"
	// ReasonObjectTaken means that an object of the bundle exists and is somebody else's; helm.takeOwnership takes it
	// over.
	ReasonObjectTaken = "ObjectTaken"
	// ReasonObjectRejected means that the API server does not take an object of the bundle for valid.
	ReasonObjectRejected = "ObjectRejected"
	// ReasonKindMissing means that the cluster does not know the kind of an object of the bundle; it is deployed as soon
	// as it does.
	ReasonKindMissing = "KindMissing"
	// ReasonContentDamaged means that the Content of the bundle on the hub does not match its hash.
	ReasonContentDamaged = "ContentDamaged"
	// ReasonContentMissing means that the Content of the bundle, or a Secret or ConfigMap that goes with it, is not on
	// the hub.
	ReasonContentMissing = "ContentMissing"
	// ReasonBundleTooLarge means that the bundle, or the Helm release made of it, has more bytes than can be stored; or its
	// files have more than 128 MiB together, decompressed and with their packed charts unpacked: make it smaller, or
	// several of it.
	ReasonBundleTooLarge = "BundleTooLarge"
	// ReasonBundleDeploymentForged means that a BundleDeployment asks for copies of Secrets or ConfigMaps
	// (downstreamResources) and is not one that the hub has made for a Cluster its Bundle may go to, so that nothing is
	// copied. Delete it: kubectl delete bundledeployment -n <namespace> <name>. Where only its Cluster, its Bundle or a
	// mapping is missing, the copies follow when that is created.
	ReasonBundleDeploymentForged = "BundleDeploymentForged"
	// ReasonHelmValuesInvalid means that the Helm values are missing, are no map, or do not fit the chart's schema.
	ReasonHelmValuesInvalid = "HelmValuesInvalid"
	// ReasonManifestInvalid means that a file of the bundle is no valid YAML, is no object, or has a name that leads out
	// of the bundle.
	ReasonManifestInvalid = "ManifestInvalid"
	// ReasonRenderingFailed means that the chart or the kustomization does not render.
	ReasonRenderingFailed = "RenderingFailed"
	// ReasonKubeVersionUnsupported means that the chart is for other versions of Kubernetes.
	ReasonKubeVersionUnsupported = "KubeVersionUnsupported"
	// ReasonNotReadyInTime means that the objects of the bundle were not ready within its timeout.
	ReasonNotReadyInTime = "NotReadyInTime"

	// ReasonSecretNameTaken means that a Secret of the token's name belongs to somebody else and is left alone.
	ReasonSecretNameTaken = "SecretNameTaken"
)

// IsTrouble says whether a condition names something that somebody has to see to: it is False for a reason, and not
// because something is on its way, as the reasons that begin with "Awaiting" say, or waits for an operator's decision
// that may take its time, as an agent does that was inherited.
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
