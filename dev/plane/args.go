package plane

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// etcdSocket is the Unix socket of the one etcd, in the plane's data folder: no port, so nobody else
// on the machine can read the clusters' Secrets out of it. etcd wants a port in the name all the same.
const etcdSocket = "etcd:0"

// etcdArgs are the flags of the one etcd all clusters share. It runs in the data folder, since etcd
// takes no path in a Unix URL. Losing the data with the machine is fine: no fsync.
func etcdArgs() []string {
	const client, peer = "unix://" + etcdSocket, "unix://etcd-peer:0"
	return []string{
		"--data-dir=" + etcdFolder,
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--unsafe-no-fsync",
		"--log-level=error",
	}
}

// serverArgs says what is particular about one cluster's API server.
type serverArgs struct {
	name  string
	dir   string // of the cluster
	port  int
	audit string // path of the audit log; empty means none
	// policy is the file with the audit log's policy, in dir
	policy string
	extra  []string // at the end, so that they win
}

// apiServerArgs are the flags of an API server with the usual admission, RBAC and one admin token,
// on loopback only.
func apiServerArgs(a serverArgs) []string {
	file := func(name string) string { return filepath.Join(a.dir, name) }
	args := []string{
		// Relative to the working folder, the plane's data: a path may be longer than a socket's address
		// can be, or have a comma, which would make it two.
		"--etcd-servers=unix:" + etcdSocket,
		"--etcd-prefix=/" + a.name,
		"--bind-address=127.0.0.1", // the default listens everywhere
		fmt.Sprintf("--secure-port=%d", a.port),
		"--permit-port-sharing",           // with us, who hold it
		"--advertise-address=127.0.0.1",   // without a default route it could find none itself
		"--endpoint-reconciler-type=none", // a loopback endpoint is invalid
		"--service-cluster-ip-range=" + pki.ServiceCIDR,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + file(pki.FileAccounts),
		"--service-account-signing-key-file=" + file(pki.FileAccounts),
		"--token-auth-file=" + file(pki.FileTokens),
		"--authorization-mode=Node,RBAC",
		// The second asks who names the owner of an object for rights over both, as some distributions do.
		"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
		"--tls-cert-file=" + file(pki.FileServing),
		"--tls-private-key-file=" + file(pki.FileServingKey),
		"--client-ca-file=" + file(pki.FileCA),
		"--allow-privileged",
	}
	if a.audit != "" {
		// Blocking, so that what a test did is in the log when the request returns.
		args = append(args, "--audit-policy-file="+file(a.policy), "--audit-log-path="+a.audit, "--audit-log-mode=blocking",
			"--audit-log-maxsize=1048576") // in MiB: it is never begun anew, which nobody who reads it would notice
	}
	return append(args, a.extra...)
}

// unusedControllers need nodes, volumes or a cloud, none of which exist here. Without them a
// controller-manager starts faster and is smaller; all that acts on what can be here remains (so those
// that remove finalizers of volumes do: admission sets them).
func unusedControllers() []string {
	return []string{
		"cloud-node-lifecycle-controller", "device-taint-eviction-controller", "ephemeral-volume-controller",
		"horizontal-pod-autoscaler-controller", "node-ipam-controller", "node-lifecycle-controller", "node-route-controller",
		"persistentvolume-attach-detach-controller", "persistentvolume-binder-controller", "persistentvolume-expander-controller",
		"podcertificaterequest-cleaner-controller",
		"resourceclaim-controller", "service-lb-controller", "taint-eviction-controller", "ttl-controller",
		"volumeattributesclass-protection-controller",
	}
}

// controllerManagerArgs are the flags of a cluster's controller-manager. stockLimits leaves its
// client-side limits as a cluster of a user has them; otherwise they are lifted, so that a test waits
// for the controllers and not for their limits.
func controllerManagerArgs(dir string, port int, stockLimits bool) []string {
	file := func(name string) string { return filepath.Join(dir, name) }
	kubeconfig := file(pki.FileKubeconfig)
	args := []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port), // the default port is the same for every cluster
		"--permit-port-sharing",               // with us, who hold it
		"--tls-cert-file=" + file(pki.FileServing), "--tls-private-key-file=" + file(pki.FileServingKey),
		"--service-account-private-key-file=" + file(pki.FileAccounts), // without it the token controller is silently off
		"--root-ca-file=" + file(pki.FileCA),
		"--use-service-account-credentials",
		"--leader-elect=false",
		"--controllers=*,-" + strings.Join(unusedControllers(), ",-"),
	}
	if !stockLimits {
		args = append(args, "--kube-api-qps=500", "--kube-api-burst=1000")
	}
	return args
}
