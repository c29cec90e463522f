package remedy_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

func west() *fleet.Cluster {
	return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "west"}}
}

func imported() *fleet.Cluster {
	cluster := west()
	cluster.Spec = fleet.ClusterSpec{KubeConfigSecret: "west-kubeconfig", KubeConfigSecretNamespace: "secrets", AgentNamespace: "agents"}
	return cluster
}

// local returns the Cluster that the hub creates for itself.
func local() *fleet.Cluster {
	return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-local", Name: "local"}, Spec: fleet.ClusterSpec{KubeConfigSecret: "local-cluster"}}
}

// ofClusterAPI returns a Cluster that the hub has created for Cluster API. join is how it joins.
func ofClusterAPI(join string) *fleet.Cluster {
	cluster := west()
	cluster.Annotations = map[string]string{annotation.CAPICluster: "fleet-default/west/1"}
	if join == "" {
		cluster.Spec.KubeConfigSecret = "west-kubeconfig"
	} else {
		cluster.Annotations[annotation.CAPIJoin] = join
	}
	return cluster
}

func TestEveryReasonOfAClusterWithACommandInTheDocuments_HasARemedy(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/conditions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(string(page), "## Reasons on a Cluster\n")
	rows, _, _ = strings.Cut(rows, "\n## ")
	found := 0
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| .*(?:kubectl|helm) .*$").FindAllStringSubmatch(rows, -1) {
		found++
		if remedy.OfCluster(west(), row[1]) == "" && remedy.OfCluster(imported(), row[1]) == "" {
			t.Errorf("reason %s has no remedy: %s", row[1], row[0])
		}
	}
	if found == 0 {
		t.Error("found no reason with a command")
	}
}

const upgradeHub = "helm upgrade -n cattle-fleet-system fleet charts/fleet --reset-then-reuse-values"

