package hub

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/apply"
	"github.com/fleet-hub/fleet/internal/cmd/cli/bundlefile"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/checktest"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/version"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func TestHealthyHub_PassesEveryCheck(t *testing.T) {
	for _, row := range check.Run(Checks(), healthy(t), nil) {
		if row.Verdict != check.OK || row.Fix != "" {
			t.Errorf("%+v", row)
		}
	}
}

func TestEmptyHub_PassesEveryCheckOfObjects(t *testing.T) {
	f := healthy(t)
	empty := &Facts{Scope: Scope{System: f.System}, Now: f.Now, CRDs: f.CRDs, Embedded: f.Embedded, Config: f.Config, Leases: f.Leases, Deployments: f.Deployments}
	for _, row := range check.Run(Checks(), empty, nil) {
		if row.Verdict != check.OK {
			t.Errorf("%+v", row)
		}
	}
}

// fault is a problem that one check has to find.
type fault = checktest.Fault[*Facts]

const (
	logs      = "kubectl logs -n cattle-fleet-system deployment/fleet-controller"
	upgrade   = "helm upgrade -n cattle-fleet-system fleet charts/fleet --reset-then-reuse-values"
	crdsFix   = "helm upgrade --install crds charts/fleet-crd -n of-crds"
	migration = "do not upgrade the chart yet, follow docs/migration.md from its beginning: kubectl get deployments -n cattle-system rancher"
	setCA     = "kubectl config view --raw --minify --flatten -o 'jsonpath={.clusters[0].cluster.certificate-authority-data}' | base64 -d > hub-ca.pem && " + upgrade + " --set-file apiServerCA=hub-ca.pem"
	newSecret = "kubectl create secret generic -n fleet-default east-kubeconfig --from-file=value=east.kubeconfig"
	write     = newSecret + " --dry-run=client -o yaml | kubectl apply -f -"
	address   = "kubectl config view --raw --flatten --minify --context east | sed 's|server: .*|server: https://HOST:6443|' > east.kubeconfig && "
	configMap = "ConfigMap cattle-fleet-system/fleet-controller"
	west      = "Cluster fleet-default/west"
	east      = "Cluster fleet-default/east"
	mapping   = "BundleNamespaceMapping fleet-default/shared"
	westNS    = "cluster-fleet-default-west-b051c957a561"
)

