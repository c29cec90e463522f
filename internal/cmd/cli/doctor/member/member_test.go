package member

import (
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/checktest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const workspace = "fleet-default"

// named returns the metadata of an object that is a day old.
func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: clitest.Ago(24 * time.Hour)}
}

func condition(kind, reason, message string) []genericcondition.GenericCondition {
	return []genericcondition.GenericCondition{{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message}}
}

func request(name string) *fleet.ClusterRegistration {
	return &fleet.ClusterRegistration{ObjectMeta: named(workspace, name), Status: fleet.ClusterRegistrationStatus{ClusterName: "west", Granted: true}}
}

// healthy returns the facts of a Cluster without problems. Its agent has joined with a token.
func healthy() *Facts {
	west := &fleet.Cluster{
		ObjectMeta: named(workspace, "west"), Spec: fleet.ClusterSpec{ClientID: "client-of-west"},
		Status: fleet.ClusterStatus{Agent: fleet.AgentStatus{LastSeen: clitest.Ago(time.Minute), ClusterFacts: fleet.ClusterFacts{AgentVersion: "v1.2.0"}}},
	}
	namespace := names.ClusterNamespace(workspace, "west")
	west.Status.Namespace = namespace
	return &Facts{
		Scope: Scope{System: names.SystemNamespace, Here: remedy.Target{Context: "west"}, Repair: "fleet repair west -n fleet-default"},
		Now:   clitest.Noon(), Cluster: west, UID: "uid-of-hub", Version: "v1.2.0", Siblings: []*fleet.Cluster{west},
		Registrations: []*fleet.ClusterRegistration{request("request-1")},
		Place:         &corev1.Namespace{ObjectMeta: named("", namespace)},
		Accounts:      []*corev1.ServiceAccount{{ObjectMeta: named(namespace, names.RequestAccount("request-1", "uid-of-request-1"))}},
		Deployments:   []*fleet.BundleDeployment{{ObjectMeta: named(namespace, "app")}},
	}
}

// imported makes the Cluster one whose agent the hub installs.
func imported(k check.Kubeconfig) func(*Facts) {
	return func(f *Facts) { f.Cluster.Spec.KubeConfigSecret, f.Kubeconfig = "west-kubeconfig", k }
}

func TestHealthyCluster_PassesEveryCheck(t *testing.T) {
	f := healthy()
	renewed := func(f *Facts) {
		imported(check.Kubeconfig{Exists: true, Expires: clitest.Noon().Add(time.Hour)})(f)
		f.Cluster.Annotations = map[string]string{annotation.CAPICluster: "fleet-default/west/1"}
	}
	for _, change := range []func(*Facts){func(*Facts) {}, renewed, imported(check.Kubeconfig{Exists: true}), imported(check.Kubeconfig{Exists: true, Expires: clitest.Noon().AddDate(1, 0, 0)})} {
		change(f)
		for _, row := range check.Run(Checks(), f, nil) {
			if row.Verdict != check.OK || row.Fix != "" {
				t.Errorf("%+v", row)
			}
		}
	}
}

// fault is a problem that one check has to find.
type fault = checktest.Fault[*Facts]

const (
	west      = "Cluster fleet-default/west"
	describe1 = "kubectl describe clusters.fleet.cattle.io -n fleet-default west"
	log       = "kubectl --context west logs -n cattle-fleet-system deployment/fleet-agent"
	repair    = "fleet repair west -n fleet-default"
	hubLog    = "kubectl logs -n cattle-fleet-system deployment/fleet-controller"
	// helmUpgrade needs the chart, and the agent's image in the version of the hub.
	helmUpgrade = "helm --kube-context west upgrade -n cattle-fleet-system fleet-agent charts/fleet-agent --reset-then-reuse-values --set internal.image=,image.repository=REPOSITORY,image.tag=v1.2.0"
	asked       = "ClusterRegistration fleet-default/request-1"
	secret      = "Secret fleet-default/west-kubeconfig"
	newSecret   = "kubectl create secret generic -n fleet-default west-kubeconfig --from-file=value=west.kubeconfig"
)

