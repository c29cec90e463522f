// Package args returns the command lines of a control plane's components on loopback. The planes of the tests use
// them, and the machines of dev/machines, which run one control plane each.
//
//	Runtime() ─► environment of all components
//	Etcd() ─► Unix sockets, no TCP port
//	Server.Args() ─► kube-apiserver, reads the files of package pki
//	Controllers.Args() ─► kube-controller-manager
package args

import (
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/fleet-hub/fleet/dev/plane/build"
	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// Runtime returns the environment variables that configure Go's runtime in a control plane's components. Each uses one
// processor: with two, threads that wake each other and look for work take a fifth of the components' time. GOGC=300 saves
// a quarter of the time in which an API server starts, because then it mostly allocates.
func Runtime() []string { return []string{"GOMAXPROCS=1", "GOGC=300"} }

// EtcdFolder is etcd's data folder in its working directory.
const EtcdFolder = "etcd"

// etcdSocket is the Unix socket of etcd in its working directory. It has no TCP port, so other users of the
// machine cannot read the clusters' Secrets. etcd requires a port in the name, even for a socket.
const etcdSocket = "etcd:0"

// Etcd returns the flags of an etcd that one or several clusters use. It runs in its data directory, because etcd
// accepts no path in a Unix URL. fsync is off, because the data may be lost with the machine.
func Etcd() []string {
	const client, peer = "unix://" + etcdSocket, "unix://etcd-peer:0"
	return []string{
		"--data-dir=" + EtcdFolder,
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--unsafe-no-fsync",
		"--log-level=error",
	}
}

// Server holds the settings that differ between API servers. An API server runs in etcd's working directory.
type Server struct {
	Name string // the prefix of the cluster's keys in etcd
	Dir  string // the folder with the files of package pki
	Port int
	// BootstrapTokens accepts the bootstrap tokens of nodes. Without it, the admin's static token is accepted.
	BootstrapTokens bool
	Audit           string   // path of the audit log; empty disables it
	Policy          string   // name of the audit policy's file in Dir
	Extra           []string // last, so that they override the others
}

// Args returns the flags of an API server on loopback with the default admission plugins, RBAC and one way to
// authenticate besides client certificates.
func (a Server) Args() []string {
	file := func(name string) string { return filepath.Join(a.Dir, name) }
	args := []string{
		// The path is relative to the working directory. An absolute path may be too long for a socket address, or
		// contain a comma, which separates addresses.
		"--etcd-servers=unix:" + etcdSocket,
		"--etcd-prefix=/" + a.Name,
		"--bind-address=127.0.0.1", // by default it listens on all addresses
		fmt.Sprintf("--secure-port=%d", a.Port),
		"--permit-port-sharing",           // shared with the process that reserves the port
		"--advertise-address=127.0.0.1",   // without a default route it finds no address itself
		"--endpoint-reconciler-type=none", // a loopback endpoint is invalid
		"--service-cluster-ip-range=" + pki.ServiceCIDR,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + file(pki.FileAccounts),
		"--service-account-signing-key-file=" + file(pki.FileAccounts),
		a.authentication(),
		"--authorization-mode=Node,RBAC",
		// OwnerReferencesPermissionEnforcement requires rights on the owner for blockOwnerDeletion. Some
		// distributions enable it.
		"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
		"--tls-cert-file=" + file(pki.FileServing),
		"--tls-private-key-file=" + file(pki.FileServingKey),
		"--client-ca-file=" + file(pki.FileCA),
		"--allow-privileged",
	}
	if a.Audit != "" {
		// Blocking mode: when a request returns, its event is in the log.
		args = append(args, "--audit-policy-file="+file(a.Policy), "--audit-log-path="+a.Audit, "--audit-log-mode=blocking",
			"--audit-log-maxsize=1048576") // MiB; large enough that the log is never rotated, because readers would miss the rotated part
	}
	return append(args, a.Extra...)
}

// authentication returns the flag of the tokens that the server accepts.
func (a Server) authentication() string {
	if a.BootstrapTokens {
		return "--enable-bootstrap-token-auth"
	}
	return "--token-auth-file=" + filepath.Join(a.Dir, pki.FileTokens)
}

// nodeControllers returns the controllers that need nodes. A cluster without nodes starts faster without them.
func nodeControllers() []string {
	return []string{"node-lifecycle-controller", "taint-eviction-controller"}
}

// unusedControllers returns the controllers that need pods on nodes, volumes or a cloud, which do not exist here.
// Without them a controller-manager starts faster and needs less memory. The controllers that remove finalizers
// of volumes stay, because admission sets these finalizers.
func unusedControllers() []string {
	unused := []string{
		"cloud-node-lifecycle-controller", "device-taint-eviction-controller", "ephemeral-volume-controller",
		"horizontal-pod-autoscaler-controller", "node-ipam-controller", "node-route-controller",
		"persistentvolume-attach-detach-controller", "persistentvolume-binder-controller", "persistentvolume-expander-controller",
		"podcertificaterequest-cleaner-controller",
		"resourceclaim-controller", "service-lb-controller", "ttl-controller",
		"volumeattributesclass-protection-controller",
	}
	return slices.DeleteFunc(unused, func(name string) bool {
		in, limited := limitedControllers()[name]
		return limited && (build.Minor() < in.first || build.Minor() > in.last)
	})
}

// minors are the first and the last minor version of Kubernetes with a controller.
type minors struct{ first, last int }

// limitedControllers returns the controllers that only some versions have. Controller-managers of the other versions
// reject the names.
func limitedControllers() map[string]minors {
	const newest = 1000
	return map[string]minors{
		"volumeattributesclass-protection-controller": {32, newest},
		"device-taint-eviction-controller":            {33, newest},
		"podcertificaterequest-cleaner-controller":    {34, newest},
		"cloud-node-lifecycle-controller":             {0, 36},
		"node-route-controller":                       {0, 36},
		"service-lb-controller":                       {0, 36},
	}
}

// Controllers holds the settings that differ between controller-managers.
type Controllers struct {
	Dir  string // the folder with the files of package pki
	Port int    // 0 serves no metrics and no health
	// StockLimits keeps the default client-side rate limits, as in users' clusters. Without it the limits are
	// lifted, so that tests do not wait for them.
	StockLimits bool
	// Nodes watches nodes, signs the certificates of new ones with the CA, and removes expired bootstrap tokens.
	Nodes bool
}

// Args returns the flags of a cluster's controller-manager.
func (a Controllers) Args() []string {
	file := func(name string) string { return filepath.Join(a.Dir, name) }
	kubeconfig := file(pki.FileKubeconfig)
	args := []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", a.Port), // the default port is the same for every cluster
		"--permit-port-sharing",                 // shared with the process that reserves the port
		"--tls-cert-file=" + file(pki.FileServing), "--tls-private-key-file=" + file(pki.FileServingKey),
		"--service-account-private-key-file=" + file(pki.FileAccounts), // without it the token controller is silently disabled
		"--root-ca-file=" + file(pki.FileCA),
		"--use-service-account-credentials",
		"--leader-elect=false",
		"--controllers=" + a.selection(),
	}
	if a.Nodes {
		args = append(args, "--cluster-signing-cert-file="+file(pki.FileCA), "--cluster-signing-key-file="+file(pki.FileCAKey))
	}
	if !a.StockLimits {
		args = append(args, "--kube-api-qps=500", "--kube-api-burst=1000")
	}
	return args
}

// selection returns the value of --controllers.
func (a Controllers) selection() string {
	unused := unusedControllers()
	if a.Nodes {
		return "*,token-cleaner-controller,-" + strings.Join(unused, ",-") // the token cleaner is off by default
	}
	unused = append(unused, nodeControllers()...)
	sort.Strings(unused)
	return "*,-" + strings.Join(unused, ",-")
}
