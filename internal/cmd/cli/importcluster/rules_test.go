package importcluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const canary = "canary-93ab"

func options1() *options {
	return &options{flags: access.NewFlags(), name: "east"}
}

func TestAsIs_RefusesWhatTheHubRefuses(t *testing.T) {
	const again = "\nfix: leave out --as-is: then the hub gets the token of a service account of its own\n"
	const refused = "\nreason: KubeconfigRefused (docs/conditions.md)"
	tests := map[string]struct{ server, user, want string }{
		"a token":           {"https://203.0.113.7:6443", "token: " + canary, ""},
		"exec":              {"https://203.0.113.7:6443", "exec: {apiVersion: client.authentication.k8s.io/v1, command: aws}", "error: the hub would refuse the kubeconfig: the kubeconfig runs a command to log in (exec); use a token or a client certificate" + refused + again},
		"an auth provider":  {"https://203.0.113.7:6443", "auth-provider: {name: gcp}", "error: the hub would refuse the kubeconfig: the kubeconfig logs in through an auth-provider; use a token or a client certificate" + refused + again},
		"a token file":      {"https://203.0.113.7:6443", "tokenFile: /token", "error: the hub would refuse the kubeconfig: the kubeconfig points to a file; embed the data (kubectl config view --raw --flatten): tokenFile" + refused + again},
		"a key file":        {"https://203.0.113.7:6443", "client-key: /key", "error: the hub would refuse the kubeconfig: the kubeconfig points to a file; embed the data (kubectl config view --raw --flatten): client-key" + refused + again},
		"another user":      {"https://203.0.113.7:6443", "{token: " + canary + ", as: admin}", "error: the hub would refuse the kubeconfig: the kubeconfig acts as another user (as, as-uid, as-groups, as-user-extra); use a credential that has the rights itself" + refused + again},
		"a loopback server": {"https://127.0.0.1:6443", "token: " + canary, "error: the hub would refuse the kubeconfig: " + foreign.ErrKubeconfigAddress.Error() + refused + "\nfix: give the address by which the hub reaches the cluster: --server https://HOST:6443\n"},
		"plain HTTP":        {"http://203.0.113.7", "token: " + canary, "error: the hub would refuse the kubeconfig: " + foreign.ErrKubeconfigPlain.Error() + refused + "\nfix: give an https address that needs no proxy: --server https://HOST:6443\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			document := `{apiVersion: v1, kind: Config, contexts: [{name: a, context: {cluster: c, user: u}}, {name: b, context: {cluster: d}}],
				clusters: [{name: c, cluster: {server: "` + test.server + `"}}, {name: d, cluster: {server: "https://other"}}],
				users: [{name: u, user: ` + inline(test.user) + `}]}`
			raw, err := clientcmd.Load([]byte(document))
			if err != nil {
				t.Fatal(err)
			}
			stored, err := asIs(*raw, "a", "")
			if err != nil || strings.Contains(string(stored), "https://other") {
				t.Fatalf("%v: %s", err, stored)
			}
			err = check(stored, config.Config{}, false, time.Now())
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if exit.Text(err) != test.want || exit.CodeOf(err) != exit.Refused || strings.Contains(err.Error(), canary) {
				t.Errorf("code %d, got:\n%s\nwant:\n%s", exit.CodeOf(err), exit.Text(err), test.want)
			}
		})
	}
}

func inline(user string) string {
	if strings.HasPrefix(user, "{") {
		return user
	}
	return "{" + user + "}"
}

func TestOwnKubeconfig_HasOnlyTheToken(t *testing.T) {
	cfg := &rest.Config{Host: "https://203.0.113.7:6443", Username: "me", Password: "secret-of-mine", BearerToken: "token-of-mine"}
	stored, err := own(cfg, cfg.Host, canary)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(stored); !strings.Contains(text, canary) || strings.Contains(text, "of-mine") {
		t.Error(text)
	}
	if err := check(stored, config.Config{}, false, time.Now()); err != nil {
		t.Error(err)
	}
	if serverOf(stored) != cfg.Host {
		t.Errorf("server %q", serverOf(stored))
	}
}

func TestSettingsOfTheHub_AreUsed(t *testing.T) {
	local, err := own(&rest.Config{}, "https://10.96.0.1", canary)
	if err != nil {
		t.Fatal(err)
	}
	for document, accepted := range map[string]bool{
		`{}`: true, `{"refusedKubeconfigCIDRs": ["10.96.0.0/12"]}`: false,
		`{"refusedKubeconfigCIDRs": ["10.96.0.0/12"], "allowLocalKubeconfigs": true}`: true,
	} {
		settings, _, err := config.Parse([]byte(document), config.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := check(local, settings, false, time.Now()); (err == nil) != accepted {
			t.Errorf("%s: %v", document, err)
		}
	}
}

func TestDecide(t *testing.T) {
	const server = "https://203.0.113.7:6443"
	stored, err := own(&rest.Config{}, server, canary)
	if err != nil {
		t.Fatal(err)
	}
	secret := func(label string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "east-kubeconfig", Labels: map[string]string{"app.kubernetes.io/managed-by": label}},
			Data:       map[string][]byte{protocol.KubeconfigValueKey: stored},
		}
	}
	cluster := func(kubeconfig string, reporting bool) *fleet.Cluster {
		c := &fleet.Cluster{Spec: fleet.ClusterSpec{KubeConfigSecret: kubeconfig}}
		if reporting {
			c.Status.Agent.LastSeen = metav1.Now()
		}
		return c
	}
	tests := map[string]struct {
		cluster *fleet.Cluster
		secret  *corev1.Secret
		server  string
		isOwn   bool
		want    step
		err     string
	}{
		"nothing there: it is created":                {nil, nil, server, false, stepCreate, ""},
		"an interrupted import: it continues":         {nil, secret("fleet-import"), server, false, stepCreate, ""},
		"a Cluster without an agent: it is named":     {cluster("", false), nil, server, false, stepChange, ""},
		"not reporting yet: it waits":                 {cluster("east-kubeconfig", false), secret("fleet-import"), server, false, stepWait, ""},
		"imported: nothing is done":                   {cluster("east-kubeconfig", true), secret("fleet-import"), server, false, stepNothing, ""},
		"another Secret of that name":                 {nil, secret("me"), server, false, "", "Secret fleet-default/east-kubeconfig exists and was not created by this command"},
		"a Secret with another cluster's kubeconfig":  {nil, secret("fleet-import"), "https://x", false, "", "Secret fleet-default/east-kubeconfig has the kubeconfig of another address: " + server},
		"a Cluster without an agent, and that Secret": {cluster("", false), secret("fleet-import"), "https://x", false, "", "Secret fleet-default/east-kubeconfig has the kubeconfig of another address: " + server},
		"joined with a token":                         {cluster("", true), nil, server, false, "", "Cluster fleet-default/east has joined with a token, and its agent reports"},
		"another kubeconfig":                          {cluster("other", true), nil, server, false, "", "Cluster fleet-default/east names another kubeconfig Secret: other"},
		"another address":                             {cluster("east-kubeconfig", true), secret("fleet-import"), "https://x", false, "", "Cluster fleet-default/east was imported from another address: " + server},
		"the same cluster at another address":         {cluster("east-kubeconfig", true), secret("fleet-import"), "https://x", true, stepWait, ""},
		"another address before the first heartbeat":  {cluster("east-kubeconfig", false), secret("fleet-import"), "https://x", false, stepWait, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := decide(options1(), test.cluster, test.secret, test.server, test.isOwn)
			if got != test.want || (err == nil) != (test.err == "") {
				t.Fatalf("%q, %v", got, err)
			}
			if err != nil && (err.Error() != test.err || exit.CodeOf(err) != exit.Refused) {
				t.Errorf("code %d: %v", exit.CodeOf(err), err)
			}
		})
	}
}

func TestState(t *testing.T) {
	imported := func(status corev1.ConditionStatus, reason string, seen bool) *fleet.Cluster {
		c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "east"}}
		c.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Imported, Status: status, Reason: reason, Message: "m"}}
		if seen {
			c.Status.Agent.LastSeen = metav1.Now()
		}
		return c
	}
	for name, test := range map[string]struct {
		cluster *fleet.Cluster
		done    bool
		code    exit.Code
	}{
		"nothing yet":           {&fleet.Cluster{}, false, exit.Done},
		"installed":             {imported("True", "", false), false, exit.Done},
		"reporting":             {imported("True", "", true), true, exit.Done},
		"unreachable: it waits": {imported("False", conditions.ReasonDownstreamUnreachable, false), false, exit.Done},
		"refused: it ends":      {imported("False", conditions.ReasonKubeconfigRefused, false), false, exit.Refused},
		"it is another Cluster": {imported("False", conditions.ReasonImportedTwice, false), false, exit.Refused},
	} {
		if done, err := state(test.cluster); done != test.done || exit.CodeOf(err) != test.code {
			t.Errorf("%s: %v %v", name, done, err)
		}
	}
}

func TestLateCluster_FixNamesKeepOnlyIfItWasNotGiven(t *testing.T) {
	cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "east"}}
	for fix, kept := range map[string]bool{
		"fleet clusters describe east -n n":                                          true,
		"run the command again with --keep, then: fleet clusters describe east -n n": false,
	} {
		var failure *exit.Error
		if err := late(cluster, "n/east", time.Minute, kept); !errors.As(err, &failure) || !slices.Equal(failure.Fixes, []string{fix}) {
			t.Errorf("kept %t: %v", kept, failure)
		}
	}
}

func TestClusterThatIsAnotherCluster_ErrorNamesTheWaysOut(t *testing.T) {
	cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "east"}}
	cluster.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Imported, Status: "False", Reason: conditions.ReasonImportedTwice, Message: "registered as Cluster n/capi"}}
	_, refused := state(cluster)
	const fixes = "reason: ImportedTwice (docs/conditions.md)\nfix: keep the Cluster that the message names, and import nothing: fleet clusters -n n\n" +
		"fix: to install a second agent, create the Cluster with its own spec.agentNamespace, and run the command again\n"
	for name, err := range map[string]error{"new": refused, "of an earlier run": late(cluster, "n/east", time.Minute, false)} {
		if text := exit.Text(err); !strings.Contains(text, "registered as Cluster n/capi\n") || !strings.HasSuffix(text, fixes) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestInvalidFlags_AreNamedAllAtOnce(t *testing.T) {
	o := options1()
	o.name, o.server, o.labels = "East", "http://x", map[string]string{"a b": "c"}
	err := o.check()
	if len(err.(*exit.Error).Problems) != 4 || exit.CodeOf(err) != exit.Usage { //nolint:errorlint // it is not wrapped
		t.Errorf("%v", err)
	}
}
