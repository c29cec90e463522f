package main

import (
	"context"

	"github.com/spf13/cobra"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// addNodeComponents adds what runs on a node. Control planes as child processes need none of it;
// one-node clusters with real pods and the workers of lab machines do, and those are Linux only.
func addNodeComponents(components map[string]func() *cobra.Command) {
	components["kubelet"] = func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }
	components["kube-proxy"] = proxy.NewProxyCommand
	components["hollow-node"] = newHollowNodeCommand
}
