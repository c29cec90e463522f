package join

import (
	"bytes"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
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
