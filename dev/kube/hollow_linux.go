package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	fakeruntime "k8s.io/cri-api/pkg/apis/testing"
	cadvisor "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/certificate/bootstrap"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"
)

// here is a short path of the working directory. The kubelet listens on Unix sockets below its root directory, and
// the address of a socket has at most 107 bytes.
const here = "/proc/self/cwd"

// hollowNode holds the flags of a kubelet with a fake runtime.
type hollowNode struct {
	name, rootDir, bootstrapKubeconfig, providerID string
	labels                                         map[string]string
}

// newHollowNodeCommand returns a kubelet that registers its Node, reports it Ready, and pretends to run the pods that
// are bound to it. It needs neither root nor a container runtime, opens no port, and writes only below --root-dir.
//
// Package dev/machines/node explains why it is not NewHollowNodeCommand of Kubernetes.
func newHollowNodeCommand() *cobra.Command {
	n := &hollowNode{labels: map[string]string{}}
	cmd := &cobra.Command{
		Use:  "hollow-node",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return n.run(cmd.Context()) },
	}
	labels := cliflag.ConfigurationMap(n.labels)
	flags := cmd.Flags()
	flags.StringVar(&n.name, "name", "", "Name of the Node.")
	flags.StringVar(&n.rootDir, "root-dir", "", "Directory of the kubelet: its client certificate, its kubeconfig and its pods. It is created if missing.")
	flags.StringVar(&n.bootstrapKubeconfig, "bootstrap-kubeconfig", "", "Kubeconfig with a bootstrap token. It is used once, to request a client certificate.")
	flags.StringVar(&n.providerID, "provider-id", "", "Provider ID of the Node. If it is empty, a provider can set it later, but only once.")
	flags.Var(&labels, "node-labels", "Labels of the Node.")
	for _, name := range []string{"name", "root-dir", "bootstrap-kubeconfig"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is not defined above
		}
	}
	return cmd
}

func (n *hollowNode) run(ctx context.Context) error {
	bootstrapKubeconfig, err := filepath.Abs(n.bootstrapKubeconfig)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.rootDir, 0o700); err != nil {
		return fmt.Errorf("creating the root directory: %w", err)
	}
	if err := os.Chdir(n.rootDir); err != nil {
		return fmt.Errorf("entering the root directory: %w", err)
	}
	kubeconfig := filepath.Join(here, "kubeconfig")
	if err := bootstrap.LoadClientCert(ctx, kubeconfig, bootstrapKubeconfig, filepath.Join(here, "pki"), types.NodeName(n.name)); err != nil {
		return fmt.Errorf("requesting a client certificate for Node %s: %w", n.name, err)
	}
	client, heartbeat, err := clients(kubeconfig)
	if err != nil {
		return fmt.Errorf("creating clients for Node %s: %w", n.name, err)
	}
	return n.kubelet(ctx, client, heartbeat)
}

// kubelet runs the kubelet until the process ends.
func (n *hollowNode) kubelet(ctx context.Context, client, heartbeat *kubernetes.Clientset) error {
	flags, config := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{NodeName: n.name, NodeLabels: n.labels, MaxPods: 110})
	// It has created a root directory in /tmp, which this process does not use.
	if err := os.RemoveAll(flags.RootDirectory); err != nil {
		return err
	}
	flags.RootDirectory = here
	// With an external cloud provider the kubelet does not determine the Node's address. Without one it asks
	// DNS and then looks for a default route, and fails without a route.
	flags.CloudProvider = "external"
	config.ProviderID = n.providerID
	config.StaticPodPath, config.PodLogsDir = "", filepath.Join(here, "pod-logs")
	config.EnableServer, config.Port, config.ReadOnlyPort = false, 0, 0
	config.MakeIPTablesUtilChains = false // as root it would change the rules of this machine
	config.NodeStatusUpdateFrequency.Duration = 5 * time.Second
	kubemark.NewHollowKubelet(flags, config, client, heartbeat,
		&cadvisor.Fake{NodeName: n.name},
		fakeruntime.NewFakeImageService(), readyRuntime(),
		cm.NewStubContainerManager(),
	).Run(ctx)
	return nil
}

// readyRuntime returns a runtime that reports itself and its network ready. The kubelet calls it directly, not over a
// socket in /tmp as NewHollowNodeCommand does.
func readyRuntime() *fakeruntime.FakeRuntimeService {
	runtime := fakeruntime.NewFakeRuntimeService()
	runtime.FakeStatus = &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: cri.RuntimeReady, Status: true}, {Type: cri.NetworkReady, Status: true},
	}}
	return runtime
}

// clients returns the client of the kubelet and the one that renews the Lease and the Node's status. The second one
// has no rate limit, so that pods cannot delay it.
func clients(kubeconfig string) (client, heartbeat *kubernetes.Clientset, err error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	config.UserAgent = "hollow-node"
	if client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, nil, err
	}
	config.QPS, config.Timeout = -1, 10*time.Second
	heartbeat, err = kubernetes.NewForConfig(config)
	return client, heartbeat, err
}