func silent(f *Facts) {
	f.Cluster.Status.Conditions = condition(conditions.AgentReporting, conditions.ReasonAgentNotReporting, "silent")
}

func freed(f *Facts) { f.Cluster.Labels = map[string]string{fleet.LabelNonManagedAgent: "true"} }

// old gives the Cluster an agent that is older than the hub, and changes more.
func old(changes ...func(*Facts)) func(*Facts) {
	return func(f *Facts) {
		f.Cluster.Status.Agent.AgentVersion = "v1.1.0"
		for _, change := range changes {
			change(f)
		}
	}
}

func never(f *Facts) { f.Cluster.Status.Agent.LastSeen = metav1.Time{} }

func stateFaults() map[string]fault {
	namespace := names.ClusterNamespace(workspace, "west")
	return map[string]fault{
		"condition": {"cluster-conditions", func(f *Facts) {
			f.Cluster.Status.Conditions = condition(conditions.Imported, conditions.ReasonAnotherHub, "taken\x1b")
		}, west, check.Failed, "AnotherHub: taken", describe1},
		"condition of an agent that works": {"cluster-conditions", func(f *Facts) {
			f.Cluster.Status.Conditions = condition(conditions.AddressKnown, conditions.ReasonHubAddressChanged, "old")
		}, west, check.Warning, "HubAddressChanged: old", repair},
		"condition of a cluster of Cluster API": {"cluster-conditions", func(f *Facts) {
			f.Cluster.Status.Conditions = condition(conditions.FollowsClusterAPI, conditions.ReasonJoinUnknown, "unknown")
		}, west, check.Warning, "JoinUnknown: unknown", describe1},
		"no agent has joined with the manifest": {"cluster-heartbeat", func(f *Facts) {
			never(f)
			f.Cluster.Annotations = map[string]string{annotation.CAPICluster: "fleet-default/west/1", annotation.CAPIJoin: "agent"}
			f.Tokens = []*fleet.ClusterRegistrationToken{{ObjectMeta: named(workspace, "capi-join-west")}}
		}, west, check.Warning, "no agent has joined", "kubectl get secret -n fleet-default west-fleet-join -o 'jsonpath={.data.value}' | base64 -d | kubectl --context west apply --server-side -f -"},
		"Cluster is being deleted":    {"cluster-conditions", func(f *Facts) { f.Cluster.DeletionTimestamp = new(clitest.Ago(0)) }, west, check.Failed, "being deleted", describe1},
		"agent is silent":             {"cluster-heartbeat", silent, west, check.Failed, "has not reported since 2026-05-04T11:59:00Z", log},
		"agent has never reported":    {"cluster-heartbeat", func(f *Facts) { silent(f); never(f) }, west, check.Failed, "was deployed and has never reported", log},
		"no agent has joined":         {"cluster-heartbeat", never, west, check.Warning, "no agent has joined", repair},
		"no agent has been installed": {"cluster-heartbeat", func(f *Facts) { never(f); imported(check.Kubeconfig{})(f) }, west, check.Warning, "the hub has not installed the agent yet", describe1},
		"no agent has joined with the token": {"cluster-heartbeat", func(f *Facts) {
			never(f)
			expired := &fleet.ClusterRegistrationToken{ObjectMeta: named(workspace, "old"), Status: fleet.ClusterRegistrationTokenStatus{
				Conditions: condition(conditions.Ready, conditions.ReasonTokenExpired, "expired"),
			}}
			usable := &fleet.ClusterRegistrationToken{ObjectMeta: named(workspace, "west")}
			for _, token := range []*fleet.ClusterRegistrationToken{expired, usable} {
				token.Annotations = map[string]string{annotation.TokenForCluster: "west"}
			}
			f.Tokens = []*fleet.ClusterRegistrationToken{expired, usable}
		}, west, check.Warning, "no agent has joined", "fleet token show west --with-secret -n fleet-default"},
		"Cluster is paused":                   {"cluster-paused", func(f *Facts) { f.Cluster.Spec.Paused = true }, west, check.Warning, "paused", `kubectl patch clusters.fleet.cattle.io -n fleet-default west --type=merge -p '{"spec":{"paused":false}}'`},
		"namespace is missing":                {"cluster-namespace", func(f *Facts) { f.Place = nil }, "Namespace " + namespace, check.Failed, "does not exist", hubLog},
		"namespace is being deleted":          {"cluster-namespace", func(f *Facts) { f.Place.DeletionTimestamp = new(clitest.Ago(0)) }, "Namespace " + namespace, check.Failed, "being deleted", "kubectl describe namespace " + namespace},
		"namespace is not that of the status": {"cluster-namespace", func(f *Facts) { f.Cluster.Status.Namespace = "other" }, "Namespace " + namespace, check.Failed, "another namespace (other)", hubLog},
		"agent is old":                        {"cluster-version", old(), west, check.Warning, "v1.1.0, and the hub has version v1.2.0", "kubectl describe bundles.fleet.cattle.io -n fleet-default fleet-agent-west"},
		"agent is old, and the hub cannot manage it": {"cluster-version", old(func(f *Facts) {
			f.Cluster.Status.Conditions = condition(conditions.AgentManaged, conditions.ReasonAgentElsewhere, "elsewhere")
		}), west, check.Warning, "v1.1.0", describe1},
		"agent is old, and is not managed":              {"cluster-version", old(freed), west, check.Warning, "v1.1.0", helmUpgrade},
		"agent is old, and the hub manages none":        {"cluster-version", old(func(f *Facts) { f.Config.ManageAgent = new(bool) }), west, check.Warning, "v1.1.0", "kubectl delete bundles.fleet.cattle.io -n fleet-default fleet-agent-west --ignore-not-found && " + helmUpgrade},
		"agent is old, was imported and is not managed": {"cluster-version", old(freed, imported(check.Kubeconfig{Exists: true})), west, check.Warning, "v1.1.0", repair},
		"Bundle has an error": {"cluster-bundles", func(f *Facts) {
			f.Deployments[0].Status.Conditions = condition(conditions.Deployed, conditions.ReasonRenderingFailed, "template")
			f.Deployments[0].Spec.DeploymentID = "1"
		}, "BundleDeployment " + namespace + "/app", check.Failed, "template", "kubectl describe bundledeployments.fleet.cattle.io -n " + namespace + " app"},
	}
}

