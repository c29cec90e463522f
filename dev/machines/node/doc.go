// Package node builds what the bootstrap data of a worker runs, so that a lab machine registers itself as a Node.
//
//	token Secret, bindings (package workload, in the cluster) ─┐
//	bootstrap kubeconfig (bootstrap data) ─────────────────────┴─► hollow-node ─► client certificate ─► Node, Lease, Ready
//
// hollow-node is a program of dev/kube (build.Kube): the kubelet of Kubernetes with a fake runtime. It pretends to run the
// pods that are bound to it; package pods runs real processes. It needs no root, opens no port and writes only below its
// root directory. The Node is Ready about one second after the start. A process needs 100 MB of memory, 84 MB of it are
// the program's text, which all components share: 16 MB per node.
//
// The service of a worker, with paths relative to the machine's folder:
//
//	hollow-node --name=NODE --root-dir=kubelet --bootstrap-kubeconfig=etc/kubernetes/bootstrap-kubeconfig
//
// Its bootstrap data contains one file for that, a kubeconfig with the token (pki.Access). A restart with the same root directory
// uses the certificate and no token.
//
// The control plane needs (package args: Server.BootstrapTokens, Controllers.Nodes):
//
//	kube-apiserver           --enable-bootstrap-token-auth  --client-ca-file=CA
//	kube-controller-manager  --cluster-signing-cert-file=CA  --cluster-signing-key-file=CA-KEY
//	                         --controllers=*,token-cleaner-controller   (with node-lifecycle-controller)
//
// A Node registers without a provider ID and with the taint of nodes that a cloud has not initialized yet (Uninitialized).
// The patch of Initialize sets the former and removes the latter, as a cloud controller manager does.
package node