func faults() map[string]fault {
	return map[string]fault{
		"CRD is missing":         {"hub-crds", func(f *Facts) { *clusterCRD(f) = f.CRDs[0] }, "CustomResourceDefinition clusters.fleet.cattle.io", check.Failed, "does not exist", crdsFix},
		"CRD is not established": {"hub-crds", func(f *Facts) { clusterCRD(f).Status.Conditions = nil }, "CustomResourceDefinition clusters.fleet.cattle.io", check.Failed, "does not serve the CRD yet", "kubectl describe crd clusters.fleet.cattle.io"},
		"CRD is being deleted":   {"hub-crds", func(f *Facts) { clusterCRD(f).DeletionTimestamp = new(clitest.Ago(0)) }, "CustomResourceDefinition clusters.fleet.cattle.io", check.Failed, "is being deleted", "kubectl describe crd clusters.fleet.cattle.io"},
		"CRD is of an older release": {"hub-crds-fields", func(f *Facts) {
			delete(clusterCRD(f).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties, "status")
		}, "CustomResourceDefinition clusters.fleet.cattle.io", check.Failed, "drops status", crdsFix},

		"CRD of an older release was not installed by Helm": {"hub-crds-fields", func(f *Facts) {
			clusterCRD(f).Annotations = nil
			delete(clusterCRD(f).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties, "status")
		}, "CustomResourceDefinition clusters.fleet.cattle.io", check.Failed, "drops status", crdsFix + " --take-ownership"},
		"no CRD exists": {"hub-crds", func(f *Facts) {
			f.CRDs, f.Embedded = nil, []apiextensions.CustomResourceDefinition{*clusterCRD(f)}
		}, "CustomResourceDefinition clusters.fleet.cattle.io", check.Failed, "does not exist", "helm upgrade --install fleet-crd charts/fleet-crd -n cattle-fleet-system"},

		"hub is not installed":         {"hub-config", func(f *Facts) { f.Config = Configuration{} }, configMap, check.Failed, "does not exist", "helm upgrade --install fleet charts/fleet -n cattle-fleet-system --create-namespace -f fleet-values.yaml"},
		"configuration cannot be read": {"hub-config", func(f *Facts) { f.Config.Err = errors.New("line 3") }, configMap, check.Failed, "keep their former configuration: line 3", upgrade},
		"configuration has a mistake":  {"hub-config", func(f *Facts) { f.Config.Warnings = []string{"agentCheckinInterval: 15 is not a duration"} }, configMap, check.Warning, "agentCheckinInterval", upgrade},
		"image of another version": {"hub-version", func(f *Facts) {
			f.Deployments[0] = deployment("fleet-controller", "fleethub/fleet:v1.1.0@sha256:0", 1, 1)
		}, "Deployment cattle-fleet-system/fleet-controller", check.Failed, "ignore the configuration", upgrade},
		"controllers are not installed": {"hub-controllers", func(f *Facts) { f.Deployments = nil }, "Deployment cattle-fleet-system/fleet-controller", check.Failed, "does not exist", upgrade + " --install"},
		"controllers are scaled to 0":   {"hub-controllers", func(f *Facts) { f.Deployments[0] = deployment("fleet-controller", "a", 0, 0) }, "Deployment cattle-fleet-system/fleet-controller", check.Failed, "scaled to 0", "kubectl scale -n cattle-fleet-system deployment/fleet-controller --replicas=1"},
		"no controller is ready":        {"hub-controllers", func(f *Facts) { f.Deployments[0].Status.ReadyReplicas = 0 }, "Deployment cattle-fleet-system/fleet-controller", check.Failed, "0 of 2 pods", "kubectl describe pods -n cattle-fleet-system -l app=fleet-controller"},
		"an upgrade hangs": {"hub-controllers", func(f *Facts) {
			f.Deployments[0].Status.ReadyReplicas, f.Deployments[0].Status.UnavailableReplicas = 2, 1
		}, "Deployment cattle-fleet-system/fleet-controller", check.Warning, "an upgrade is not complete", "kubectl describe pods -n cattle-fleet-system -l app=fleet-controller"},
		"a controller is not ready": {"hub-controllers", func(f *Facts) { f.Deployments[0].Status.ReadyReplicas = 1 }, "Deployment cattle-fleet-system/fleet-controller", check.Warning, "1 of 2 pods", "kubectl describe pods -n cattle-fleet-system -l app=fleet-controller"},
		"Lease does not exist":      {"hub-leases", func(f *Facts) { f.Leases = f.Leases[1:] }, "Lease cattle-fleet-system/fleet-agentmanagement-lock", check.Failed, "does not exist", "kubectl get pods -n cattle-fleet-system"},
		"Lease is not renewed":      {"hub-leases", func(f *Facts) { f.Leases[1] = lease(names.CleanupLease, "x", time.Hour) }, "Lease cattle-fleet-system/fleet-cleanup-lock", check.Failed, "x has not renewed the Lease for 60m", "kubectl get pods -n cattle-fleet-system"},
		"Lease was released":        {"hub-leases", func(f *Facts) { f.Leases[2] = lease(names.DeliveryLease, "", time.Second) }, "Lease cattle-fleet-system/fleet-controller-leader-election-shard", check.Failed, "no process holds the Lease", "kubectl get pods -n cattle-fleet-system"},
		"Rancher Fleet holds a Lease": {"hub-other-manager", func(f *Facts) {
			f.Leases[0] = lease(names.ControllerLease, "fleet-agentmanagement-7c9_1f2e", time.Second)
		}, "Lease cattle-fleet-system/fleet-agentmanagement-lock", check.Failed, "is not a controller of this product", migration},
		"Rancher Fleet is installed": {"hub-other-manager", func(f *Facts) {
			f.Deployments = append(f.Deployments, deployment("gitjob", "registry/rancher/fleet:v0.13.0", 1, 1))
		}, "Deployment cattle-fleet-system/gitjob", check.Failed, "Rancher Fleet's controllers run on this hub", migration},

		"Service of a webhook is missing": {"hub-webhooks", func(f *Facts) { f.Services = nil }, "ValidatingWebhookConfiguration guard", check.Failed, "its Service guard/webhook does not exist", "kubectl delete validatingwebhookconfiguration.admissionregistration.k8s.io guard"},

		"Service of another webhook is missing": {"hub-webhooks", func(f *Facts) {
			w := f.Validating[0].Webhooks[0]
			f.Mutating = []*admissionregistrationv1.MutatingWebhookConfiguration{{ObjectMeta: f.Validating[0].ObjectMeta, Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules,
			}}}}
			f.Validating, f.Services = nil, nil
		}, "MutatingWebhookConfiguration guard", check.Failed, "its Service guard/webhook does not exist", "kubectl delete mutatingwebhookconfiguration.admissionregistration.k8s.io guard"},

		"no URL":                       {"hub-url", func(f *Facts) { f.Config.APIServerURL = "" }, configMap, check.Failed, "is not set", upgrade + " --set apiServerURL=https://hub.example.com:6443"},
		"URL of HTTP":                  {"hub-url", func(f *Facts) { f.Config.APIServerURL = "http://hub" }, configMap, check.Failed, `apiServerURL "http://hub"`, upgrade + " --set apiServerURL=https://hub.example.com:6443"},
		"no CA":                        {"hub-ca", func(f *Facts) { f.Config.APIServerCA = nil }, configMap, check.Failed, "strict and apiServerCA is not set", setCA},
		"CA is not PEM":                {"hub-ca", func(f *Facts) { f.Config.APIServerCA = []byte("x") }, configMap, check.Failed, "no certificate in PEM", setCA},
		"CA has expired":               {"hub-ca", func(f *Facts) { f.Now = f.Now.AddDate(2, 0, 0) }, configMap, check.Failed, "the CA in apiServerCA expired on 2027-05-04", setCA},
		"CA expires soon":              {"hub-ca", func(f *Facts) { f.Now = f.Now.AddDate(1, 0, -20) }, configMap, check.Warning, "expires in 20d", setCA},
		"unknown TLS mode":             {"hub-ca", func(f *Facts) { f.Config.AgentTLSMode = "lax" }, configMap, check.Failed, `agentTLSMode "lax"`, upgrade + " --set agentTLSMode=strict"},
		"certificate expires tomorrow": {"hub-certificate", func(f *Facts) { f.Address.Expires = f.Now.Add(30 * time.Hour) }, configMap, check.Failed, "expires in 30h", "renew the certificate of the hub's API server, with kubeadm: kubeadm certs renew apiserver"},
		"no server answers":            {"hub-certificate", func(f *Facts) { f.Address = Probe{Done: true, Err: errors.New("dial tcp: refused")} }, configMap, check.Failed, "no TLS server answers", upgrade + " --set apiServerURL=https://hub.example.com:6443"},

		"namespace of a Cluster is taken":    {"hub-clusters-conditions", with(conditions.Processed, conditions.ReasonNamespaceTaken, "taken"), west, check.Failed, "NamespaceTaken: taken", "kubectl describe clusters.fleet.cattle.io -n fleet-default west"},
		"hub address has changed: a warning": {"hub-clusters-conditions", with(conditions.AddressKnown, conditions.ReasonHubAddressChanged, "changed"), west, check.Warning, "HubAddressChanged: changed", "fleet repair west -n fleet-default"},
		"agent no longer reports":            {"hub-clusters-silent", with(conditions.AgentReporting, conditions.ReasonAgentNotReporting, "silent"), west, check.Failed, "has not reported since 2026-05-04T11:59:00Z", "kubectl --context west -n cattle-fleet-system logs deployment/fleet-agent"},
		"agent has never reported": {"hub-clusters-silent", func(f *Facts) {
			with(conditions.AgentReporting, conditions.ReasonAgentNotReporting, "silent")(f)
			f.Clusters[0].Status.Agent.LastSeen = metav1.Time{}
		}, west, check.Failed, "has never reported", "kubectl --context west -n cattle-fleet-system logs deployment/fleet-agent"},
		"Cluster waits for an agent": {"hub-clusters-waiting", func(f *Facts) { f.Clusters[0].Status.Agent.LastSeen = metav1.Time{} }, west, check.Warning, "no agent has joined", "fleet repair west -n fleet-default"},
		"Cluster waits, and has a token": {"hub-clusters-waiting", func(f *Facts) {
			f.Clusters[0].Status.Agent.LastSeen = metav1.Time{}
			f.Tokens[0].Annotations = map[string]string{annotation.TokenForCluster: "west"}
		}, west, check.Warning, "no agent has joined", "fleet token show west --with-secret -n fleet-default"},
		"Cluster waits, and has a manifest": {"hub-clusters-waiting", func(f *Facts) {
			f.Clusters[0].Status.Agent.LastSeen = metav1.Time{}
			f.Clusters[0].Annotations = map[string]string{annotation.CAPICluster: "fleet-default/west/1", annotation.CAPIJoin: "agent"}
			f.Tokens[0].Annotations = map[string]string{annotation.TokenForCluster: "west"}
		}, west, check.Warning, "no agent has joined", "kubectl get secret -n fleet-default west-fleet-join -o 'jsonpath={.data.value}' | base64 -d | kubectl --context west apply --server-side -f -"},
		"hub has not installed the agent": {"hub-clusters-waiting", func(f *Facts) { f.Clusters[1].Status.Agent.LastSeen = metav1.Time{} }, east, check.Warning, "the hub has not installed the agent yet", "kubectl describe clusters.fleet.cattle.io -n fleet-default east"},
		"deletion of a Cluster hangs": {"hub-clusters-deleting", func(f *Facts) {
			f.Clusters[0].DeletionTimestamp, f.Clusters[0].Finalizers = new(clitest.Ago(time.Hour)), []string{"a/b"}
		}, west, check.Failed, "deleted at 2026-05-04T11:00:00Z, but finalizers remain: a/b", "kubectl describe clusters.fleet.cattle.io -n fleet-default west"},
		"two Clusters have one client ID": {"hub-client-ids", func(f *Facts) {
			f.Clusters[0].Spec.ClientID, f.Clusters[0].CreationTimestamp = f.Clusters[1].Spec.ClientID, clitest.Ago(time.Hour)
		}, west, check.Failed, "the same client ID as Cluster fleet-default/east, which is older", `kubectl patch clusters.fleet.cattle.io -n fleet-default west --type=merge -p '{"spec":{"clientID":"uid-of-west"}}'`},
		"namespace of a Cluster is missing":       {"hub-cluster-namespaces", func(f *Facts) { f.Namespaces = f.Namespaces[1:] }, west, check.Failed, "namespace " + westNS + " does not exist", logs},
		"namespace of a Cluster is being deleted": {"hub-cluster-namespaces", func(f *Facts) { f.Namespaces[0].DeletionTimestamp = new(clitest.Ago(time.Hour)) }, west, check.Failed, "is being deleted", "kubectl describe namespace " + westNS},
		"agent is older":                          {"hub-agent-versions", func(f *Facts) { f.Clusters[0].Status.Agent.AgentVersion = "v1.1.9" }, west, check.Warning, "the agent has version v1.1.9, and the hub has version v1.2.0", "kubectl describe bundles.fleet.cattle.io -n fleet-default fleet-agent-west"},
		"agent is older, and the hub manages none": {"hub-agent-versions", func(f *Facts) {
			f.Clusters[0].Status.Agent.AgentVersion, f.Config.ManageAgent = "v1.1.9", new(bool)
		}, west, check.Warning, "the agent has version v1.1.9", "kubectl delete bundles.fleet.cattle.io -n fleet-default fleet-agent-west --ignore-not-found && helm --kube-context west upgrade -n cattle-fleet-system fleet-agent charts/fleet-agent --reset-then-reuse-values --set internal.image=,image.repository=REPOSITORY,image.tag=v1.2.0"},
		"ClusterGroup is empty": {"hub-clustergroups", func(f *Facts) {
			f.Groups[0].Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod", "a": "b"}}
		}, "ClusterGroup fleet-default/all", check.Warning, "no Cluster matches a=b,env=prod", "kubectl label clusters.fleet.cattle.io -n fleet-default CLUSTER a=b env=prod"},
		"ClusterGroup has no selector": {"hub-clustergroups", func(f *Facts) { f.Groups[0].Spec.Selector = nil }, "ClusterGroup fleet-default/all", check.Warning, "selects no Cluster", "kubectl get clusters.fleet.cattle.io -n fleet-default --show-labels"},
		"selector is invalid": {"hub-clustergroups", func(f *Facts) {
			f.Groups[0].Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		}, "ClusterGroup fleet-default/all", check.Failed, "the selector is invalid", "kubectl edit clustergroups.fleet.cattle.io -n fleet-default all"},

		"kubeconfig Secret is missing": {"hub-kubeconfigs-exist", func(f *Facts) { delete(f.Kubeconfigs, f.Clusters[1]) }, east, check.Failed, `Secret fleet-default/east-kubeconfig, or its key "value", does not exist`, newSecret},
		"kubeconfig runs a command": {"hub-kubeconfigs-valid", func(f *Facts) {
			f.Kubeconfigs[f.Clusters[1]] = check.Kubeconfig{Exists: true, Err: foreign.ErrKubeconfigPlain}
		}, east, check.Failed, "does not begin with https://", "kubectl config view --raw --flatten --minify --context east > east.kubeconfig && " + write},
		"kubeconfig has expired": {"hub-kubeconfigs-expiry", func(f *Facts) {
			f.Kubeconfigs[f.Clusters[1]] = check.Kubeconfig{Exists: true, Expires: f.Now.AddDate(0, 0, -1)}
		}, east, check.Failed, "expired on 2026-05-03", write},
		"kubeconfig expires soon, and no provider renews it": {"hub-kubeconfigs-expiry", func(f *Facts) {
			f.Clusters[1].Annotations = map[string]string{annotation.CAPICluster: "fleet-default/east/1"}
			f.Clusters[1].Spec.KubeConfigSecret = "mine"
			f.Kubeconfigs[f.Clusters[1]] = check.Kubeconfig{Exists: true, Expires: f.Now.AddDate(0, 0, 5)}
		}, east, check.Warning, "expires in 5d", "kubectl create secret generic -n fleet-default mine --from-file=value=east.kubeconfig --dry-run=client -o yaml | kubectl apply -f -"},
		"kubeconfig expires soon": {"hub-kubeconfigs-expiry", func(f *Facts) {
			f.Kubeconfigs[f.Clusters[1]] = check.Kubeconfig{Exists: true, Expires: f.Now.AddDate(0, 0, 5)}
		}, east, check.Warning, "expires in 5d", write},
		"cluster rejects the kubeconfig":  {"hub-kubeconfigs-accepted", withImported(conditions.Imported, conditions.ReasonDownstreamUnauthorized, "rejected"), east, check.Failed, "DownstreamUnauthorized: rejected", write},
		"kubeconfig of another workspace": {"hub-kubeconfigs-accepted", withImported(conditions.Imported, conditions.ReasonKubeconfigNamespaceRefused, "refused"), east, check.Failed, "refused", "kubectl annotate secret -n fleet-default east-kubeconfig fleet.cattle.io/allowed-workspaces=fleet-default"},
		"kubeconfig of another workspace, which others may use": {"hub-kubeconfigs-accepted", func(f *Facts) {
			withImported(conditions.Imported, conditions.ReasonKubeconfigNamespaceRefused, "refused")(f)
			f.Kubeconfigs[f.Clusters[1]] = check.Kubeconfig{Exists: true, Allowed: "a,b"}
		}, east, check.Failed, "run the fix only if workspace fleet-default may control the cluster", "kubectl annotate secret -n fleet-default east-kubeconfig --overwrite fleet.cattle.io/allowed-workspaces=a,b,fleet-default"},
		"kubeconfig has a wrong address": {"hub-kubeconfigs-valid", func(f *Facts) {
			f.Kubeconfigs[f.Clusters[1]] = check.Kubeconfig{Exists: true, Err: foreign.ErrKubeconfigAddress}
		}, east, check.Failed, "use an address that other machines reach", address + write},
		"kubeconfig leads to the hub": {"hub-kubeconfigs-accepted", withImported(conditions.Imported, conditions.ReasonTargetIsHub, "the hub"), east, check.Failed, "TargetIsHub: the hub", write},

		"request is refused": {"hub-registrations", func(f *Facts) {
			f.Registrations[0].Status.Conditions = append(f.Registrations[0].Status.Conditions, condition(conditions.Granted, conditions.ReasonAccountReplaced, "again"))
		}, "ClusterRegistration fleet-default/request-of-west", check.Failed, "AccountReplaced: again", "fleet repair west -n fleet-default"},
		"request for a Cluster of another manager": {"hub-registrations", func(f *Facts) {
			f.Registrations[0].Spec.ClientID, f.Registrations[0].Status = f.Clusters[0].Spec.ClientID, fleet.ClusterRegistrationStatus{}
			f.Registrations[0].Status.Conditions = append(f.Registrations[0].Status.Conditions, condition(conditions.Granted, conditions.ReasonClusterManagedElsewhere, "other"))
		}, "ClusterRegistration fleet-default/request-of-west", check.Failed, "ClusterManagedElsewhere: other", "kubectl label clusters.fleet.cattle.io -n fleet-default west fleet.cattle.io/cluster-management-"},
		"request waits": {"hub-registrations", func(f *Facts) {
			f.Registrations[0].Status = fleet.ClusterRegistrationStatus{}
			f.Registrations[0].Status.Conditions = append(f.Registrations[0].Status.Conditions, condition(conditions.Granted, conditions.ReasonAwaitingRights, "rights"))
		}, "ClusterRegistration fleet-default/request-of-west", check.Failed, "the request waits: AwaitingRights: rights", "kubectl describe clusterregistrations.fleet.cattle.io -n fleet-default request-of-west"},
		"request is not processed": {"hub-registrations", func(f *Facts) { f.Registrations[0].Status.Granted = false }, "ClusterRegistration fleet-default/request-of-west", check.Failed, "has not processed the request", "kubectl describe clusterregistrations.fleet.cattle.io -n fleet-default request-of-west"},
		"takeover waits": {"hub-takeovers", func(f *Facts) {
			f.Registrations[0].Status.Conditions = append(f.Registrations[0].Status.Conditions, condition(conditions.Granted, conditions.ReasonTakeoverPending, "another"))
		}, "ClusterRegistration fleet-default/request-of-west", check.Warning, "an agent asks for Cluster fleet-default/west and did not prove that it is the agent of that Cluster", "fleet confirm-takeover west request-of-west -n fleet-default"},
		"token never expires":          {"hub-tokens-expiry", func(f *Facts) { f.Tokens[0].Spec.TTL = nil }, "ClusterRegistrationToken fleet-default/west", check.Warning, "never expires", `kubectl patch clusterregistrationtokens.fleet.cattle.io -n fleet-default west --type=merge -p '{"spec":{"ttl":"49h"}}'`},
		"expired token is still there": {"hub-tokens-expired", func(f *Facts) { f.Tokens[0].Spec.TTL.Duration = time.Hour }, "ClusterRegistrationToken fleet-default/west", check.Failed, "expired on 2026-05-03T13:00:00Z", "fleet token revoke west -n fleet-default"},
		"token that got the default TTL is still there": {"hub-tokens-expired", func(f *Facts) {
			f.Tokens[0].Spec.TTL, f.Tokens[0].Status.DefaultTTL = nil, &metav1.Duration{Duration: time.Hour}
		}, "ClusterRegistrationToken fleet-default/west", check.Failed, "expired on 2026-05-03T13:00:00Z", "fleet token revoke west -n fleet-default"},
		"Secret of a token is missing": {"hub-tokens-values", func(f *Facts) { f.Values = nil }, "ClusterRegistrationToken fleet-default/west", check.Failed, "Secret fleet-default/west with the values of the token does not exist", logs},
		"name of a token is taken": {"hub-tokens-values", func(f *Facts) {
			f.Tokens[0].Status.Conditions = append(f.Tokens[0].Status.Conditions, condition(conditions.Ready, conditions.ReasonSecretNameTaken, "taken"))
		}, "ClusterRegistrationToken fleet-default/west", check.Failed, "SecretNameTaken: taken", "fleet token revoke west -n fleet-default"},

		"Bundle cannot be applied": {"hub-bundles-failing", func(f *Facts) {
			f.Bundles[0].Status.Conditions[0] = condition(conditions.Ready, conditions.ReasonError, "ErrApplied(1)")
			f.Bundles[0].Status.Summary = fleet.BundleSummary{DesiredReady: 3, Ready: 2, ErrApplied: 1, NonReadyResources: []fleet.NonReadyResource{
				{Name: "fleet-default/east", BundleState: fleet.WaitApplied}, {Name: "fleet-default/west", BundleState: fleet.ErrApplied, Message: "no such kind"},
			}}
		}, "Bundle fleet-default/app", check.Failed, "ready on 2 of 3 clusters: ErrApplied on fleet-default/west: no such kind", "kubectl describe bundledeployments.fleet.cattle.io -n " + westNS + " app"},
		"Bundle failed for good on the last cluster": {"hub-bundles-failing", func(f *Facts) {
			f.Bundles[0].Status.Conditions[0] = condition(conditions.Ready, "", "NotReady(1)")
			f.Bundles[0].Status.Summary = fleet.BundleSummary{DesiredReady: 3, WaitApplied: 2, NotReady: 1, NonReadyResources: []fleet.NonReadyResource{
				{Name: "fleet-default/east", BundleState: fleet.WaitApplied}, {Name: "fleet-default/north", BundleState: fleet.WaitApplied, Message: "its agent does not report"},
				{Name: "fleet-default/west", BundleState: fleet.NotReady, Message: "not installed: no such kind"},
			}}
		}, "Bundle fleet-default/app", check.Warning, "ready on 0 of 3 clusters: NotReady on fleet-default/west: not installed: no such kind", "kubectl describe bundledeployments.fleet.cattle.io -n " + westNS + " app"},
		"template of a Bundle fails": {"hub-bundles-failing", func(f *Facts) {
			f.Bundles[0].Status.Conditions[0] = condition(conditions.Ready, conditions.ReasonError, "ErrApplied(1)")
			f.Bundles[0].Status.Summary = fleet.BundleSummary{DesiredReady: 1, ErrApplied: 1, NonReadyResources: []fleet.NonReadyResource{
				{Name: "fleet-default/west", BundleState: fleet.ErrApplied, Message: "targeting error: no such key"},
			}}
		}, "Bundle fleet-default/app", check.Failed, "targeting error: no such key", "kubectl describe bundles.fleet.cattle.io -n fleet-default app"},
		"Bundle is not ready for long": {"hub-bundles-failing", func(f *Facts) {
			f.Bundles[0].Status.Conditions[0] = condition(conditions.Ready, "", "NotReady(1)")
			f.Bundles[0].Status.Summary = fleet.BundleSummary{DesiredReady: 1, NotReady: 1}
		}, "Bundle fleet-default/app", check.Warning, "ready on 0 of 1 clusters: NotReady(1)", "kubectl describe bundles.fleet.cattle.io -n fleet-default app"},
		"Bundle is not ready for long, and its counts change": {"hub-bundles-failing", func(f *Facts) {
			f.Bundles[0].Status.Conditions[0] = condition(conditions.Ready, "", "NotReady(1)")
			f.Bundles[0].Status.Conditions[0].LastUpdateTime = clitest.Noon().Add(-3 * time.Minute).Format(time.RFC3339)
			f.Bundles[0].Status.Summary = fleet.BundleSummary{DesiredReady: 1, NotReady: 1}
			f.Bundles[0].Changed = clitest.Ago(time.Hour).Time
		}, "Bundle fleet-default/app", check.Warning, "NotReady(1)", "kubectl describe bundles.fleet.cattle.io -n fleet-default app"},
		"Bundle waits for a dependency for long": {"hub-bundles-failing", func(f *Facts) {
			f.Bundles[0].Status.Conditions[0] = condition(conditions.Ready, "", "ErrApplied(1)")
			f.Bundles[0].Status.Summary = fleet.BundleSummary{DesiredReady: 1, ErrApplied: 1}
		}, "Bundle fleet-default/app", check.Warning, "ErrApplied(1)", "kubectl describe bundles.fleet.cattle.io -n fleet-default app"},
		"Bundle waits for its first deployment": {"hub-bundles-failing", func(f *Facts) {
			f.Bundles[0].Status.Conditions[0] = condition(conditions.Ready, "", "Pending(1) [Cluster fleet-default/west]")
			f.Bundles[0].Status.Summary = fleet.BundleSummary{DesiredReady: 1, Pending: 1, NonReadyResources: []fleet.NonReadyResource{
				{Name: "fleet-default/west", BundleState: fleet.Pending},
			}}
		}, "Bundle fleet-default/app", check.Warning, "Pending(1)", "kubectl describe bundles.fleet.cattle.io -n fleet-default app"},
		"Bundle names an unknown group": {"hub-bundles-conditions", func(f *Facts) {
			f.Bundles[0].Status.Conditions = append(f.Bundles[0].Status.Conditions, condition(conditions.TargetsKnown, conditions.ReasonClusterGroupUnknown, "group x"))
		}, "Bundle fleet-default/app", check.Failed, "ClusterGroupUnknown: group x", "kubectl describe bundles.fleet.cattle.io -n fleet-default app"},
		"Bundle is large":           {"hub-bundles-size", func(f *Facts) { f.Bundles[0].Size = 1200 << 10 }, "Bundle fleet-default/app", check.Warning, "has 1200 KiB; API servers accept about 1536 KiB. Split it, or exclude files in .fleetignore", "kubectl describe bundles.fleet.cattle.io -n fleet-default app"},
		"Bundle matches no cluster": {"hub-bundles-targets", func(f *Facts) { f.Bundles[0].Status.Summary = fleet.BundleSummary{} }, "Bundle fleet-default/app", check.Warning, "no Cluster matches", "kubectl get clusters.fleet.cattle.io -n fleet-default --show-labels"},
		"Bundle has no targets":     {"hub-bundles-targets", func(f *Facts) { f.Bundles[0].Status.Summary, f.Bundles[0].Spec.Targets = fleet.BundleSummary{}, nil }, "Bundle fleet-default/app", check.Warning, "has no targets", "kubectl get clusters.fleet.cattle.io -n fleet-default --show-labels"},
		"mapping lacks a selector":  {"hub-mappings", func(f *Facts) { f.Mappings[0].BundleSelector = nil }, mapping, check.Failed, "both bundleSelector and namespaceSelector must be set", "kubectl edit bundlenamespacemappings.fleet.cattle.io -n fleet-default shared"},
		"selector of a mapping is invalid": {"hub-mappings", func(f *Facts) {
			f.Mappings[0].BundleSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		}, mapping, check.Failed, "stays as it is", "kubectl edit bundlenamespacemappings.fleet.cattle.io -n fleet-default shared"},
		"mapping leads to no namespace": {"hub-mappings", func(f *Facts) { f.Namespaces[4].Labels = nil }, mapping, check.Warning, "no other namespace matches the namespaceSelector fleet=shared", "kubectl get namespaces --show-labels"},
		"mapping leads only to its own namespace": {"hub-mappings", func(f *Facts) {
			f.Namespaces[4].Labels, f.Namespaces[3].Labels = nil, f.Namespaces[4].Labels
		}, mapping, check.Warning, "no other namespace matches", "kubectl get namespaces --show-labels"},
		"mapping selects no Bundle": {"hub-mappings", func(f *Facts) {
			f.Mappings[0].BundleSelector.MatchLabels = map[string]string{"team": "a"}
		}, mapping, check.Warning, "no Bundle of its namespace matches the bundleSelector team=a", "kubectl get bundles.fleet.cattle.io -n fleet-default --show-labels"},
		"Bundle is in a registry": {"hub-bundles-content", func(f *Facts) { f.Bundles[0].Spec.ContentsID = "s-1" }, "Bundle fleet-default/app", check.Failed, "in an OCI registry", "cd FOLDER && fleet apply app -n fleet-default"},
		"shard of a Bundle does not run": {"hub-shards", func(f *Facts) {
			f.Bundles[0].Labels = map[string]string{fleet.LabelShardRef: "b"}
			f.Leases = append(f.Leases, lease(names.ShardLease("a"), "x_abcdefghijklmnopqrstuvwxyz", time.Second))
		}, "Bundle fleet-default/app", check.Failed, "names shard b, which has no active controller", "kubectl label bundles.fleet.cattle.io -n fleet-default app fleet.cattle.io/shard-ref-"},
		"shard of a Bundle has stopped": {"hub-shards", func(f *Facts) {
			f.Bundles[0].Labels = map[string]string{fleet.LabelShardRef: "a"}
			f.Leases = append(f.Leases, lease(names.ShardLease("a"), "", time.Second))
			f.Deployments = append(f.Deployments, deployment("fleet-controller-shard-a", "docker.io/fleethub/fleet:v1.2.0", 1, 1))
		}, "Bundle fleet-default/app", check.Failed, "names shard a, which has no active controller", "kubectl describe pods -n cattle-fleet-system -l app=fleet-controller-shard-a"},
		"shard of a Cluster does not run": {"hub-shards", func(f *Facts) {
			f.Clusters[0].Labels = map[string]string{fleet.LabelShardRef: "b"}
		}, west, check.Failed, "the summary of its Bundles is not updated", "kubectl label clusters.fleet.cattle.io -n fleet-default west fleet.cattle.io/shard-ref-"},
		"shard of a ClusterGroup does not run": {"hub-shards", func(f *Facts) {
			f.Groups[0].Labels = map[string]string{fleet.LabelShardRef: "b"}
		}, "ClusterGroup fleet-default/all", check.Failed, "its summary is not updated", "kubectl label clustergroups.fleet.cattle.io -n fleet-default all fleet.cattle.io/shard-ref-"},
		"Bundle of a HelmOp": {"hub-bundles-content", func(f *Facts) { f.Bundles[0].Spec.HelmOpOptions = &fleet.BundleHelmOptions{} }, "Bundle fleet-default/app", check.Failed, "have to download", "cd FOLDER && fleet apply app -n fleet-default"},
		"GitRepo":            {"hub-gitrepos", func(f *Facts) { f.GitRepos = []*metav1.PartialObjectMetadata{partial(workspace, "repo", nil)} }, "GitRepo fleet-default/repo", check.Warning, "has no effect", "kubectl delete gitrepos.fleet.cattle.io -n fleet-default repo"},
		"HelmOp with a finalizer": {"hub-helmops", func(f *Facts) {
			f.HelmOps = []*metav1.PartialObjectMetadata{partial(workspace, "op", nil)}
			f.HelmOps[0].Finalizers = []string{"fleet.cattle.io/helmop-finalizer"}
		}, "HelmOp fleet-default/op", check.Warning, "has no effect", `kubectl patch helmops.fleet.cattle.io -n fleet-default op --type=merge -p '{"metadata":{"finalizers":null}}' && kubectl delete helmops.fleet.cattle.io -n fleet-default op`},

		"workspace does not exist": {"hub-workspace", func(f *Facts) { f.Workspace, f.Chosen = "fleet-defualt", true }, "Namespace fleet-defualt", check.Failed, "the workspace does not exist", "kubectl get namespaces"},

		"BundleDeployment of a lost Cluster": {"hub-orphans-bundledeployments", func(f *Facts) { f.BundleDeployments = append(f.BundleDeployments, partial("x", "app", of("lost"))) }, "BundleDeployment x/app", check.Warning, "of Cluster fleet-default/lost, which does not exist", "kubectl delete bundledeployments.fleet.cattle.io -n x app"},
		"BundleDeployment of a lost Cluster, with a finalizer": {"hub-orphans-bundledeployments", func(f *Facts) {
			lost := partial("x", "app", of("lost"))
			lost.Finalizers, lost.DeletionTimestamp = []string{fleet.FinalizerBundleDeployment}, new(clitest.Ago(time.Hour))
			f.BundleDeployments = append(f.BundleDeployments, lost)
		}, "BundleDeployment x/app", check.Warning, "which does not exist", `kubectl patch bundledeployments.fleet.cattle.io -n x app --type=merge -p '{"metadata":{"finalizers":null}}'`},
		"namespace of a lost Cluster": {"hub-orphans-namespaces", func(f *Facts) {
			f.Namespaces = append(f.Namespaces, partial("", names.ClusterNamespace(workspace, "lost"), of("lost")))
		}, "Namespace " + names.ClusterNamespace(workspace, "lost"), check.Warning, "which does not exist", "kubectl delete namespace " + names.ClusterNamespace(workspace, "lost")},
		"namespace of a lost Cluster is being deleted": {"hub-orphans-namespaces", func(f *Facts) {
			lost := partial("", names.ClusterNamespace(workspace, "lost"), of("lost"))
			lost.DeletionTimestamp = new(clitest.Ago(time.Hour))
			f.Namespaces = append(f.Namespaces, lost)
		}, "Namespace " + names.ClusterNamespace(workspace, "lost"), check.Warning, "objects with finalizers", "kubectl describe namespace " + names.ClusterNamespace(workspace, "lost")},
		"credential of a lost request": {"hub-orphans-credentials", func(f *Facts) { f.Credentials = append(f.Credentials, partial("s", "c-1", of("lost"))) }, "Secret s/c-1", check.Warning, "the credential for ClusterRegistration fleet-default/request-of-lost, which does not exist", "kubectl delete secret -n s c-1"},
		"account of a lost Cluster":    {"hub-orphans-accounts", func(f *Facts) { f.Accounts = append(f.Accounts, partial("x", "a", of("lost"))) }, "ServiceAccount x/a", check.Warning, "for the agent of Cluster fleet-default/lost, which does not exist", "kubectl delete serviceaccount -n x a"},
	}
}