func identityFaults() map[string]fault {
	twin := func(age time.Duration) func(*Facts) {
		return func(f *Facts) {
			other := &fleet.Cluster{ObjectMeta: named(workspace, "twin"), Spec: f.Cluster.Spec}
			other.CreationTimestamp = clitest.Ago(age)
			f.Siblings = append(f.Siblings, other)
		}
	}
	give := func(name string) string {
		return `kubectl patch clusters.fleet.cattle.io -n fleet-default ` + name + ` --type=merge -p '{"spec":{"clientID":"uid-of-` + name + `"}}'`
	}
	refuses := func(reason string) func(*Facts) {
		return func(f *Facts) {
			f.Registrations[0].Status = fleet.ClusterRegistrationStatus{Conditions: condition(conditions.Granted, reason, "waits")}
		}
	}
	return map[string]fault{
		"younger twin":         {"cluster-client-id", twin(time.Hour), "Cluster fleet-default/twin", check.Failed, "as Cluster fleet-default/west, which is older", give("twin")},
		"older twin":           {"cluster-client-id", twin(48 * time.Hour), west, check.Failed, "Cluster fleet-default/twin, which is older", give("west")},
		"takeover is pending":  {"cluster-requests", refuses(conditions.ReasonTakeoverPending), asked, check.Failed, "TakeoverPending: waits", "fleet confirm-takeover west request-1 -n fleet-default"},
		"account was replaced": {"cluster-requests", refuses(conditions.ReasonAccountReplaced), asked, check.Failed, "AccountReplaced: waits", repair},
		"token is unknown":     {"cluster-requests", refuses(conditions.ReasonTokenUnknown), asked, check.Failed, "TokenUnknown", repair},
		"request waits": {"cluster-requests", func(f *Facts) { f.Registrations[0].Status = fleet.ClusterRegistrationStatus{} }, asked, check.Failed, "has not granted the request",
			"kubectl describe clusterregistrations.fleet.cattle.io -n fleet-default request-1"},
		"registration is missing": {"cluster-registration", func(f *Facts) { f.Registrations = nil }, west, check.Failed, "no registration that was granted", repair},
		"account is missing":      {"cluster-account", func(f *Facts) { f.Accounts = nil }, asked, check.Failed, "does not exist in namespace cluster-fleet-default-west-b051c957a561", repair},
		"kubeconfig is missing":   {"cluster-kubeconfig", imported(check.Kubeconfig{}), secret, check.Failed, "does not exist", newSecret},
		"kubeconfig is not one":   {"cluster-kubeconfig", imported(check.Kubeconfig{Exists: true, Err: kubeconfigs.ErrKubeconfigExec}), secret, check.Failed, "runs a command", "kubectl config view --raw --flatten --minify --context west > west.kubeconfig && " + newSecret + " --dry-run=client -o yaml | kubectl apply -f -"},
		"kubeconfig has expired":  {"cluster-kubeconfig", imported(check.Kubeconfig{Exists: true, Expires: clitest.Noon().Add(-time.Hour)}), secret, check.Failed, "expired on 2026-05-04", newSecret + " --dry-run=client -o yaml | kubectl apply -f -"},
		"kubeconfig expires soon": {"cluster-kubeconfig", imported(check.Kubeconfig{Exists: true, Expires: clitest.Noon().AddDate(0, 0, 7)}), secret, check.Warning, "expires in 7d", newSecret + " --dry-run=client -o yaml | kubectl apply -f -"},
	}
}

