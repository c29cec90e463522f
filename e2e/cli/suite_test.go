// Package cli contains the stories of users who have only the command line `fleet`, on a hub and other clusters.
package cli

import (
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/e2e/framework"
	"github.com/fleet-hub/fleet/e2e/framework/commandline"
	"github.com/fleet-hub/fleet/e2e/framework/suite"
	"github.com/fleet-hub/fleet/e2e/framework/transcript"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
)

// The clusters. Each story uses its own. All of them at once would need half of a processor, even without work.
const (
	hub   = framework.HubName
	west  = "west"  // joins with a token
	north = "north" // joins in one step
	east  = "east"  // is imported
	south = "south" // joins with a manifest
	lake  = "lake"  // joins after interruptions
	bay   = "bay"   // is imported after interruptions
	cape  = "cape"  // is imported with its admin's kubeconfig
	mill  = "mill"  // is imported when all problems are fixed
	moor  = "moor"  // is repaired, leaves, replaces another one, and joins when nothing prevents it any more
	fen   = "fen"   // is replaced, and replaces moor
	pond  = "pond"  // has faults of its agent
)

var world *framework.World

func TestCLI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "the command line")
}

var downstreams = []string{west, north, east, south, lake, bay, cape, mill, moor, fen, pond}

var _ = suite.Share(&world, framework.Options{Downstreams: downstreams, Later: downstreams}, map[string]any{
	"agentCheckinInterval": "5s", "bootstrap": map[string]any{"enabled": false},
})

// uses starts these clusters before the stories of an ordered container, and ends them afterwards.
func uses(clusters ...string) {
	AfterAll(func(ctx SpecContext) {
		for _, name := range clusters {
			leaks.noteObjects(ctx, name)
			leaks.stop(name)
		}
	})
	suite.Uses(&world, clusters...)
	BeforeAll(func() {
		for _, name := range clusters {
			leaks.watch(name)
		}
	})
}

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
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfigOf(name))
	Expect(err).NotTo(HaveOccurred())
	return config
}

// run runs a command of fleet with this standard input, and adds it to the transcript without its secrets.
func run(ctx SpecContext, stdin string, args ...string) answer {
	GinkgoHelper()
	leaks.begin()
	a, err := commandline.Run(ctx, world.User, stdin, args...)
	Expect(err).NotTo(HaveOccurred())
	leaks.addCommand(args, a.Stdout, a.Stderr)
	return answer{a.Code, a.Stdout, a.Stderr}
}

// kubeconfigOf returns the admin's kubeconfig of a cluster.
func kubeconfigOf(name string) []byte {
	GinkgoHelper()
	cluster := world.Cluster(name)
	Expect(cluster).NotTo(BeNil())
	return cluster.Kubeconfig
}

// joinText returns the join text in what `fleet token create` prints.
func joinText(stdout string) string {
	GinkgoHelper()
	text, err := transcript.JoinText(stdout)
	Expect(err).NotTo(HaveOccurred(), transcript.Redact(stdout))
	return text
}
