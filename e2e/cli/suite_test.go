// Package cli contains the stories of users who have only the command line `fleet`, on a hub and other clusters.
package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/suite"
	"github.com/fleet-hub/fleet/internal/cmd/cli"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
)

// The clusters. Each story uses its own.
const (
	hub   = framework.HubName
	west  = "west"  // joins with a token
	north = "north" // joins in one step
	east  = "east"  // is imported
	south = "south" // joins with a manifest
	lake  = "lake"  // joins after interruptions
)

var world *framework.World

func TestCLI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "the command line")
}

var _ = suite.Share(&world, framework.Options{Downstreams: []string{west, north, east, south, lake}}, map[string]any{
	"agentCheckinInterval": "5s", "bootstrap": map[string]any{"enabled": false},
})

// answer is what a command printed, and its exit code.
type answer struct {
	code           exit.Code
	stdout, stderr string
}

// Code and Stderr are for matchers of fields.
func (a answer) Code() exit.Code { return a.code }
func (a answer) Stderr() string  { return a.stderr }

// apply creates the objects of YAML documents, as kubectl apply does.
func apply(ctx SpecContext, cluster, documents string) error {
	config := configOf(cluster)
	discovered, err := restmapper.GetAPIGroupResources(world.On(cluster).Kube.Discovery())
	if err != nil {
		return err
	}
	mapper := restmapper.NewDiscoveryRESTMapper(discovered)
	writer, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for document := range strings.SplitSeq(documents, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return err
		}
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return err
		}
		options := metav1.ApplyOptions{FieldManager: "kubectl", Force: true}
		if _, err := writer.Resource(mapping.Resource).Namespace(object.GetNamespace()).Apply(ctx, object.GetName(), object, options); err != nil {
			return err
		}
	}
	return nil
}

func configOf(name string) *rest.Config {
	GinkgoHelper()
	config, err := clientcmd.RESTConfigFromKubeConfig(downstream(name))
	Expect(err).NotTo(HaveOccurred())
	return config
}

// run runs a command of fleet with this standard input, and adds it to the transcript without its secrets.
func run(ctx SpecContext, stdin string, args ...string) answer {
	GinkgoHelper()
	var out, problems bytes.Buffer
	code := cli.Run(ctx, append([]string{"fleet", "--kubeconfig", kubeconfig()}, args...),
		genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &problems}, func(string) string { return "" })
	a := answer{code, out.String(), problems.String()}
	transcript := fmt.Sprintf("$ fleet %s\n%s%s[exit code %d]", strings.Join(args, " "), a.stdout, a.stderr, code)
	AddReportEntry("transcript", withoutSecrets(transcript))
	GinkgoWriter.Println(withoutSecrets(transcript))
	return a
}

// withoutSecrets returns a text in which join texts are cut.
func withoutSecrets(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "fleet-join-v1:") && len(line) > 24 {
			lines[i] = line[:24] + "…"
		}
	}
	return strings.Join(lines, "\n")
}

// kubeconfig returns the path of a file with a context for each cluster. The hub's is the current one.
func kubeconfig() string {
	GinkgoHelper()
	path := filepath.Join(world.LogDir, "cli-kubeconfig")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	all := clientcmdapi.NewConfig()
	for name, own := range map[string][]byte{
		hub: world.Plane.Hub.Kubeconfig, west: downstream(west), north: downstream(north), east: downstream(east), south: downstream(south),
	} {
		one, err := clientcmd.Load(own)
		Expect(err).NotTo(HaveOccurred())
		current := one.Contexts[one.CurrentContext]
		all.Clusters[name], all.AuthInfos[name] = one.Clusters[current.Cluster], one.AuthInfos[current.AuthInfo]
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	all.CurrentContext = hub
	Expect(clientcmd.WriteToFile(*all, path)).To(Succeed())
	return path
}

func downstream(name string) []byte {
	GinkgoHelper()
	for _, cluster := range world.Downstreams {
		if cluster.Name == name {
			return cluster.Kubeconfig
		}
	}
	Fail("no cluster " + name)
	return nil
}

// joinText returns the join text in what `fleet token create` prints.
func joinText(stdout string) string {
	GinkgoHelper()
	_, rest, found := strings.Cut(stdout, "<<'JOIN'\n")
	text, _, closed := strings.Cut(rest, "\nJOIN\n")
	Expect(found && closed).To(BeTrue(), withoutSecrets(stdout))
	return text
}
