// Package main is a whole Kubernetes control plane in one file: it looks at the name it was
// called by and becomes that component. The tests and `make demo` run it as child processes;
// nothing of it is linked into the product, which is why it has a go.mod of its own.
//
//	kube-apiserver · kube-controller-manager · kube-scheduler · etcd   (Linux: kubelet · kube-proxy · hollow-node)
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	components := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllermanager.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	}
	addNodeComponents(components)
	name := filepath.Base(os.Args[0])
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	component, found := components[name]
	if !found {
		fmt.Fprintf(os.Stderr, "%s: call this file by the name of a control-plane component, for instance through a symbolic link named kube-apiserver\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(component()))
}
