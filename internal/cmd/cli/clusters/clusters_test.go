package clusters

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// run executes the command against a server.
func run(ctx context.Context, server *clitest.Server, out io.Writer, args ...string) (stderr string, err error) {
	var problems bytes.Buffer
	command := New(genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: &problems}, clitest.Noon)
	command.SetArgs(append(args, "--kubeconfig", server.Kubeconfig))
	command.SetOut(out)
	command.SetErr(&problems)
	command.SilenceErrors, command.SilenceUsage = true, true
	err = command.ExecuteContext(ctx)
	if err != nil {
		problems.WriteString(exit.Text(err))
	}
	return problems.String(), err
}

func cluster(namespace, name string, status fleet.ClusterStatus) *fleet.Cluster {
	return &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: clitest.Ago(72 * time.Hour)},
		Status:     status,
	}
}

func several() []kuberuntime.Object {
	ready := status(true, condition("Ready", "True", "", ""), condition("AgentReporting", "True", "", ""))
	ready.Agent.AgentVersion, ready.Agent.KubernetesVersion, ready.Agent.Platform = "v1.2.0", "v1.35.1", "linux/amd64"
	ready.Agent.Namespace = "cattle-fleet-system"
	three := int32(3)
	ready.Agent.Nodes, ready.Agent.ReadyNodes = &three, &three
	ready.Summary = fleet.BundleSummary{Ready: 12, DesiredReady: 12}
	failing := status(true, condition("Imported", "False", conditions.ReasonHubAddressChanged, "m"),
		condition("Ready", "False", "", "ErrApplied(1) [Bundle web: bad\x1b[31mvalue]"), condition("AgentReporting", "True", "", ""))
	failing.Summary = fleet.BundleSummary{Ready: 1, ErrApplied: 12, DesiredReady: 13, NonReadyResources: []fleet.NonReadyResource{
		{Name: "web", BundleState: fleet.ErrApplied, Message: "bad\x1b[31mvalue"}, {Name: "db", BundleState: fleet.WaitApplied},
		{Name: "api", BundleState: fleet.NotReady, NonReadyStatus: []fleet.NonReadyStatus{{
			APIVersion: "apps/v1", Kind: "Deployment", Namespace: "web", Name: "api", Summary: fleet.ResourceSummary{Transitioning: true, Message: []string{"Available: 0/1"}},
		}}},
		{Name: "old", BundleState: fleet.NotReady, NonReadyStatus: []fleet.NonReadyStatus{{
			APIVersion: "apps/v1", Kind: "Deployment", Namespace: "web", Name: "old", Summary: fleet.ResourceSummary{Transitioning: true, Message: []string{"Pending termination: 1"}},
		}}},
		{Name: "cfg", BundleState: fleet.Modified, ModifiedStatus: []fleet.ModifiedStatus{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "web", Name: "a", Missing: true}}},
	}}
	imported := cluster("fleet-default", "east", status(false,
		condition("Processed", "True", "", ""),
		condition("Imported", "False", conditions.ReasonKubeconfigMissing, "Secret fleet-default/east $(rm) does not exist"),
		condition("AgentReporting", "False", conditions.ReasonAwaitingAgent, "the agent is being deployed and has not reported yet")))
	imported.Spec.KubeConfigSecret, imported.Labels = "east $(rm)", map[string]string{"env": "prod", "region": "eu"}
	return []kuberuntime.Object{
		cluster("fleet-local", "local", ready), imported, cluster("fleet-default", "west", failing),
		cluster("fleet-default", "new", fleet.ClusterStatus{}),
	}
}

func TestEveryFormat_MatchesTheGoldens(t *testing.T) {
	server := clitest.Start(t, several()...)
	for name, args := range map[string][]string{
		"plain": nil, "list": {"list"}, "list-all": {"list", "-A"}, "list-local": {"-n", "fleet-local"}, "list-json": {"-A", "-o", "json"},
		"list-yaml": {"list", "-o", "yaml"}, "list-name": {"list", "-o", "name"}, "list-none": {"-n", "other"}, "list-none-json": {"-n", "other", "-o", "json"},
		"describe-east": {"describe", "east"}, "describe-east-json": {"describe", "east", "-o", "json"},
		"describe-west": {"describe", "west"}, "describe-new": {"describe", "new"}, "describe-local-yaml": {"describe", "local", "-n", "fleet-local", "-o", "yaml"},
		"describe-name": {"describe", "east", "-o", "name"}, "describe-missing": {"describe", "none"}, "unknown-subcommand": {"no-such"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			stderr, err := run(t.Context(), server, &out, args...)
			text := strings.ReplaceAll(out.String(), " --kubeconfig "+server.Kubeconfig, "")
			golden.Expect(t, name+".golden", fmt.Sprintf("%sexit code %d\n%s", text, exit.CodeOf(err), stderr))
		})
	}
}

