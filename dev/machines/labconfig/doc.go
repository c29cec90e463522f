// Package labconfig reconciles LabConfigs: it generates the files and commands that make a machine a control plane or a
// worker of its cluster.
//
//	LabConfig, Machine, Cluster, Secrets ─► Decide ─► Generating ─► credentials ─► Render ─► Secret ─► status.dataSecretName
//
//	control plane: etcd, kube-apiserver, kube-controller-manager, a kubelet with a certificate of the CA, and a podrunner,
//	               which runs Fleet's agent if the program fleetagent is on the machine's PATH
//	worker:        a kubelet with a bootstrap token, whose Secret is extended until the Machine has a Node
//
// Invariants:
//   - The name of the Secret is computed from the name of the LabConfig. The Secret is written once: later changes of the
//     LabConfig have no effect, because the machine has read the data. After the Secret is deleted it is written again.
//   - A Secret of another object is never changed.
//   - Files come from Secrets of the LabConfig's namespace. Their number, sizes and paths are limited.
package labconfig
