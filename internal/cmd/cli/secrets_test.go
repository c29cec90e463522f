package cli_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rancher/wrangler/v3/pkg/genericcondition"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// secret is part of each credential of these tests: that of the user, that of a token, and that of a kubeconfig on the hub.
// The kubeconfig of package clitest has the same one.
const secret = "CANARY"

// joinTexts matches join texts, which contain a credential.
var joinTexts = regexp.MustCompile(`fleet-join-v1:[A-Za-z0-9_-]+`)

// commandsOf returns all commands that do something.
func commandsOf(t *testing.T) (all []*cobra.Command) {
	t.Helper()
	var walk func(*cobra.Command)
	walk = func(command *cobra.Command) {
		if command.Runnable() && command.HasParent() {
			all = append(all, command)
		}
		for _, child := range command.Commands() {
			walk(child)
		}
	}
	walk(cli.New(genericiooptions.IOStreams{}, func(string) string { return "" }))
	if len(all) < 10 {
		t.Fatalf("%d commands", len(all))
	}
	return all
}

// objectsWithSecrets returns a hub with an imported cluster, one that has joined, one that waits for it, and their tokens.
func objectsWithSecrets(t *testing.T) []runtime.Object {
	t.Helper()
	values, err := protocol.Values{
		ClusterNamespace: "fleet-default", APIServerURL: "https://127.0.0.1:1", Token: secret, TokenName: "west", SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const kubeconfig = "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: c}}], " +
		"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: c, user: {token: " + secret + "}}]}"
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "fleet-default", Name: name, UID: "1"}
	}
	joined := &fleet.Cluster{ObjectMeta: named("west"), Spec: fleet.ClusterSpec{ClientID: "client-1"}}
	joined.Status.Agent.LastSeen = metav1.Now()
	token := &fleet.ClusterRegistrationToken{ObjectMeta: named("west")}
	token.Annotations, token.Status.SecretName = map[string]string{annotation.TokenForCluster: "west"}, "west"
	request := &fleet.ClusterRegistration{ObjectMeta: named("request-1"), Spec: fleet.ClusterRegistrationSpec{ClientID: "client-1"}}
	request.Status.ClusterName = "west"
	request.Status.Conditions = []genericcondition.GenericCondition{{Type: conditions.Granted, Status: corev1.ConditionFalse, Reason: conditions.ReasonTakeoverPending}}
	return []runtime.Object{
		joined, token, request, &fleet.Cluster{ObjectMeta: named("east"), Spec: fleet.ClusterSpec{KubeConfigSecret: "east-kubeconfig"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "system"}},
		&corev1.Secret{ObjectMeta: named("west"), Type: protocol.SecretTypeValues, Data: map[string][]byte{protocol.ValuesKey: values}},
		&corev1.Secret{ObjectMeta: named("east-kubeconfig"), Data: map[string][]byte{protocol.KubeconfigValueKey: []byte(kubeconfig)}},
	}
}

// answering returns a kubeconfig that leads to a server with always the same answer.
func answering(t *testing.T, code int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, http.StatusText(code), code)
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: hub, contexts: [{name: hub, context: {cluster: c, user: c}}, {name: east, context: {cluster: c, user: c}}], " +
		"clusters: [{name: c, cluster: {server: '" + server.URL + "'}}], users: [{name: c, user: {token: " + secret + "}}]}"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// attempts returns command lines of a command that succeed or fail.
func attempts(command *cobra.Command) (all [][]string) {
	path := strings.Fields(command.CommandPath())[1:]
	flags := []string{}
	for name, value := range map[string]string{"timeout": "200ms", "cluster-context": "east", "dry-run": "false"} {
		if command.Flags().Lookup(name) != nil {
			flags = append(flags, "--"+name+"="+value)
		}
	}
	for _, args := range [][]string{{}, {"west"}, {"east"}, {"other"}, {"west", "request-1"}} {
		all = append(all, slices.Concat(path, args, flags))
		if command.Flags().Lookup("output") != nil && command.Flags().Lookup("output").Value.Type() == "format" {
			all = append(all, slices.Concat(path, args, flags, []string{"-o", "yaml"}))
		}
	}
	return all
}

// execute runs the program and returns what it printed. A command that does not end within limit is interrupted.
func execute(t *testing.T, limit time.Duration, stdin string, args ...string) (exit.Code, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var out, problems bytes.Buffer
	code := cli.Run(ctx, append([]string{"fleet"}, args...),
		genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &problems}, func(string) string { return "" })
	return code, out.String() + problems.String()
}

