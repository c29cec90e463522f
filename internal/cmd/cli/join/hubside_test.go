package join

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
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
