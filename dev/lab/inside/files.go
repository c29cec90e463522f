//go:build linux

package inside

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Address ranges inside every cluster. The nodes' ranges may be equal, because pod addresses are not visible to
// other nodes.
const (
	podCIDR    = "10.42.0.0/16"
	nodePods   = "10.42.0.0/24"
	clusterDNS = "10.43.0.10" // no DNS server listens on this address
)

// socket is containerd's socket. It is in /run, which is private to each node.
const socket = "/run/containerd/containerd.sock"

// Names of files in the node's directory, in addition to those of package pki.
const (
	fileContainerd = "containerd.toml"
	fileKubelet    = "kubelet.json"
	fileResolv     = "resolv.conf"
	dirNetworks    = "net.d"
	dirTemporary   = "tmp"
)

// configure writes the configuration files of the components.
func (s Spec) configure() error {
	files := map[string]string{
		fileContainerd: s.containerd(),
		fileResolv:     "nameserver 127.0.0.1\n", // a pod needs one to start; nothing answers on it
		filepath.Join(dirNetworks, "10-pods.conflist"): network,
	}
	kubelet, err := json.MarshalIndent(s.kubelet(), "", "  ")
	if err != nil {
		return fmt.Errorf("writing kubelet's configuration: %w", err)
	}
	files[fileKubelet] = string(kubelet)
	err = errors.Join(os.MkdirAll(s.in(dirNetworks), 0o755), os.MkdirAll(s.in(dirTemporary), 0o700))
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(s.in(name), []byte(content), 0o600))
	}
	if err != nil {
		return fmt.Errorf("writing the node's configuration: %w", err)
	}
	return nil
}

// containerd returns containerd's configuration. restrict_oom_score_adj is needed where CAP_SYS_RESOURCE is
// missing, as in many containers. Without it no container starts.
func (s Spec) containerd() string {
	return fmt.Sprintf(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = %[1]q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %[2]q
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = %[3]q
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %[4]q
    conf_dir = %[5]q
`, socket, s.Pause, s.Snapshotter, s.Plugins, s.in(dirNetworks))
}

// network is the CNI configuration of the pods: a private bridge per node, and source NAT for traffic that leaves
// the node.
const network = `{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "ipam": {
      "type": "host-local", "ranges": [[{"subnet": "` + nodePods + `"}]], "routes": [{"dst": "0.0.0.0/0"}]
    }},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

// kubelet returns kubelet's configuration. It has its own cgroup root: otherwise two kubelets on one machine
// would end each other's pods. It deletes no images to free space, because no registry has them.
func (s Spec) kubelet() map[string]any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"cgroupDriver": "cgroupfs", "cgroupRoot": s.CgroupRoot,
		"failCgroupV1": false, "failSwapOn": false,
		"containerRuntimeEndpoint":    "unix://" + socket,
		"authentication":              map[string]any{"anonymous": map[string]any{"enabled": true}, "webhook": map[string]any{"enabled": false}},
		"authorization":               map[string]any{"mode": "AlwaysAllow"},
		"evictionHard":                map[string]any{"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "10Mi"},
		"imageGCHighThresholdPercent": 100,
		"clusterDNS":                  []string{clusterDNS}, "clusterDomain": "cluster.local",
		"resolvConf": s.in(fileResolv),
	}
}
