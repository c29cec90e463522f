package join

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/release"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubclient"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/identity"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// kubeconfigFile returns a kubeconfig that leads nowhere.
func kubeconfigFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	const document = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}`
	if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDecide(t *testing.T) {
	const hub = "https://hub:6443"
	text := jointext.Text{URL: hub, Workspace: "fleet-default", ClientID: "west-1", Token: "eyJraWQiOiJrZXktMSJ9.e30.x"}
	signer := protocol.SigningKeyOf(text.Token)
	own := &protocol.Identity{ClusterNamespace: "fleet-default", ClusterName: "west"}
	joined := func(change func(*found)) found {
		f := found{namespace: "n", exists: true, identity: own, server: hub, deployment: true, release: release.StatusDeployed, config: config.Agent{ClientID: "west-1"}}
		if change != nil {
			change(&f)
		}
		return f
	}
	bootstrap := func(url string) *protocol.Bootstrap {
		return &protocol.Bootstrap{APIServerURL: url, ClusterNamespace: "fleet-default"}
	}
	const leave = "fix: to leave that hub: helm uninstall fleet-agent -n n, then delete the Cluster there, and join again\n"
	const remove = "kubectl delete namespace n && kubectl delete clusterrole,clusterrolebinding n-fleet-agent-role n-fleet-agent-role-binding --ignore-not-found"
	const leaveManifest = "fix: to leave that hub: delete the Cluster there, then " + remove + ", and join again\n"
	const move = "fix: to move it, with its workloads: on that hub, fleet unregister west -n fleet-default --keep-workloads, and join again (docs/uninstall.md#move-a-cluster)\n"
	const moveImported = "fix: to move it, with its workloads: on that hub, fleet unregister west -n fleet-default --keep-workloads --keep-agent --cluster-context CONTEXT, and join again (docs/uninstall.md#move-a-cluster)\n"
	const another = "reason: AnotherHub (docs/conditions.md)\n"
	const otherCA = "error: this cluster has joined as Cluster fleet-default/west a hub at https://hub:6443 that has another CA, and the hub of the text is not proven to be the same\n"
	const installedAgain = "fix: if that hub was installed again: docs/recovery.md#the-hub-is-lost\n"
	const unchanged = "error: the agent on this cluster does not belong to a Helm release of fleet join, so --image, --values and --set cannot change it\n" +
		"fix: to keep the agent as it is, run the command without these flags\n" +
		"fix: to change it, use the settings of its Cluster on the hub, or the values with which its manifest was made: docs/registration.md#how-the-hub-manages-the-agent\n"
	tests := map[string]struct {
		found found
		want  step
		code  exit.Code
		err   string
	}{
		"nothing there: it is installed":        {found: found{namespace: "n"}, want: stepInstall},
		"an interrupted join: it continues":     {found: found{namespace: "n", bootstrap: bootstrap(hub), deployment: true, release: release.StatusPendingInstall}, want: stepInstall},
		"only a namespace: it is installed":     {found: found{namespace: "n", exists: true}, want: stepInstall},
		"a manifest was applied: it is awaited": {found: found{namespace: "n", bootstrap: bootstrap(hub), deployment: true, config: config.Agent{ClientID: "west-1"}}, want: stepWait},
		"a manifest of another Cluster is refused": {
			found: found{namespace: "n", bootstrap: bootstrap(hub), deployment: true, config: config.Agent{ClientID: "east-1"}}, code: exit.Refused,
			err: "error: the agent on this cluster registers with another client ID than that of the text\n" + another + leaveManifest,
		},
		"another hub is refused, although it knows the default client ID": {
			found: joined(func(f *found) {
				f.server, f.config.ClientID, f.systemUID, f.signer = "https://other", "", "west-1", "key-2"
			}), code: exit.Refused,
			err: "error: this cluster has joined another hub or workspace: https://other, as Cluster fleet-default/west\n" + another + move,
		},
		"joined: nothing is done":                            {found: joined(nil), want: stepNothing},
		"joined with a trailing slash: nothing is done":      {found: joined(func(f *found) { f.server = hub + "/" }), want: stepNothing},
		"joined, and the user sets values: they are applied": {found: joined(func(f *found) { f.changes = true }), want: stepInstall},
		"imported, and the user sets values: refused": {
			found: joined(func(f *found) { f.changes, f.imported = true, true }), code: exit.Refused, err: unchanged,
		},
		"joined without Helm, and the user sets values: refused": {
			found: joined(func(f *found) { f.changes, f.release = true, "" }), code: exit.Refused, err: unchanged,
		},
		"a manifest was applied, and the user sets values: refused": {
			found: found{namespace: "n", bootstrap: bootstrap(hub), deployment: true, config: config.Agent{ClientID: "west-1"}, changes: true}, code: exit.Refused, err: unchanged,
		},
		"the identity is rejected: it registers again": {found: joined(func(f *found) { f.rejected = true }), want: stepInstall},
		"the Cluster was deleted and created again: it registers again": {
			found: joined(func(f *found) { f.rejected, f.config.ClientID = true, "west-0" }), want: stepInstall,
		},
		"the Deployment was deleted: it is installed":       {found: joined(func(f *found) { f.deployment = false }), want: stepInstall},
		"a text for the default client ID: nothing is done": {found: joined(func(f *found) { f.config.ClientID, f.systemUID = "", "west-1" }), want: stepNothing},
		"the hub has another CA, and the same signing key: it is installed": {
			found: joined(func(f *found) { f.newCA, f.signer = true, signer }), want: stepInstall,
		},
		"the hub has another CA, and its document proves it": {
			found: joined(func(f *found) { f.newCA, f.hubKey, f.signed = true, true, true }), want: stepInstall,
		},
		"another CA of another hub is refused": {
			found: joined(func(f *found) { f.newCA, f.signer = true, "key-2" }), code: exit.Refused, err: otherCA + another + installedAgain + leave,
		},
		"another CA of a hub that has copied the name of a key is refused": {
			found: joined(func(f *found) { f.newCA, f.signer, f.hubKey = true, signer, true }), code: exit.Refused, err: otherCA + another + installedAgain + leave,
		},
		"the hub has moved, and the client ID is the default": {
			found: joined(func(f *found) {
				f.server, f.config.ClientID, f.systemUID, f.signer = "https://before", "", "west-1", signer
			}), want: stepInstall,
		},
		"the hub has moved: it is installed": {found: joined(func(f *found) { f.server, f.signer = "https://before", signer }), want: stepInstall},
		"the hub has moved, and its document proves it": {
			found: joined(func(f *found) { f.server, f.signer, f.hubKey, f.signed = "https://before", "key-2", true, true }), want: stepInstall,
		},
		"another hub is refused, although it knows the configured client ID": {
			found: joined(func(f *found) { f.server, f.signer = "https://other", "key-2" }), code: exit.Refused,
			err: "error: this cluster has joined another hub or workspace: https://other, as Cluster fleet-default/west\n" + another + move,
		},
		"another hub is refused, although it has copied the name of a key": {
			found: joined(func(f *found) { f.server, f.signer, f.hubKey = "https://other", signer, true }), code: exit.Refused,
			err: "error: this cluster has joined another hub or workspace: https://other, as Cluster fleet-default/west\n" + another + move,
		},
		"another agent, and a scope: it is installed": {found: found{namespace: "n", others: []string{"Deployment x/fleet-agent"}, scoped: true}, want: stepInstall},
		"the hub's own cluster is refused": {
			found: found{namespace: "n", ownHub: true}, code: exit.Refused,
			err: "error: this cluster is the hub itself\nreason: TargetIsHub (docs/conditions.md)\nfix: select the cluster that joins with --context: kubectl config get-contexts\n" +
				"fix: the hub's own Cluster is controlled by the value bootstrap.enabled of the chart fleet\n",
		},
		"a namespace that goes is not used": {
			found: found{namespace: "n", exists: true, terminating: true}, code: exit.Preflight,
			err: "error: namespace n is being deleted\nreason: NamespaceTerminating (docs/conditions.md)\nfix: kubectl wait --for=delete namespace/n\n",
		},
		"another hub is refused": {
			found: joined(func(f *found) { f.server, f.config.ClientID = "https://other", "other-1" }), code: exit.Refused,
			err: "error: this cluster has joined another hub or workspace: https://other, as Cluster fleet-default/west\n" + another + move,
		},
		"another workspace is refused": {
			found: joined(func(f *found) {
				f.identity = &protocol.Identity{ClusterNamespace: "team", ClusterName: "west"}
			}), code: exit.Refused,
			err: "error: this cluster has joined another hub or workspace: https://hub:6443, as Cluster team/west\n" + another +
				"fix: to move it, with its workloads: on that hub, fleet unregister west -n team --keep-workloads, and join again (docs/uninstall.md#move-a-cluster)\n",
		},
		"another workspace, and the Cluster there was deleted: the cluster moves": {
			found: joined(func(f *found) {
				f.identity, f.rejected = &protocol.Identity{ClusterNamespace: "team", ClusterName: "west"}, true
			}), want: stepInstall,
		},
		"another hub, and the Cluster there was deleted: the cluster moves": {
			found: joined(func(f *found) { f.server, f.config.ClientID, f.rejected = "https://other", "other-1", true }), want: stepInstall,
		},
		"another hub that has given up an agent that it had imported: the cluster moves": {
			found: joined(func(f *found) { f.server, f.rejected, f.release = "https://other", true, "" }), want: stepInstall,
		},
		"another hub that may install its agent again is refused": {
			found: joined(func(f *found) { f.server, f.rejected, f.imported, f.release = "https://other", true, true, "" }), code: exit.Refused,
			err: "error: this cluster has joined another hub or workspace: https://other, as Cluster fleet-default/west\n" + another + moveImported,
		},
		"another hub that rejects an expired identity is refused": {
			found: joined(func(f *found) { f.server, f.rejected, f.expired = "https://other", true, true }), code: exit.Refused,
			err: "error: this cluster has joined another hub or workspace: https://other, as Cluster fleet-default/west; the agent's credential has expired, so that hub cannot tell whether it still has the Cluster\n" +
				another + strings.Replace(move, "join again", "join again with --unregistered", 1),
		},
		"another hub that does not answer is refused": {
			found: joined(func(f *found) { f.server, f.silent = "https://other", true }), code: exit.Refused,
			err: "error: this cluster has joined another hub or workspace: https://other, as Cluster fleet-default/west; that hub could not be asked whether it still has the Cluster\n" +
				another + move + "fix: if that hub no longer exists: docs/recovery.md#the-hub-is-lost\n",
		},
		"an imported agent follows its hub by itself": {
			found: joined(func(f *found) { f.server, f.imported, f.release = "https://other", true, "" }), code: exit.Refused,
			err: "error: this cluster has joined another hub or workspace: https://other, as Cluster fleet-default/west\n" + another + moveImported,
		},
		"another client ID is refused": {
			found: joined(func(f *found) { f.config.ClientID = "east-1" }), code: exit.Refused,
			err: "error: this cluster has joined as Cluster fleet-default/west, and the text is for another client ID\n" + another +
				"fix: to join as another Cluster: helm uninstall fleet-agent -n n, and join again. Then delete Cluster fleet-default/west, unless this cluster is a copy of that one\n" +
				"fix: to keep that Cluster, select the cluster that joins with --context: kubectl config get-contexts\n",
		},
		"the fixes reach the cluster that joins, not that of the current context": {
			found: joined(func(f *found) {
				f.here, f.server, f.imported, f.release = remedy.Target{Context: "west"}, "https://other", true, ""
			}), code: exit.Refused,
			err: "error: this cluster has joined another hub or workspace: https://other, as Cluster fleet-default/west\n" + another +
				"fix: to move it, with its workloads: on that hub, fleet unregister west -n fleet-default --keep-workloads --keep-agent --cluster-context west, and join again (docs/uninstall.md#move-a-cluster)\n",
		},
		"so does the one that removes another agent": {
			found: found{namespace: "n", exists: true, deployment: true, imported: true, here: remedy.Target{Context: "west"}}, code: exit.Refused,
			err: "error: a hub has installed the agent on this cluster\n" + another +
				"fix: to leave that hub: delete the Cluster there, then kubectl --context west delete namespace n && " +
				"kubectl --context west delete clusterrole,clusterrolebinding n-fleet-agent-role n-fleet-agent-role-binding --ignore-not-found, and join again\n",
		},
		"so does the one that removes a Helm release": {
			found: found{
				namespace: "n", exists: true, bootstrap: bootstrap("https://other"), deployment: true, release: release.StatusDeployed, here: remedy.Target{Context: "west"},
			}, code: exit.Refused,
			err: "error: the agent on this cluster registers at another hub: https://other, workspace fleet-default\n" + another +
				"fix: to leave that hub: helm --kube-context west uninstall fleet-agent -n n, then delete the Cluster there, and join again\n",
		},
		"registering at another hub is refused": {
			found: found{namespace: "n", exists: true, bootstrap: bootstrap("https://other"), deployment: true, release: release.StatusDeployed}, code: exit.Refused,
			err: "error: the agent on this cluster registers at another hub: https://other, workspace fleet-default\n" + another + leave,
		},
		"an imported agent without an identity is refused": {
			found: found{namespace: "n", exists: true, deployment: true, imported: true}, code: exit.Refused,
			err: "error: a hub has installed the agent on this cluster\n" + another + leaveManifest,
		},
		"a rejected imported agent is the hub's to repair": {
			found: joined(func(f *found) { f.rejected, f.imported, f.release = true, true, "" }), code: exit.Refused,
			err: "error: the hub has installed the agent on this cluster as Cluster fleet-default/west, and does not accept its identity any more\nfix: on the hub: fleet repair west -n fleet-default\n" +
				"fix: if that Cluster was deleted, also on the hub: fleet unregister west -n fleet-default --keep-workloads --keep-agent --cluster-context CONTEXT, and join again\n",
		},
		"an unknown Deployment is refused": {
			found: found{namespace: "n", exists: true, deployment: true}, code: exit.Refused,
			err: "error: Deployment n/fleet-agent exists and does not belong to a Helm release\n" + another + leaveManifest,
		},
		"an agent in another namespace is refused": {
			found: found{namespace: "n", others: []string{"Deployment x/fleet-agent"}}, code: exit.Refused,
			err: "error: another agent runs on this cluster: Deployment x/fleet-agent\n" + another + "fix: if both are wanted, give this one a scope: fleet join --set fleetAgent.scope=NAME\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := decide(text, test.found)
			if got != test.want || exit.CodeOf(err) != test.code {
				t.Errorf("%q, code %d: %v", got, exit.CodeOf(err), err)
			}
			if err != nil && exit.Text(err) != test.err {
				t.Errorf("got:\n%s\nwant:\n%s", exit.Text(err), test.err)
			}
		})
	}
}

func TestHubDocument_ProvesTheHubOfItsAddress(t *testing.T) {
	key, other := newKey(t), newKey(t)
	const ca = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"
	text := jointext.Text{URL: "https://now:6443", CA: ca}
	document := func(by identity.Key, change func(*identity.Document)) string {
		d := identity.Document{URL: "https://now:6443/", CA: []byte(ca), Serial: 7}
		if change != nil {
			change(&d)
		}
		signed, err := by.SignDocument(d)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	for name, test := range map[string]struct {
		document string
		want     bool
	}{
		"that of the hub":        {document(key, nil), true},
		"a CA more":              {document(key, func(d *identity.Document) { d.CA = []byte("x\n" + ca) }), true},
		"none":                   {"", false},
		"of another key":         {document(other, nil), false},
		"a copy, at another URL": {document(key, func(d *identity.Document) { d.URL = "https://before:6443" }), false},
		"without a URL":          {document(key, func(d *identity.Document) { d.URL = "" }), false},
		"of another CA":          {document(key, func(d *identity.Document) { d.CA = []byte("x") }), false},
		"an old one":             {document(key, func(d *identity.Document) { d.Serial = 6 }), false},
	} {
		kept := protocol.RecoveryData{Recovery: protocol.Recovery{HubKey: key.Public()}, Serial: 7}
		if got := isSigned(text, kept, test.document); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMissingRights_AreNamedAllAtOnce(t *testing.T) {
	err := missingRights([]right{{"create", "", "namespaces", ""}, {"create", "apps", "deployments", "n"}})
	const want = "error: you do not have the right to create deployments.apps in namespace n on this cluster\n" +
		"error: you do not have the right to create namespaces on this cluster\n" +
		"fix: use the --context of an administrator (ClusterRole cluster-admin): kubectl auth whoami\n"
	if exit.Text(err) != want || exit.CodeOf(err) != exit.Preflight || missingRights(nil) != nil {
		t.Errorf("code %d: %s", exit.CodeOf(err), exit.Text(err))
	}
}

func TestClockProblem(t *testing.T) {
	at := func(d time.Duration) hubclient.Response { return hubclient.Response{Offset: d, Known: true} }
	for name, test := range map[string]struct {
		hub, cluster hubclient.Response
		want         string
	}{
		"equal":         {at(time.Hour), at(time.Hour), ""},
		"a minute":      {at(0), at(time.Minute), ""},
		"ahead":         {at(-time.Minute), at(time.Minute), "is 2m0s ahead of the hub's"},
		"behind":        {at(0), at(-time.Hour), "is 1h0m0s behind the hub's"},
		"hub unknown":   {hubclient.Response{}, at(time.Hour), ""},
		"other unknown": {at(time.Hour), hubclient.Response{}, ""},
	} {
		if got := clockProblem(test.hub, test.cluster); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestValuesOfTheText_CannotBeSet(t *testing.T) {
	o := options{}
	o.values.Values = []string{"token=x", "apiServerURL=y"}
	_, err := o.userValues()
	const want = "error: value apiServerURL comes from the join text and cannot be set\nerror: value token comes from the join text and cannot be set\nfix: fleet join --help\n"
	if exit.Text(err) != want || exit.CodeOf(err) != exit.Usage {
		t.Errorf("code %d: %s", exit.CodeOf(err), exit.Text(err))
	}
	o.values.Values = []string{"fleetAgent.scope=x"}
	o.image = "r/i:t"
	values, err := o.userValues()
	if err != nil || values["internal"].(map[string]any)["image"] != "r/i:t" {
		t.Errorf("%v %v", values, err)
	}
}

func TestUnused_RefusesAClusterWhoseAgentReports(t *testing.T) {
	cluster := func(status corev1.ConditionStatus, seen bool) *fleet.Cluster {
		c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "west"}}
		if seen {
			c.Status.Agent.LastSeen = metav1.Now()
		}
		if status != "" {
			c.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.AgentReporting, Status: status}}
		}
		return c
	}
	for name, test := range map[string]struct {
		cluster *fleet.Cluster
		code    exit.Code
	}{
		"no agent yet":                 {cluster("", false), exit.Done},
		"an agent that is deployed":    {cluster(corev1.ConditionTrue, false), exit.Done},
		"an agent that reports":        {cluster(corev1.ConditionTrue, true), exit.Refused},
		"an agent that is silent":      {cluster(corev1.ConditionFalse, true), exit.Done},
		"an agent of an unknown state": {cluster("", true), exit.Done},
	} {
		if err := unused(test.cluster); exit.CodeOf(err) != test.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	const want = "error: Cluster fleet-default/west has an agent on another cluster, which reports; with its token, this cluster would replace it at once\n" +
		"fix: select the cluster that joins with --context: kubectl config get-contexts\n" +
		"fix: to replace that agent: fleet token revoke west -n fleet-default, and run the command again; it then names the request to confirm\n"
	if got := exit.Text(unused(cluster(corev1.ConditionTrue, true))); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestRefusal_NamesTheCommandThatWorks(t *testing.T) {
	request := func(reason string) *fleet.ClusterRegistration {
		r := &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "request-1"}}
		r.Status.ClusterName = "west"
		r.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Granted, Status: corev1.ConditionFalse, Reason: reason, Message: "m\n"}}
		return r
	}
	for name, test := range map[string]struct {
		reason string
		kept   bool
		fixes  string
	}{
		"a takeover, and the agent runs":     {conditions.ReasonTakeoverPending, true, "fix: fleet confirm-takeover west request-1 -n fleet-default\n"},
		"a takeover, and the agent is gone":  {conditions.ReasonTakeoverPending, false, "fix: run the command again with --timeout 10m, and while it waits, run the command that it prints: fleet confirm-takeover …\n"},
		"another reason with a command":      {conditions.ReasonTokenUnknown, false, "fix: fleet repair west -n fleet-default\n"},
		"another reason without any command": {conditions.ReasonClientIDTaken, false, ""},
	} {
		want := "error: ClusterRegistration fleet-default/request-1: m \nreason: " + test.reason + " (docs/conditions.md)\n" + test.fixes
		if got := exit.Text(refusal(request(test.reason), test.kept)); got != want {
			t.Errorf("%s: got:\n%s\nwant:\n%s", name, got, want)
		}
	}
	if got := confirmation(request(conditions.ReasonTokenUnknown)) + confirmation(nil); got != "" {
		t.Errorf("%q for requests that wait for no confirmation", got)
	}
}
