package plane

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// etcdSocket is the Unix socket of etcd in the plane's data directory. It has no TCP port, so other users of
// the machine cannot read the clusters' Secrets. etcd requires a port in the name, even for a socket.
const etcdSocket = "etcd:0"

// etcdArgs returns the flags of the etcd that all clusters share. It runs in the data directory, because etcd
// accepts no path in a Unix URL. fsync is off, because the data may be lost with the machine.
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

// serverArgs holds the settings that differ between the clusters' API servers.
type serverArgs struct {
	name  string
	dir   string // the cluster's directory
	port  int
	audit string // path of the audit log; empty disables it
	// policy is the name of the audit policy's file in dir.
	policy string
	extra  []string // last, so that they override the others
}

// apiServerArgs returns the flags of an API server on loopback with the default admission plugins, RBAC and one
// admin token.
func apiServerArgs(a serverArgs) []string {
	file := func(name string) string { return filepath.Join(a.dir, name) }
	args := []string{
		// The path is relative to the working directory, the plane's data directory. An absolute path may be too
		// long for a socket address, or contain a comma, which separates addresses.
		"--etcd-servers=unix:" + etcdSocket,
		"--etcd-prefix=/" + a.name,
		"--bind-address=127.0.0.1", // by default it listens on all addresses
		fmt.Sprintf("--secure-port=%d", a.port),
		"--permit-port-sharing",           // shared with this process, which holds the port
		"--advertise-address=127.0.0.1",   // without a default route it finds no address itself
		"--endpoint-reconciler-type=none", // a loopback endpoint is invalid
		"--service-cluster-ip-range=" + pki.ServiceCIDR,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + file(pki.FileAccounts),
		"--service-account-signing-key-file=" + file(pki.FileAccounts),
		"--token-auth-file=" + file(pki.FileTokens),
		"--authorization-mode=Node,RBAC",
		// OwnerReferencesPermissionEnforcement requires rights on the owner for blockOwnerDeletion. Some
		// distributions enable it.
		"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
		"--tls-cert-file=" + file(pki.FileServing),
		"--tls-private-key-file=" + file(pki.FileServingKey),
		"--client-ca-file=" + file(pki.FileCA),
		"--allow-privileged",
	}
	if a.audit != "" {
		// Blocking mode: when a request returns, its event is in the log.
		args = append(args, "--audit-policy-file="+file(a.policy), "--audit-log-path="+a.audit, "--audit-log-mode=blocking",
			"--audit-log-maxsize=1048576") // MiB; large enough that the log is never rotated, because readers would miss the rotated part
	}
	return append(args, a.extra...)
}

// unusedControllers returns the controllers that need nodes, volumes or a cloud, which do not exist here.
// Without them a controller-manager starts faster and needs less memory. The controllers that remove finalizers
// of volumes stay, because admission sets these finalizers.
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

// controllerManagerArgs returns the flags of a cluster's controller-manager. With stockLimits it has the default
// client-side rate limits, as in users' clusters. Without, the limits are lifted, so that tests do not wait for
// them.
func controllerManagerArgs(dir string, port int, stockLimits bool) []string {
	file := func(name string) string { return filepath.Join(dir, name) }
	kubeconfig := file(pki.FileKubeconfig)
	args := []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port), // the default port is the same for every cluster
		"--permit-port-sharing",               // shared with this process, which holds the port
		"--tls-cert-file=" + file(pki.FileServing), "--tls-private-key-file=" + file(pki.FileServingKey),
		"--service-account-private-key-file=" + file(pki.FileAccounts), // without it the token controller is silently disabled
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