func TestFixes_ReachTheSameHub(t *testing.T) {
	var out bytes.Buffer
	server := clitest.Start(t, several()...)
	if _, err := run(t.Context(), server, &out, "describe", "west", "--context", "hub"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Imported    fleet --kubeconfig " + server.Kubeconfig + " --context hub repair west -n fleet-default\n",
		"\n7 more are not ready: kubectl --kubeconfig " + server.Kubeconfig + " --context hub get bundledeployments",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}

// The Cluster was deleted and created again, and its token still exists.
func TestClusterWithoutAgent_FixPrintsTheTextOfItsToken(t *testing.T) {
	waiting := cluster("fleet-default", "west", status(false, condition("AgentReporting", "False", conditions.ReasonAwaitingAgent, "m")))
	waiting.Spec.ClientID = "c"
	token := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{
		Namespace: "fleet-default", Name: "west", Annotations: map[string]string{annotation.TokenForCluster: "west", annotation.TokenForClientID: "c"},
	}}
	for want, objects := range map[string][]kuberuntime.Object{
		"token create west --cluster west -n fleet-default": {waiting},
		"token show west --with-secret -n fleet-default":    {waiting, token},
	} {
		var out bytes.Buffer
		server := clitest.Start(t, objects...)
		if stderr, err := run(t.Context(), server, &out, "describe", "west"); err != nil {
			t.Fatal(stderr)
		}
		if fix := "AgentReporting   fleet --kubeconfig " + server.Kubeconfig + " " + want + "\n"; !strings.HasSuffix(out.String(), fix) {
			t.Errorf("%q is missing in:\n%s", fix, out.String())
		}
		server.Refuse("GET /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusterregistrationtokens", 403)
		if stderr, err := run(t.Context(), server, &out, "describe", "west"); err != nil || !strings.HasSuffix(out.String(), "token create west --cluster west -n fleet-default\n") {
			t.Errorf("without the right to list tokens: %v %s\n%s", err, stderr, out.String())
		}
	}
}

func TestListWithoutRights_NamesTheRequest(t *testing.T) {
	server := clitest.Start(t)
	server.Refuse("GET /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters", 403)
	stderr, err := run(t.Context(), server, io.Discard)
	if exit.CodeOf(err) != exit.Refused || !strings.Contains(stderr, "listing Clusters") {
		t.Errorf("error %v, stderr %s", err, stderr)
	}
}

func TestClusterWithoutTheAPI_IsNotTakenForAHub(t *testing.T) {
	const path = "GET /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters"
	server := clitest.Start(t)
	server.Refuse(path, 404)
	server.Refuse(path+"/east", 404)
	for _, args := range [][]string{{"list"}, {"describe", "east"}, {"watch"}} {
		stderr, err := run(t.Context(), server, io.Discard, args...)
		if exit.CodeOf(err) != exit.Preflight || !strings.Contains(stderr, "this cluster is not a hub") || !strings.Contains(stderr, "\nfix: select the hub with --context") {
			t.Errorf("%v: error %v, stderr %s", args, err, stderr)
		}
	}
}

func TestLongAnswer_IsShortened(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":"`+strings.Repeat("x", 1<<16)+`"}`)
	}))
	defer server.Close()
	fake := clitest.Start(t)
	text, err := os.ReadFile(fake.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fake.Kubeconfig, bytes.ReplaceAll(text, []byte(fake.URL), []byte(server.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"list"}, {"describe", "east"}} {
		if stderr, err := run(t.Context(), fake, io.Discard, args...); err == nil || len(stderr) > 1200 {
			t.Errorf("%v: error %v, %d bytes", args, err, len(stderr))
		}
	}
}