func TestFaults(t *testing.T) {
	checktest.TestFaults(t, Checks(), func() *Facts { return healthy(t) }, faults(), "hub-api") // the command fails without rows
}

// Not every deviation is a problem.
func TestNoFaults(t *testing.T) {
	checktest.TestDeviations(t, Checks(), func() *Facts { return healthy(t) }, map[string]checktest.Deviation[*Facts]{
		"new Cluster waits": {"hub-clusters-waiting", func(f *Facts) {
			f.Clusters[0].Status.Agent.LastSeen, f.Clusters[0].CreationTimestamp = metav1.Time{}, clitest.Ago(time.Minute)
		}},
		"new Cluster has no namespace yet": {"hub-cluster-namespaces", func(f *Facts) {
			f.Namespaces, f.Clusters = nil, f.Clusters[:1]
			f.Clusters[0].CreationTimestamp = clitest.Ago(time.Minute)
		}},
		"Clusters of two workspaces have one ID": {"hub-client-ids", func(f *Facts) {
			f.Clusters[0].Spec.ClientID, f.Clusters[0].Namespace = f.Clusters[1].Spec.ClientID, "other"
		}},
		"Clusters without client IDs":    {"hub-client-ids", func(f *Facts) { f.Clusters[0].Spec.ClientID, f.Clusters[1].Spec.ClientID = "", "" }},
		"reason that needs no attention": {"hub-clusters-conditions", with(conditions.Processed, conditions.ReasonAwaitingNamespace, "waits")},
		"workspace exists": {"hub-workspace", func(f *Facts) {
			f.Workspace, f.Chosen, f.Namespaces = workspace, true, append(f.Namespaces, partial("", workspace, nil))
		}},
		"default workspace does not exist": {"hub-workspace", func(f *Facts) { f.Workspace = workspace }},
		"all workspaces":                   {"hub-workspace", func(f *Facts) { f.Workspace, f.Chosen = "", true }},
		"silence has a check of its own":   {"hub-clusters-conditions", with(conditions.AgentReporting, conditions.ReasonAgentNotReporting, "silent")},
		"kubeconfig without a configuration, which may allow it": {"hub-kubeconfigs-valid", func(f *Facts) {
			f.Config = Configuration{}
			f.Kubeconfigs[f.Clusters[1]] = check.Kubeconfig{Exists: true, Err: foreign.ErrKubeconfigAddress}
		}},
		"kubeconfig that a provider of Cluster API renews": {"hub-kubeconfigs-expiry", func(f *Facts) {
			f.Clusters[1].Annotations = map[string]string{annotation.CAPICluster: "fleet-default/east/1"}
			f.Kubeconfigs[f.Clusters[1]] = check.Kubeconfig{Exists: true, Expires: f.Now.Add(time.Hour)}
		}},
		"kubeconfig never expires": {"hub-kubeconfigs-expiry", func(f *Facts) {
			f.Kubeconfigs[f.Clusters[1]] = check.Kubeconfig{Exists: true}
		}},
		"token of an import never expires": {"hub-tokens-expiry", func(f *Facts) {
			f.Tokens[0].Spec.TTL, f.Tokens[0].OwnerReferences = nil, []metav1.OwnerReference{{Kind: "Cluster"}}
		}},
		"token got the default TTL": {"hub-tokens-expiry", func(f *Facts) {
			f.Tokens[0].Spec.TTL, f.Tokens[0].Status.DefaultTTL = nil, &metav1.Duration{Duration: 720 * time.Hour}
		}},
		"token has just been created": {"hub-tokens-values", func(f *Facts) { f.Values = nil; f.Tokens[0].CreationTimestamp = clitest.Ago(time.Second) }},
		"shard of a Bundle runs": {"hub-shards", func(f *Facts) {
			f.Bundles[0].Labels = map[string]string{fleet.LabelShardRef: "a"}
			f.Leases = append(f.Leases, lease(names.ShardLease("a"), "x_abcdefghijklmnopqrstuvwxyz", time.Second))
		}},
		"Bundle is not ready since a minute": {"hub-bundles-failing", func(f *Facts) {
			c := &f.Bundles[0].Status.Conditions[0]
			c.Status, c.LastUpdateTime = corev1.ConditionFalse, clitest.Noon().Add(-time.Minute).Format(time.RFC3339)
			f.Bundles[0].Changed = clitest.Ago(time.Minute).Time
		}},
		"Bundle waits for a dependency since a minute": {"hub-bundles-failing", func(f *Facts) {
			f.Bundles[0].Status.Conditions[0] = condition(conditions.Ready, "", "ErrApplied(1)")
			f.Bundles[0].Status.Conditions[0].LastUpdateTime = clitest.Noon().Add(-time.Minute).Format(time.RFC3339)
			f.Bundles[0].Status.Summary = fleet.BundleSummary{DesiredReady: 1, ErrApplied: 1}
		}},
		"pod of an old Bundle restarts": {"hub-bundles-failing", func(f *Facts) {
			c := &f.Bundles[0].Status.Conditions[0]
			c.Status, c.LastUpdateTime = corev1.ConditionFalse, clitest.Noon().Add(-time.Minute).Format(time.RFC3339)
			f.Bundles[0].Status.Summary = fleet.BundleSummary{DesiredReady: 1, NotReady: 1}
			f.Bundles[0].Changed = clitest.Ago(time.Hour).Time
		}},
		"cluster of an old Bundle has just joined": {"hub-bundles-failing", func(f *Facts) {
			c := &f.Bundles[0].Status.Conditions[0]
			c.Status, c.LastUpdateTime = corev1.ConditionFalse, clitest.Noon().Add(-time.Minute).Format(time.RFC3339)
			f.Bundles[0].Status.Summary = fleet.BundleSummary{DesiredReady: 1, WaitApplied: 1}
			f.Bundles[0].Changed = clitest.Ago(time.Hour).Time
		}},
		"agent of a development version": {"hub-agent-versions", func(f *Facts) { f.Clusters[0].Status.Agent.AgentVersion = "dev" }},
		"agent is newer":                 {"hub-agent-versions", func(f *Facts) { f.Clusters[0].Status.Agent.AgentVersion = "v2.0.0" }},
		"GitRepo with its controller": {"hub-gitrepos", func(f *Facts) {
			f.GitRepos = []*metav1.PartialObjectMetadata{partial(workspace, "r", nil)}
			f.Deployments = append(f.Deployments, deployment("gitjob", "a", 1, 1))
		}},
		"namespace of a Cluster's name":              {"hub-orphans-namespaces", func(f *Facts) { f.Namespaces = append(f.Namespaces, partial("", "mine", of("lost"))) }},
		"account of a registration without Clusters": {"hub-orphans-accounts", func(f *Facts) { f.Accounts = append(f.Accounts, partial("x", "a", nil)) }},
		"orphan of another workspace":                {"hub-orphans-accounts", func(f *Facts) { f.Workspace = "other"; f.Accounts = append(f.Accounts, partial("x", "a", of("lost"))) }},
		"webhook that may fail": {"hub-webhooks", func(f *Facts) {
			f.Services, f.Validating[0].Webhooks[0].FailurePolicy = nil, new(admissionregistrationv1.Ignore)
		}},
		"webhook for Pods":                   {"hub-webhooks", func(f *Facts) { f.Services, f.Validating[0].Webhooks[0].Rules[0].APIGroups = nil, []string{""} }},
		"webhook without Service":            {"hub-webhooks", func(f *Facts) { f.Services, f.Validating[0].Webhooks[0].ClientConfig.Service = nil, nil }},
		"no CA, and the TLS mode needs none": {"hub-ca", func(f *Facts) { f.Config.APIServerCA, f.Config.AgentTLSMode = nil, "system-store" }},
		"Deployment with an image without a tag": {"hub-version", func(f *Facts) {
			f.Deployments[0] = deployment("fleet-controller", "registry:5000/fleet@sha256:0", 1, 1)
		}},
	})
}