func TestCommands(t *testing.T) {
	odd, flag := imported(), imported()
	odd.Spec.KubeConfigSecret, odd.Spec.AgentNamespace = "x; rm -rf ~ 'y'", "x; rm -rf ~ 'y'"
	flag.Spec.KubeConfigSecret = "--server=https://example.org"
	request := func(cluster string) *fleet.ClusterRegistration {
		return &fleet.ClusterRegistration{
			ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "request-1"}, Status: fleet.ClusterRegistrationStatus{ClusterName: cluster},
		}
	}
	token := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "west"}}
	reads := west()
	reads.Status.Agent.HubSerial = 3
	for name, test := range map[string]struct{ got, want string }{
		"another address, and the agent reads no document": {remedy.OfCluster(west(), conditions.ReasonHubAddressChanged), "fleet repair west -n fleet-default"},
		"another address, and the agent reads the document": {
			remedy.OfCluster(reads, conditions.ReasonHubAddressChanged),
			"wait: the agent takes over the address within a day. To move it now: fleet repair west -n fleet-default",
		},
		"invalid CA, no kubeconfig": {remedy.OfCluster(west(), conditions.ReasonHubCAInvalid), upgradeHub + " --set-file apiServerCA=hub-ca.pem"},
		"invalid CA, which may be in the kubeconfig Secret": {
			remedy.OfCluster(imported(), conditions.ReasonHubCAInvalid),
			"correct the key apiServerCA of Secret secrets/west-kubeconfig if it has one, otherwise: " + upgradeHub + " --set-file apiServerCA=hub-ca.pem",
		},
		"invalid URL, which may be in the kubeconfig Secret": {
			remedy.OfCluster(imported(), conditions.ReasonHubURLInvalid),
			"correct the key apiServerURL of Secret secrets/west-kubeconfig if it has one, otherwise: " + upgradeHub + " --set apiServerURL=https://HUB:6443",
		},
		"invalid CA, and a Secret with the name of a flag": {remedy.OfCluster(flag, conditions.ReasonHubCAInvalid), upgradeHub + " --set-file apiServerCA=hub-ca.pem"},
		"missing kubeconfig": {
			remedy.OfCluster(imported(), conditions.ReasonKubeconfigMissing),
			"kubectl create secret generic -n secrets west-kubeconfig --from-file=value=west.kubeconfig",
		},
		"unreadable kubeconfig": {
			remedy.OfCluster(imported(), conditions.ReasonKubeconfigInvalid),
			"kubectl config view --raw --flatten --minify --context west > west.kubeconfig && kubectl create secret generic " +
				"-n secrets west-kubeconfig --from-file=value=west.kubeconfig --dry-run=client -o yaml | kubectl apply -f -",
		},
		"kubeconfig with a refused address": {
			remedy.OfRefusedAddress(imported()),
			"kubectl config view --raw --flatten --minify --context west | sed 's|server: .*|server: https://HOST:6443|' > west.kubeconfig && " +
				"kubectl create secret generic -n secrets west-kubeconfig --from-file=value=west.kubeconfig --dry-run=client -o yaml | kubectl apply -f -",
		},
		"name with shell syntax: quoted": {
			remedy.OfCluster(odd, conditions.ReasonAgentPodFailing),
			`kubectl --context west -n 'x; rm -rf ~ '\''y'\''' describe pods`,
		},
		"Secret with a name that is not valid": {remedy.OfCluster(odd, conditions.ReasonKubeconfigMissing), ""},
		"Secret with the name of a flag":       {remedy.OfCluster(flag, conditions.ReasonKubeconfigMissing), ""},
		"the same, with a kubeconfig to write": {remedy.OfCluster(flag, conditions.ReasonKubeconfigInvalid), ""},
		"the same, with a refused address":     {remedy.OfRefusedAddress(flag), ""},
		"the same, in another namespace":       {remedy.OfCluster(flag, conditions.ReasonKubeconfigNamespaceRefused), ""},
		"request for a flag":                   {remedy.OfRegistration(request("--server=https://example.org"), conditions.ReasonAccountReplaced), ""},
		"Secret of another namespace": {
			remedy.OfCluster(imported(), conditions.ReasonKubeconfigNamespaceRefused),
			"kubectl annotate secret -n secrets west-kubeconfig fleet.cattle.io/allowed-workspaces=fleet-default",
		},
		"silent agent":             {remedy.OfCluster(imported(), conditions.ReasonAgentNotReporting), "kubectl --context west -n agents logs deployment/fleet-agent"},
		"silent agent of the hub":  {remedy.OfCluster(local(), conditions.ReasonAgentNotReporting), "kubectl -n cattle-fleet-system logs deployment/fleet-agent"},
		"agent was not installed":  {remedy.OfCluster(west(), conditions.ReasonAwaitingAgent), "fleet token create west --cluster west -n fleet-default"},
		"agent is being installed": {remedy.OfCluster(imported(), conditions.ReasonAwaitingAgent), ""},
		"kubeconfig of Cluster API": {
			remedy.OfCluster(ofClusterAPI(""), conditions.ReasonKubeconfigMissing), "kubectl describe clusters.cluster.x-k8s.io -n fleet-default west",
		},
		"expired kubeconfig of Cluster API": {
			remedy.OfCluster(ofClusterAPI(""), conditions.ReasonDownstreamUnauthorized), "kubectl describe clusters.cluster.x-k8s.io -n fleet-default west",
		},
		"expired kubeconfig of the hub's own cluster": {
			remedy.OfCluster(local(), conditions.ReasonDownstreamUnauthorized), "kubectl delete secret -n fleet-local local-cluster",
		},
		"agent that Cluster API has to install": {
			remedy.OfCluster(ofClusterAPI("agent"), conditions.ReasonAwaitingAgent),
			"kubectl get secret -n fleet-default west-fleet-join -o 'jsonpath={.data.value}' | base64 -d | kubectl --context west apply --server-side -f -",
		},
		"takeover":                   {remedy.OfRegistration(request("west"), conditions.ReasonTakeoverPending), "fleet confirm-takeover west request-1 -n fleet-default"},
		"account was replaced":       {remedy.OfRegistration(request("west"), conditions.ReasonAccountReplaced), "fleet repair west -n fleet-default"},
		"request without a Cluster":  {remedy.OfRegistration(request(""), conditions.ReasonAccountReplaced), ""},
		"token has ended":            {remedy.OfToken(token, conditions.ReasonTokenExpired), "fleet token create west -n fleet-default"},
		"reason without a command":   {remedy.OfCluster(west(), conditions.ReasonSettingsInvalid), ""},
		"token's other reasons":      {remedy.OfToken(token, conditions.ReasonValuesInvalid), ""},
		"empty word":                 {remedy.Quote(""), "''"},
		"error of the hub":           {remedy.OfCluster(west(), conditions.ReasonError), "kubectl logs -n cattle-fleet-system deployment/fleet-controller"},
		"error on a registration":    {remedy.OfRegistration(request("west"), conditions.ReasonError), "kubectl logs -n cattle-fleet-system deployment/fleet-controller"},
		"other manager of a Cluster": {remedy.OfRegistration(request("west"), conditions.ReasonClusterManagedElsewhere), "kubectl label clusters.fleet.cattle.io -n fleet-default west fleet.cattle.io/cluster-management-"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.got != test.want {
				t.Errorf("command\n%s\nwant\n%s", test.got, test.want)
			}
		})
	}
}