func TestThousandClusters_AreListedInTwoRequests(t *testing.T) {
	server := clitest.Start(t)
	template := several()[2].(*fleet.Cluster)
	for i := range 1000 {
		one := template.DeepCopy()
		one.Name, one.Status.Conditions[1].Message = fmt.Sprintf("cluster-%04d", i), strings.Repeat("a", 4000)
		server.Put(one)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var out bytes.Buffer
	start := time.Now()
	if stderr, err := run(t.Context(), server, &out); err != nil {
		t.Fatal(stderr)
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	t.Logf("1,000 clusters in %s, %d KiB allocated by client and server", took, (after.TotalAlloc-before.TotalAlloc)>>10)
	if lines := strings.Count(out.String(), "\n"); lines != 1001 {
		t.Errorf("%d lines", lines)
	}
	want := []string{
		"GET /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters?limit=500",
		"GET /apis/fleet.cattle.io/v1alpha1/namespaces/fleet-default/clusters?continue=500&limit=500",
	}
	if got := strings.Join(server.Requests(), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("requests:\n%s", got)
	}
}

// lines is a writer that sends each line to a channel.
type lines struct {
	rest []byte
	to   chan string
}

func (l *lines) Write(data []byte) (int, error) {
	l.rest = append(l.rest, data...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			return len(data), nil
		}
		l.to <- string(l.rest[:i])
		l.rest = l.rest[i+1:]
	}
}

func TestWatch_PrintsChangesAndContinuesAfterExpiration(t *testing.T) {
	server := clitest.Start(t, several()...)
	ctx, cancel := context.WithCancel(t.Context())
	out := &lines{to: make(chan string, 100)}
	done := make(chan error, 1)
	go func() {
		_, err := run(ctx, server, out, "watch")
		done <- err
	}()
	expect := func(wants ...string) {
		t.Helper()
		for _, want := range wants {
			select {
			case line := <-out.to:
				if got := strings.Join(strings.Fields(line), " "); got != want {
					t.Errorf("line %q, want %q", got, want)
				}
			case err := <-done:
				t.Fatalf("ended with %v, want %q", err, want)
			}
		}
	}
	expect("NAME STATE REASON AGE LAST-SEEN AGENT KUBERNETES BUNDLES", "east NotImported KubeconfigMissing 3d - - - 0/0",
		"new Waiting - 3d - - - 0/0", "west NotReady ErrApplied 3d 60s ago - - 1/13")

	west := several()[2].(*fleet.Cluster)
	west.Status.Agent.LastSeen = clitest.Ago(0) // only a heartbeat: nothing is printed
	server.Put(west)
	west.Status.Summary.Ready = 2
	server.Put(west)
	expect("west NotReady ErrApplied 3d 0s ago - - 2/13")

	server.Expire()
	server.Delete(several()[1])
	west.Status.Summary.Ready = 3
	server.Put(west)
	got := map[string]bool{}
	for range 2 {
		got[strings.Join(strings.Fields(<-out.to), " ")] = true
	}
	if !got["west NotReady ErrApplied 3d 0s ago - - 3/13"] || !got["east Gone - 3d - - - 0/0"] {
		t.Errorf("after the expiration: %v", got)
	}
	server.Put(cluster("fleet-default", "next", fleet.ClusterStatus{}))
	expect("next Waiting - 3d - - - 0/0")
	cancel()
	if err := <-done; err != nil {
		t.Errorf("interrupted: %v", err)
	}
}

func TestWatch_PrintsDocuments(t *testing.T) {
	server := clitest.Start(t, several()[3])
	for format, want := range map[string][]string{
		"name": {"cluster.fleet.cattle.io/new"}, "yaml": {"---", "bundles: 0", "bundlesReady: 0"}, "json": {"{", `  "namespace": "fleet-default",`},
	} {
		t.Run(format, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out := &lines{to: make(chan string, 100)}
			done := make(chan error, 1)
			go func() {
				_, err := run(ctx, server, out, "watch", "-o", format)
				done <- err
			}()
			for _, line := range want {
				if got := <-out.to; got != line {
					t.Errorf("line %q, want %q", got, line)
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWatchWithoutRights_Fails(t *testing.T) {
	server := clitest.Start(t)
	server.Refuse("GET /apis/fleet.cattle.io/v1alpha1/clusters", 403)
	stderr, err := run(t.Context(), server, io.Discard, "watch", "-A")
	if exit.CodeOf(err) != exit.Refused || !strings.Contains(stderr, "watching Clusters") {
		t.Errorf("error %v, stderr %s", err, stderr)
	}
}
