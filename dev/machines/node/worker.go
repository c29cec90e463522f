package node

// Program is the name of the executable in the directory of build.Kube.
const Program = "hollow-node"

// Worker describes the process of a node. Paths may be relative to its working directory.
type Worker struct {
	// Name is the name of the Node.
	Name string
	// RootDir is the directory of the kubelet. It is created if missing.
	RootDir string
	// BootstrapKubeconfig is the path of a kubeconfig with a bootstrap token.
	BootstrapKubeconfig string
}

// Args returns the arguments of Program.
func (w Worker) Args() []string {
	return []string{"--name=" + w.Name, "--root-dir=" + w.RootDir, "--bootstrap-kubeconfig=" + w.BootstrapKubeconfig}
}
