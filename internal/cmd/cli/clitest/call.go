package clitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
)

// Called is the outcome of a command.
type Called struct {
	Code           exit.Code
	Stdout, Stderr string
}

// String returns all of it, for golden files and errors.
func (c Called) String() string {
	return fmt.Sprintf("%sexit code %d\n%s", c.Stdout, c.Code, c.Stderr)
}

// Call executes a command with empty standard input. Standard error ends with the error, as `fleet` prints it.
func Call(ctx context.Context, command func(genericiooptions.IOStreams) *cobra.Command, args ...string) Called {
	var out, problems bytes.Buffer
	made := command(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &problems})
	made.SetArgs(append([]string{}, args...)) // for nil, cobra takes the arguments of the test
	made.SetOut(&out)
	made.SetErr(&problems)
	made.SilenceErrors, made.SilenceUsage = true, true
	err := made.ExecuteContext(ctx)
	var printed exit.Printed
	if err != nil && !errors.As(err, &printed) {
		problems.WriteString(exit.Text(err))
	}
	return Called{exit.CodeOf(err), out.String(), problems.String()}
}

// Open returns the access of a command that is given the kubeconfig of a server.
func (s *Server) Open(t *testing.T) *access.Cluster {
	t.Helper()
	flags, set := access.NewFlags(), pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Bind(set)
	if err := set.Parse([]string{"--kubeconfig", s.Kubeconfig}); err != nil {
		t.Fatal(err)
	}
	cluster, err := flags.Open()
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}
