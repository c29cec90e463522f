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
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// The clusters. Each story leaves nothing on a downstream cluster for the next one.
const (
	hub   = framework.HubName
	west  = "west"
	north = "north"
)

var world *framework.World

func TestCLI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "the command line")
}

var _ = suite.Share(&world, framework.Options{Downstreams: []string{west, north}}, map[string]any{
	"agentCheckinInterval": "5s", "bootstrap": map[string]any{"enabled": false},
})

// leaves unregisters a Cluster after the stories of an ordered container, with the agents on these clusters.
func leaves(workspace, name string, contexts ...string) {
	AfterAll(func(ctx SpecContext) {
		for _, context := range contexts {
			leaks.noteObjects(ctx, context)
			left := run(ctx, "", "unregister", name, "-n", workspace, "--cluster-context", context)
			Expect(left.code).To(Equal(exit.Done), left.stderr)
			// Unregister keeps a namespace that the story has created.
			err := world.On(context).Kube.CoreV1().Namespaces().Delete(ctx, names.SystemNamespace, metav1.DeleteOptions{})
			Expect(err).To(Or(Not(HaveOccurred()), Satisfy(isGone)))
			Eventually(world.AgentRemains).WithArguments(ctx, context).WithTimeout(framework.Patience).Should(BeEmpty())
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
