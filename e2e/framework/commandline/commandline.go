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
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/dev/plane"
	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/internal/cmd/cli"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
)

// Answer is what a command printed, and its exit code.
type Answer struct {
	Code           exit.Code
	Stdout, Stderr string
}

// Run runs a command of fleet with this standard input, as the administrator of all clusters of the world. It adds the
// command and its output to the report of the story, without secrets.
func Run(ctx context.Context, world *framework.World, stdin string, args ...string) (Answer, error) {
	kubeconfig, err := kubeconfig(world)
	if err != nil {
		return Answer{}, fmt.Errorf("writing the kubeconfig: %w", err)
	}
	var out, problems bytes.Buffer
	code := cli.Run(ctx, append([]string{"fleet", "--kubeconfig", kubeconfig}, args...),
		genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &problems}, func(string) string { return "" })
	answer := Answer{code, out.String(), problems.String()}
	transcript := WithoutSecrets(fmt.Sprintf("$ fleet %s\n%s%s[exit code %d]", strings.Join(args, " "), answer.Stdout, answer.Stderr, code))
	ginkgo.AddReportEntry("transcript", transcript)
	ginkgo.GinkgoWriter.Println(transcript)
	return answer, nil
}

// WithoutSecrets returns a text in which join texts are cut.
func WithoutSecrets(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "fleet-join-v1:") && len(line) > 24 {
			lines[i] = line[:24] + "…"
		}
	}
	return strings.Join(lines, "\n")
}

// kubeconfig returns the path of a file with a context for each cluster, named after it. The hub's is the current one.
func kubeconfig(world *framework.World) (string, error) {
	path := filepath.Join(world.LogDir, "cli-kubeconfig")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	all := clientcmdapi.NewConfig()
	for _, cluster := range append([]*plane.Cluster{world.Plane.Hub}, world.Downstreams...) {
		one, err := clientcmd.Load(cluster.Kubeconfig)
		if err != nil {
			return "", err
		}
		name, current := cluster.Name, one.Contexts[one.CurrentContext]
		all.Clusters[name], all.AuthInfos[name] = one.Clusters[current.Cluster], one.AuthInfos[current.AuthInfo]
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	all.CurrentContext = framework.HubName
	return path, clientcmd.WriteToFile(*all, path)
}