func TestNoCommand_PrintsASecret(t *testing.T) {
	text, err := jointext.Encode(jointext.Text{
		URL: "https://127.0.0.1:1", Workspace: "fleet-default", Token: secret, TokenName: "west", SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // apply packs the working directory
	hubs := map[string]func(*testing.T) string{
		"a hub":        func(t *testing.T) string { return clitest.Start(t, objectsWithSecrets(t)...).Kubeconfig },
		"no hub":       func(t *testing.T) string { return filepath.Join(t.TempDir(), "missing") },
		"unauthorized": func(t *testing.T) string { return answering(t, http.StatusUnauthorized) },
		"forbidden":    func(t *testing.T) string { return answering(t, http.StatusForbidden) },
		"broken":       func(t *testing.T) string { return answering(t, http.StatusInternalServerError) },
	}
	// Only these print join texts: it is what they are for.
	handingOver := []string{"fleet token create", "fleet repair"}
	for _, command := range commandsOf(t) {
		for name, hub := range hubs {
			t.Run(strings.ReplaceAll(command.CommandPath(), " ", "-")+"/"+name, func(t *testing.T) {
				for _, args := range attempts(command) {
					if command.Flags().Lookup("kubeconfig") != nil {
						args = append(args, "--kubeconfig", hub(t))
					}
					code, printed := execute(t, 2*time.Second, text, args...)
					if strings.Contains(printed, secret) {
						t.Errorf("fleet %s printed a secret, exit code %d", strings.Join(args, " "), code)
					}
					if joinTexts.MatchString(printed) && !slices.Contains(handingOver, command.CommandPath()) {
						t.Errorf("fleet %s printed a join text, exit code %d", strings.Join(args, " "), code)
					}
				}
			})
		}
	}
}

func TestCommandsThatSucceed_PrintNoSecret(t *testing.T) {
	for _, line := range []string{
		"status -o json", "token list -o yaml", "token show west -o yaml", "token show west", "token create new --dry-run", "token revoke west", "clusters -A",
		"clusters list -o json", "clusters describe west", "clusters describe east -o yaml", "confirm-takeover west request-1 --dry-run", "version",
	} {
		t.Run(strings.ReplaceAll(line, " ", "-"), func(t *testing.T) {
			server := clitest.Start(t, objectsWithSecrets(t)...)
			args := strings.Fields(line)
			if line != "version" {
				args = append(args, "--kubeconfig", server.Kubeconfig)
			}
			code, printed := execute(t, time.Minute, "", args...)
			if code != exit.Done || strings.Contains(printed, secret) || joinTexts.MatchString(printed) {
				t.Errorf("exit code %d: %s", code, strconv.Quote(strings.ReplaceAll(printed, secret, "SECRET")))
			}
		})
	}
}

func TestSecretThatIsAskedFor_IsPrinted(t *testing.T) {
	server := clitest.Start(t, objectsWithSecrets(t)...)
	code, printed := execute(t, time.Minute, "", "token", "show", "west", "--with-secret", "--kubeconfig", server.Kubeconfig)
	parsed, err := jointext.Parse([]byte(joinTexts.FindString(printed)))
	if code != exit.Done || err != nil || parsed.Token != secret {
		t.Errorf("exit code %d, %v", code, err)
	}
	if code, printed = execute(t, time.Minute, "", "token", "show", "west", "--with-secret", "--format", "values", "--kubeconfig", server.Kubeconfig); !strings.Contains(printed, "token: "+secret+"\n") {
		t.Errorf("exit code %d", code)
	}
}

// TestNoFlag_TakesASecret lists the flags whose names sound like it.
func TestNoFlag_TakesASecret(t *testing.T) {
	sounds := regexp.MustCompile(`token|password|secret|credential|key|auth`)
	names := map[string]string{
		"with-secret":                   "prints a secret",
		"token":                         "the name of a token",
		"oci-registry-secret":           "the name of a Secret",
		"password-file":                 "the name of a file",
		"ssh-privatekey-file":           "the name of a file",
		"helm-credentials-by-path-file": "the name of a file",
	}
	for _, command := range commandsOf(t) {
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if sounds.MatchString(flag.Name) && names[flag.Name] == "" {
				t.Errorf("%s: what does --%s take? Other users of a machine see the arguments of processes", command.CommandPath(), flag.Name)
			}
		})
	}
}