func TestHubOfRancherFleet_IsNotUpgradedWithoutTheMigration(t *testing.T) {
	f := healthy(t)
	f.Deployments = []*appsv1.Deployment{deployment("gitjob", "registry/rancher/fleet:v0.13.0", 1, 1), deployment("fleet-controller", "rancher/fleet:v0.13.0", 1, 1)}
	f.Config.APIServerURL, f.Config.APIServerCA, f.Config.Version = "", nil, ""
	f.CRDs = f.CRDs[1:]
	found := 0
	for _, row := range check.Run(Checks(), f, nil) {
		if strings.Contains(row.Fix, "helm upgrade") {
			t.Errorf("%s: %s", row.ID, row.Fix)
		}
		if row.Fix == migration {
			found++
		}
	}
	if rows := checktest.Problems(Checks(), f, "hub-other-manager"); len(rows) != 2 || found != 5 {
		t.Errorf("%d fixes name the migration; rows: %+v", found, rows)
	}
	if rows := checktest.Problems(Checks(), f, "hub-controllers"); len(rows) != 0 {
		t.Errorf("rows: %+v", rows)
	}
}

// The older one of the hub and the command line is upgraded.
func TestVersionsDiffer_FixUpgradesTheOlderOne(t *testing.T) {
	before := version.Version
	t.Cleanup(func() { version.Version = before })
	for fleetVersion, want := range map[string]string{
		"v1.3.0": "upgrade the hub, CRDs first (docs/upgrade.md): " + upgrade + " --set image.tag=v1.3.0,agentImage.tag=v1.3.0",
		"v1.1.0": "install `fleet` of the version of the hub",
	} {
		version.Version = fleetVersion
		if found := checktest.Problems(Checks(), healthy(t), "hub-version"); len(found) != 1 || found[0].Fix != want {
			t.Errorf("fleet %s: %+v", fleetVersion, found)
		}
	}
}

