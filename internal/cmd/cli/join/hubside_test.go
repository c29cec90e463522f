package join

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/cmd/cli/token"
	"github.com/fleet-hub/fleet/internal/protocol"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Clouds give contexts names that no Cluster can have.
func TestContextThatIsNoName_NeedsCluster(t *testing.T) {
	const arn = "arn:aws:eks:eu-west-1:1:cluster/east"
	server := clitest.Start(t)
	text, err := os.ReadFile(server.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(server.Kubeconfig, bytes.ReplaceAll(text, []byte("name: east,"), []byte(`name: "`+arn+`",`)), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(streams genericiooptions.IOStreams) *cobra.Command { return New(streams, clitest.Noon) }
	got := clitest.Call(t.Context(), command, "--kubeconfig", server.Kubeconfig, "--hub-context", "hub", "--context", arn)
	if got.Code != exit.Usage || !strings.Contains(got.Stderr, `cluster name "`+arn+`"`) || !strings.HasSuffix(got.Stderr, "\nfix: choose the name of the Cluster: --cluster NAME\n") {
		t.Error(got)
	}
}

func TestFlagsWithoutEffect_AreRefused(t *testing.T) {
	server := clitest.Start(t)
	command := func(streams genericiooptions.IOStreams) *cobra.Command { return New(streams, clitest.Noon) }
	for _, args := range [][]string{
		{"--hub-context", "hub", "--context", "east", "--file", "west.join"}, {"--cluster", "west"}, {"--label", "a=b"}, {"--ttl", "1h"}, {"-n", "fleet-default"},
	} {
		got := clitest.Call(t.Context(), command, append(args, "--kubeconfig", server.Kubeconfig)...)
		if got.Code != exit.Usage || !strings.Contains(got.Stderr, "--hub-context") || len(server.Requests()) > 0 {
			t.Errorf("%v: %v, requests %v", args, got, server.Requests())
		}
	}
}

// The agent has reported already: a failed request to the hub must not remove it.
func TestHubThatFailsForAMoment_JoinGoesOn(t *testing.T) {
	west := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "west"}}
	west.Status.Agent.LastSeen = metav1.NewTime(clitest.Noon())
	server := clitest.Start(t, west)
	side := &hubSide{cluster: server.Open(t)}
	var requests atomic.Int32
	server.Fails = func() bool { return requests.Add(1) <= 3 }
	if err := side.await(t.Context(), Joined{Workspace: "fleet-default", Cluster: "west"}, time.Minute); err != nil {
		t.Errorf("after %d requests: %v", requests.Load(), err)
	}
}

// The commands are for the hub of --hub-context, not for the cluster of --context.
func TestHubContext_FixesReachTheHub(t *testing.T) {
	kubeSystem := func(uid types.UID) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid}}
	}
	imported := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "west"}, Spec: fleet.ClusterSpec{KubeConfigSecret: "k"}}
	server, set := clitest.Start(t, kubeSystem("hub"), imported), pflag.NewFlagSet("", pflag.ContinueOnError)
	o := &options{flags: access.NewFlags(), order: token.NewOrder(io.Discard), hubContext: "hub"}
	o.flags.Bind(set)
	if err := set.Parse([]string{"--kubeconfig", server.Kubeconfig, "--context", "west"}); err != nil {
		t.Fatal(err)
	}
	j := &joiner{options: o, cluster: clitest.Start(t, kubeSystem("west")).Open(t)}
	_, err := j.prepareHub(t.Context())
	onHub := " --kubeconfig " + server.Kubeconfig + " --context hub "
	if want := "\nfix: fleet" + onHub + "repair west -n fleet-default\n"; !strings.HasSuffix(exit.Text(err), want) {
		t.Errorf("an imported Cluster: %s", exit.Text(err))
	}
	rejected := found{
		here: o.flags.Target(), hub: j.hubTarget(), namespace: "n", exists: true, deployment: true, imported: true, rejected: true,
		server: "https://hub", identity: &protocol.Identity{ClusterNamespace: "fleet-default", ClusterName: "west"},
	}
	if _, err := decide(jointext.Text{URL: "https://hub", Workspace: "fleet-default"}, rejected); !strings.Contains(exit.Text(err), "\nfix: on the hub: fleet"+onHub+"repair west -n fleet-default\n") {
		t.Errorf("a rejected agent: %s", exit.Text(err))
	}
	if o.hubContext = ""; j.hubTarget() != (remedy.Target{}) {
		t.Errorf("without --hub-context: %v", j.hubTarget())
	}
}
