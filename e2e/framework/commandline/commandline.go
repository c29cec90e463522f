// Package commandline runs the command line `fleet` in the stories of a ginkgo suite, and reports what it prints.
//
//	arguments ─► kubeconfig with a context for each cluster ─► cli.Run ─► transcript, Answer
package commandline

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/onsi/ginkgo/v2"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/transcript"
	"github.com/fleet-hub/fleet/internal/cmd/cli"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
)

// Answer is what a command printed, and its exit code.
type Answer struct {
	Code           exit.Code
	Stdout, Stderr string
}

// Run runs a command of fleet with this standard input, as the administrator of all clusters of the user. It adds the
// command and its output to the report of the story, without secrets.
func Run(ctx context.Context, user *framework.User, stdin string, args ...string) (Answer, error) {
	answer, err := Quiet(ctx, user, stdin, args...)
	if err != nil {
		return answer, err
	}
	printed := transcript.Redact(fmt.Sprintf("$ fleet %s\n%s%s[exit code %d]", strings.Join(args, " "), answer.Stdout, answer.Stderr, answer.Code))
	ginkgo.AddReportEntry("transcript", printed)
	ginkgo.GinkgoWriter.Println(printed)
	return answer, nil
}

// Quiet is Run without the report, for commands that run again and again until something has happened.
func Quiet(ctx context.Context, user *framework.User, stdin string, args ...string) (Answer, error) {
	kubeconfig, err := kubeconfig(user)
	if err != nil {
		return Answer{}, fmt.Errorf("writing the kubeconfig: %w", err)
	}
	var out, problems bytes.Buffer
	code := cli.Run(ctx, append([]string{"fleet", "--kubeconfig", kubeconfig}, args...),
		genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &problems}, func(string) string { return "" })
	return Answer{code, out.String(), problems.String()}, nil
}

// kubeconfig returns the path of a file with a context for each cluster, named after it. The hub's is the current one.
func kubeconfig(user *framework.User) (string, error) {
	path := filepath.Join(user.Logs(), "cli-kubeconfig")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	document, err := user.Kubeconfig()
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, document, 0o600)
}