func TestNameOr(t *testing.T) {
	for text, want := range map[string]string{"west": "west", "a.b": "a.b", "": "NAME", "--server=https://example.org": "NAME", "a\nb": "NAME", "a;b": "NAME"} {
		if got := remedy.NameOr(text, "NAME"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestJoin_NamesTheTokenThatExists(t *testing.T) {
	const create, repair = "fleet token create west --cluster west -n fleet-default", "fleet repair west -n fleet-default"
	ofCluster := func(name string, more ...string) *fleet.ClusterRegistrationToken {
		token := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: name, Annotations: map[string]string{
			annotation.TokenForCluster: "west",
		}}}
		for i := 0; i < len(more); i += 2 {
			token.Annotations[more[i]] = more[i+1]
		}
		return token
	}
	expired, leaving, elsewhere := ofCluster("west"), ofCluster("west"), ofCluster("west")
	expired.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Ready, Status: "False", Reason: conditions.ReasonTokenExpired}}
	leaving.DeletionTimestamp = &metav1.Time{}
	elsewhere.Namespace = "other"
	joins := west()
	joins.Spec.ClientID = "c"
	for name, test := range map[string]struct {
		cluster *fleet.Cluster
		token   *fleet.ClusterRegistrationToken
		want    string
	}{
		"token of the Cluster":                   {joins, ofCluster("any"), "fleet token show any --with-secret -n fleet-default"},
		"for its client ID":                      {joins, ofCluster("west", annotation.TokenForClientID, "c"), "fleet token show west --with-secret -n fleet-default"},
		"for the client ID of an earlier one":    {joins, ofCluster("west", annotation.TokenForClientID, "b"), repair},
		"created again without a client ID":      {west(), ofCluster("west"), repair},
		"token of another name, which is unfit":  {west(), ofCluster("any"), create},
		"token has expired":                      {joins, expired, repair},
		"token is being deleted":                 {joins, leaving, repair},
		"token of another workspace":             {joins, elsewhere, create},
		"token of another Cluster with its name": {joins, ofCluster("west", annotation.TokenForCluster, "east"), repair},
		"hub installs the agent":                 {imported(), ofCluster("west"), ""},
		"manifest of Cluster API": {
			ofClusterAPI("agent"), ofCluster("capi-join-west"), remedy.OfCluster(ofClusterAPI("agent"), conditions.ReasonAwaitingAgent),
		},
	} {
		if got := remedy.Join(test.cluster, []*fleet.ClusterRegistrationToken{test.token}); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if got := remedy.Join(joins, nil); got != create {
		t.Errorf("no token: %q", got)
	}
}
