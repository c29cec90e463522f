package labconfig

import (
	"bytes"
	"fmt"
	"path"

	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/cloudconfig"
	"github.com/fleet-hub/fleet/dev/machines/node"
	"github.com/fleet-hub/fleet/dev/machines/pods"
	"github.com/fleet-hub/fleet/dev/plane/args"
	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// Folders and files below the folder of the machine, which is also the working directory of all commands.
const (
	configFolder        = "etc/kubernetes"
	kubeletFolder       = "kubelet"
	bootstrapKubeconfig = "bootstrap-kubeconfig"
	podsFolder          = "pods"
	podsKubeconfig      = "podrunner-kubeconfig"
	// logFolder is the folder of the machine's logs, next to its root.
	logFolder = "../log"
	// sentinel is the file that every machine of Cluster API writes after success.
	sentinel = "run/cluster-api/bootstrap-success.complete"
)

// agentProgram is the command of the agent's container, and the program on the PATH of the machine that runs for it.
const agentProgram = "fleetagent"

// etcdPrefix is the prefix of the cluster's keys in etcd, as in other clusters.
const etcdPrefix = "registry"

// private are the permissions of files with keys.
const private = "0600"

// ControlPlane are the contents of a control plane's files. Each is PEM or a kubeconfig.
type ControlPlane struct {
	// Node is the name of the Node.
	Node string
	// Port is the port of the API server.
	Port                  int
	CA, Serving, Accounts pki.Pair
	// Controllers is the kubeconfig of the controller-manager, Kubelet that of the kubelet, and Pods that of the podrunner.
	Controllers, Kubelet, Pods []byte

	files []file
}

// Worker are the contents of a worker's files.
type Worker struct {
	// Node is the name of the Node.
	Node string
	// Kubeconfig has the bootstrap token.
	Kubeconfig []byte

	files []file
}

// document is the text that a machine executes.
type document struct {
	Files    []file     `json:"write_files"`
	Commands [][]string `json:"runcmd"`
}

// Render returns the bootstrap data of a control plane.
func (c ControlPlane) Render() ([]byte, error) {
	in := func(name string) string { return path.Join(configFolder, name) }
	ca := in(pki.FileCA)
	d := document{
		Files: append([]file{
			newFile(ca, "", c.CA.Certificate),
			newFile(in(pki.FileCAKey), private, c.CA.Key),
			newFile(in(pki.FileServing), "", c.Serving.Certificate),
			newFile(in(pki.FileServingKey), private, c.Serving.Key),
			newFile(in(pki.FileAccounts), private, c.Accounts.Key),
			newFile(in(pki.FileKubeconfig), private, c.Controllers),
			newFile(path.Join(kubeletFolder, "kubeconfig"), private, c.Kubelet),
			newFile(in(podsKubeconfig), private, c.Pods),
		}, c.files...),
		Commands: [][]string{
			component("etcd", args.Etcd()),
			component("kube-apiserver", args.Server{Name: etcdPrefix, Dir: configFolder, Port: c.Port, BootstrapTokens: true}.Args()),
			{"await", "-ca", ca, fmt.Sprintf("https://127.0.0.1:%d/readyz", c.Port)},
			component("kube-controller-manager", args.Controllers{Dir: configFolder, Nodes: true}.Args()),
			// The kubelet has a kubeconfig, so it does not use the other one.
			kubelet(c.Node, path.Join(kubeletFolder, "kubeconfig")),
			service(pods.Name, pods.Name, pods.Options{
				Kubeconfig: in(podsKubeconfig), Dir: podsFolder, LogDir: logFolder, Binaries: map[string]string{agentProgram: agentProgram},
			}.Args()),
		},
	}
	return d.render()
}

// Render returns the bootstrap data of a worker.
func (w Worker) Render() ([]byte, error) {
	kubeconfig := path.Join(configFolder, bootstrapKubeconfig)
	d := document{
		Files:    append([]file{newFile(kubeconfig, private, w.Kubeconfig)}, w.files...),
		Commands: [][]string{kubelet(w.Node, kubeconfig)},
	}
	return d.render()
}

func service(name, program string, flags []string) []string {
	return append([]string{"service", name, program}, flags...)
}

// component returns the command that runs a program of a control plane as a service of the same name.
func component(program string, flags []string) []string {
	return service(program, "env", append(append(args.Runtime(), program), flags...))
}

func kubelet(name, bootstrap string) []string {
	return service(api.NodeService, node.Program, node.Worker{Name: name, RootDir: kubeletFolder, BootstrapKubeconfig: bootstrap}.Args())
}

// render adds the commands that report success. A text that no machine accepts is an error.
func (d document) render() ([]byte, error) {
	d.Commands = append(d.Commands, []string{"mkdir", "-p", path.Dir(sentinel)}, []string{"touch", sentinel})
	text, err := yaml.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encoding the bootstrap data: %w", err)
	}
	text = bytes.Join([][]byte{[]byte("#cloud-config\n"), text}, nil)
	if _, err := cloudconfig.Parse(text); err != nil {
		return nil, fmt.Errorf("checking the bootstrap data: %w", err)
	}
	return text, nil
}