func TestFixOfABundleInARegistry_MakesTheSameBundle(t *testing.T) {
	f := healthy(t)
	f.Bundles[0].Spec.ContentsID = "s-1"
	found := checktest.Problems(Checks(), f, "hub-bundles-content")
	if len(found) != 1 {
		t.Fatalf("rows: %+v", found)
	}
	_, arguments, _ := strings.Cut(found[0].Fix, "fleet apply ")
	args := strings.Fields(arguments)
	t.Chdir(t.TempDir())
	folder := "FOLDER"
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "map.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(found[0].Fix, "cd FOLDER && ") {
		t.Chdir(folder)
	}
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	command := apply.New(streams, func(string) string { return "" })
	command.SetArgs(append(args, "-o", "-"))
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	made, err := bundlefile.ParseBundle(out.Bytes())
	if err != nil || made.Name != "app" {
		t.Errorf("%v: Bundle %+v", err, made)
	}
}

func TestManyObjectsWithOneProblem_ShareARow(t *testing.T) {
	f := healthy(t)
	f.Clusters = nil
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		silent := cluster(name)
		silent.Status.Conditions = append(silent.Status.Conditions, condition(conditions.AgentReporting, conditions.ReasonAgentNotReporting, "silent"))
		f.Clusters = append(f.Clusters, silent)
	}
	found := checktest.Problems(Checks(), f, "hub-clusters-silent")
	if len(found) != 1 || found[0].Count != 6 || len(found[0].Examples) != 3 {
		t.Errorf("rows: %+v", found)
	}
}

// Tenants choose these names. A command with one of them could do something else.
func TestHostileNames_AreNotPartOfFixes(t *testing.T) {
	for _, name := range []string{"x'; rm -rf ~; '\x1b[2J", "--server=https://example.org"} {
		f := healthy(t)
		f.Clusters[1].Spec.KubeConfigSecret = name
		delete(f.Kubeconfigs, f.Clusters[1])
		found := checktest.Problems(Checks(), f, "hub-kubeconfigs-exist")
		if len(found) != 1 || found[0].Fix != "" || strings.ContainsRune(found[0].Cause, '\x1b') {
			t.Errorf("rows: %+v", found)
		}
	}
}