func faults() map[string]fault {
	all := identityFaults()
	for name, one := range stateFaults() {
		all[name] = one
	}
	return all
}

func TestFaults(t *testing.T) {
	checktest.TestFaults(t, Checks(), healthy, faults())
}

// Not every deviation is a problem.
func TestNoFaults(t *testing.T) {
	elsewhere := func(f *Facts) { f.Cluster.Labels = map[string]string{fleet.LabelClusterManagement: "other"} }
	checktest.TestDeviations(t, Checks(), healthy, map[string]checktest.Deviation[*Facts]{
		"silence has a check of its own":   {"cluster-conditions", silent},
		"Cluster of another manager waits": {"cluster-heartbeat", func(f *Facts) { never(f); elsewhere(f) }},
		"namespace of another manager":     {"cluster-namespace", func(f *Facts) { f.Place = nil; elsewhere(f) }},
		"namespace of a new Cluster":       {"cluster-namespace", func(f *Facts) { f.Place = nil; f.Cluster.CreationTimestamp = clitest.Ago(time.Minute) }},
		"development version":              {"cluster-version", func(f *Facts) { f.Cluster.Status.Agent.AgentVersion = "dev" }},
		"old agent of another manager":     {"cluster-version", old(elsewhere)},
		"newer agent":                      {"cluster-version", func(f *Facts) { f.Cluster.Status.Agent.AgentVersion = "v1.3.0" }},
		"new request": {"cluster-requests", func(f *Facts) {
			r := f.Registrations[0]
			r.Status.Granted = false
			r.CreationTimestamp = clitest.Ago(time.Minute)
		}},
		"no registration before the heartbeat": {"cluster-registration", func(f *Facts) { f.Registrations = nil; never(f) }},
		"request that was not granted":         {"cluster-account", func(f *Facts) { f.Accounts = nil; f.Registrations[0].Status.Granted = false }},
	})
}

func TestAgentNamespace(t *testing.T) {
	of := func(reported, wanted string) *fleet.Cluster {
		c := &fleet.Cluster{Spec: fleet.ClusterSpec{AgentNamespace: wanted}}
		c.Status.Agent.Namespace = reported
		return c
	}
	for want, cluster := range map[string]*fleet.Cluster{"a": of("a", "b"), "b": of("", "b"), names.SystemNamespace: of("--server=x", "")} {
		if got := AgentNamespace(cluster); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
