// Package remedy knows the commands that docs/conditions.md names for the reasons of conditions.
//
//	reason, object ─► OfCluster, OfRegistration, OfToken ─► a command to paste, or ""
//
// Tenants choose names in these objects. The commands quote them, and there is no command for what is not a name.
package remedy

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleet-hub/fleet/internal/protocol"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/capi"
	"github.com/fleet-hub/fleet/internal/rules/capi/joining"
	"github.com/fleet-hub/fleet/internal/rules/clusters"
	"github.com/fleet-hub/fleet/internal/rules/hubaddress"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Quote returns a text as one word of a POSIX shell.
func Quote(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Command returns a command line of these words.
func Command(words ...string) string {
	quoted := make([]string, 0, len(words))
	for _, word := range words {
		quoted = append(quoted, Quote(word))
	}
	return strings.Join(quoted, " ")
}

// Describe returns the command that shows an object of the API group fleet.cattle.io with its conditions.
func Describe(resource, namespace, name string) string {
	return Command("kubectl", "describe", resource+"."+fleet.GroupName, "-n", namespace, name)
}

// Patch returns the command that changes fields of an object of the API group fleet.cattle.io.
func Patch(resource string, object metav1.Object, fields map[string]any) string {
	patch, err := json.Marshal(fields)
	if err != nil {
		panic(err) // fields are texts, numbers and maps of them
	}
	return Command("kubectl", "patch", resource+"."+fleet.GroupName, "-n", object.GetNamespace(), object.GetName(), "--type=merge", "-p", string(patch))
}

// ifNamed returns a command line, or "" if name is not a name of an object. Fields of a spec that name an object may
// contain anything, such as --server=https://example.org, which kubectl would take for a flag.
func ifNamed(name string, words ...string) string {
	if !isName(name) {
		return ""
	}
	return Command(words...)
}

// NameOr returns a text if it is a name of an object, otherwise a placeholder for the reader to replace.
func NameOr(text, placeholder string) string {
	if !isName(text) {
		return placeholder
	}
	return text
}

func isName(text string) bool { return len(validation.IsDNS1123Subdomain(text)) == 0 }

// upgradeHub is the command that changes one value of the hub's chart, and is followed by the value.
const upgradeHub = "helm upgrade -n " + names.SystemNamespace + " fleet charts/fleet --reset-then-reuse-values "

// controllerLog is the command that reads the log of the hub's controllers.
const controllerLog = "kubectl logs -n " + names.SystemNamespace + " deployment/fleet-controller"

// OfCluster returns the command for a reason of a Cluster's condition, or "" if there is none. Commands for the cluster
// itself, not for the hub, contain --context NAME.
func OfCluster(cluster *fleet.Cluster, reason string) string {
	namespace, name := cluster.Namespace, cluster.Name
	switch reason {
	case conditions.ReasonError:
		return controllerLog
	case conditions.ReasonKubeconfigMissing, conditions.ReasonKubeconfigExpired, conditions.ReasonDownstreamUnauthorized,
		conditions.ReasonKubeconfigInvalid, conditions.ReasonKubeconfigRefused:
		return writeKubeconfig(cluster, reason, "")
	case conditions.ReasonKubeconfigNamespaceRefused:
		secret := clusters.KubeconfigSecret(cluster)
		// Without --overwrite: kubectl then refuses to replace a list of other workspaces, and shows it.
		return ifNamed(secret.Name, "kubectl", "annotate", "secret", "-n", secret.Namespace, secret.Name,
			annotation.AllowedWorkspaces+"="+namespace)
	case conditions.ReasonHubURLMissing, conditions.ReasonHubURLInvalid:
		return unlessInSecret(cluster, protocol.APIServerURLKey) + upgradeHub + "--set apiServerURL=https://HUB:6443"
	case conditions.ReasonHubCAMissing, conditions.ReasonHubCAInvalid:
		return unlessInSecret(cluster, protocol.APIServerCAKey) + upgradeHub + "--set-file apiServerCA=hub-ca.pem"
	case conditions.ReasonAgentInherited:
		return Command("kubectl", "annotate", "clusters.fleet.cattle.io", "-n", namespace, name, annotation.TakeOverAgent+"=true")
	case conditions.ReasonHubAddressChanged:
		repair := Command("fleet", "repair", name, "-n", namespace)
		if hubaddress.ReadsDocument(cluster) {
			return "wait: the agent takes over the address within a day. To move it now: " + repair
		}
		return repair
	case conditions.ReasonTokenBlocked:
		return Describe("clusterregistrationtokens", namespace, names.ImportToken(name))
	}
	return ofAgent(cluster, reason)
}

// unlessInSecret returns the start of a sentence that ends with the command for the hub's chart, if a key of the kubeconfig Secret
// can contain the setting: that key counts before the chart.
func unlessInSecret(cluster *fleet.Cluster, key string) string {
	secret := clusters.KubeconfigSecret(cluster)
	if !isName(secret.Name) || !isName(secret.Namespace) {
		return ""
	}
	return "correct the key " + key + " of Secret " + secret.String() + " if it has one, otherwise: "
}

// ofAgent returns the command for a reason that concerns the agent.
func ofAgent(cluster *fleet.Cluster, reason string) string {
	there := []string{"kubectl", "--context", cluster.Name}
	if isHub(cluster) {
		there = there[:1] // users have no context of this name
	}
	there = append(there, "-n", cmp.Or(cluster.Spec.AgentNamespace, names.SystemNamespace))
	switch {
	case reason == conditions.ReasonAgentPodFailing, reason == conditions.ReasonAgentPodRejected:
		return Command(append(there, "describe", "pods")...)
	case reason == conditions.ReasonAgentNotReporting:
		return Command(append(there, "logs", "deployment/"+names.Agent)...)
	case reason == conditions.ReasonAwaitingAgent && capi.IsByManifest(cluster):
		secret := Command("kubectl", "get", "secret", "-n", cluster.Namespace, joining.SecretName(cluster.Name), "-o", "jsonpath={.data.value}")
		return secret + " | base64 -d | " + Command("kubectl", "--context", cluster.Name, "apply", "--server-side", "-f", "-")
	case reason == conditions.ReasonAwaitingAgent && cluster.Spec.KubeConfigSecret == "":
		return Command("fleet", "token", "create", cluster.Name, "--cluster", cluster.Name, "-n", cluster.Namespace)
	}
	return ""
}

// isHub reports whether a Cluster is the hub's own.
func isHub(cluster *fleet.Cluster) bool {
	secret := clusters.KubeconfigSecret(cluster)
	return cluster.Name == names.LocalCluster && secret.Name == names.LocalKubeconfig && secret.Namespace == cluster.Namespace
}

// OfRefusedAddress returns the command for a kubeconfig whose address the hub refuses, or "". The user's own kubeconfig may
// contain the same address, so the user has to replace HOST.
func OfRefusedAddress(cluster *fleet.Cluster) string {
	return writeKubeconfig(cluster, conditions.ReasonKubeconfigInvalid, " | sed 's|server: .*|server: https://HOST:6443|'")
}

// writeKubeconfig returns the command that writes a kubeconfig of the cluster into its Secret. filter is a pipe that changes
// the user's own kubeconfig, or empty.
func writeKubeconfig(cluster *fleet.Cluster, reason, filter string) string {
	if capi.HasProvidersKubeconfig(cluster) {
		// A Secret of the user keeps the provider from writing its own, and its type cannot be changed.
		return Command("kubectl", "describe", "clusters."+capi.Group, "-n", cluster.Namespace, cluster.Name)
	}
	file, secret := cluster.Name+".kubeconfig", clusters.KubeconfigSecret(cluster)
	if isHub(cluster) {
		return Command("kubectl", "delete", "secret", "-n", secret.Namespace, secret.Name) // the hub writes it again, with a new token
	}
	create := ifNamed(secret.Name, "kubectl", "create", "secret", "generic", "-n", secret.Namespace, secret.Name,
		"--from-file=value="+file)
	if create == "" {
		return ""
	}
	switch reason {
	case conditions.ReasonKubeconfigMissing:
		return create
	case conditions.ReasonKubeconfigInvalid:
		create = Command("kubectl", "config", "view", "--raw", "--flatten", "--minify", "--context", cluster.Name) + filter + " > " + Quote(file) + " && " + create
	}
	return create + " --dry-run=client -o yaml | kubectl apply -f -"
}

// Join returns the command that prints the text with which a Cluster without an agent joins, or that applies its manifest. It is ""
// if the hub installs the agent. tokens are those of the workspace.
func Join(cluster *fleet.Cluster, tokens []*fleet.ClusterRegistrationToken) string {
	create := OfCluster(cluster, conditions.ReasonAwaitingAgent)
	if cluster.Spec.KubeConfigSecret != "" || capi.IsByManifest(cluster) { // the text of its token would join it without its settings
		return create
	}
	if show := ShowToken(cluster, tokens); show != "" {
		return show
	}
	if slices.ContainsFunc(tokens, func(t *fleet.ClusterRegistrationToken) bool {
		return t.Namespace == cluster.Namespace && t.Name == cluster.Name
	}) {
		return Command("fleet", "repair", cluster.Name, "-n", cluster.Namespace) // its token has another name
	}
	return create
}

// ShowToken returns the command that prints the text of a token with which a Cluster can join, or "" if none of the tokens is for
// it. A Cluster that was created again may have another client ID than its token.
func ShowToken(cluster *fleet.Cluster, tokens []*fleet.ClusterRegistrationToken) string {
	for _, token := range tokens {
		ready := conditions.Get(token.Status.Conditions, conditions.Ready)
		only, limited := token.Annotations[annotation.TokenForClientID]
		switch {
		case token.Namespace != cluster.Namespace, token.Annotations[annotation.TokenForCluster] != cluster.Name:
		case cluster.Spec.ClientID == "", limited && only != cluster.Spec.ClientID:
		case token.DeletionTimestamp == nil && (ready == nil || !conditions.IsTrouble(*ready)):
			return Command("fleet", "token", "show", token.Name, "--with-secret", "-n", token.Namespace)
		}
	}
	return ""
}

// OfRegistration returns the command for a reason of a ClusterRegistration's condition, or "" if there is none.
func OfRegistration(request *fleet.ClusterRegistration, reason string) string {
	cluster := request.Status.ClusterName
	if !isName(cluster) {
		return ""
	}
	switch reason {
	case conditions.ReasonTakeoverPending:
		return Command("fleet", "confirm-takeover", cluster, request.Name, "-n", request.Namespace)
	case conditions.ReasonAccountReplaced, conditions.ReasonTokenUnknown:
		return Command("fleet", "repair", cluster, "-n", request.Namespace)
	case conditions.ReasonClusterManagedElsewhere:
		return Command("kubectl", "label", "clusters.fleet.cattle.io", "-n", request.Namespace, cluster, fleet.LabelClusterManagement+"-")
	case conditions.ReasonError:
		return controllerLog
	}
	return ""
}

// OfToken returns the command for a reason of a ClusterRegistrationToken's condition, or "" if there is none.
func OfToken(token *fleet.ClusterRegistrationToken, reason string) string {
	switch reason {
	case conditions.ReasonSecretNameTaken:
		return Command("kubectl", "describe", "secret", "-n", token.Namespace, token.Name)
	case conditions.ReasonTokenExpired, conditions.ReasonTTLMissing:
		return Command("fleet", "token", "create", token.Name, "-n", token.Namespace)
	case conditions.ReasonError:
		return controllerLog
	}
	return ""
}

// StopsImport reports whether the hub installs no agent until a person has corrected the cause of a reason.
func StopsImport(reason string) bool {
	switch reason {
	case conditions.ReasonKubeconfigRefused, conditions.ReasonKubeconfigInvalid, conditions.ReasonKubeconfigExpired, conditions.ReasonKubeconfigNamespaceRefused,
		conditions.ReasonTargetIsHub, conditions.ReasonAnotherHub, conditions.ReasonHubURLMissing, conditions.ReasonHubURLInvalid, conditions.ReasonHubCAMissing, conditions.ReasonHubCAInvalid,
		conditions.ReasonPullSecretMissing, conditions.ReasonTLSUntrusted, conditions.ReasonTLSModeUnknown, conditions.ReasonNamespaceTaken, conditions.ReasonAdmissionDenied,
		conditions.ReasonDownstreamAnswerRefused, conditions.ReasonAgentInherited:
		return true
	}
	return false
}

// IsOutside reports whether a person corrects the cause of a reason of StopsImport on the other cluster. The hub gets no event of
// that, and tries again at once only for another spec.redeployAgentGeneration.
func IsOutside(reason string) bool {
	switch reason {
	case conditions.ReasonAnotherHub, conditions.ReasonAdmissionDenied, conditions.ReasonTLSUntrusted, conditions.ReasonDownstreamAnswerRefused,
		conditions.ReasonNamespaceTaken:
		return true
	}
	return false
}
