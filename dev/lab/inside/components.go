//go:build linux

package inside

import (
	"net"
	"path/filepath"
	"strings"

	"github.com/fleet-hub/fleet/dev/plane/args"
	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// apiPort is the port of a node's API server.
const apiPort = "6443"

// host returns the node's address without the prefix length.
func (s Spec) host() string {
	address, _, _ := strings.Cut(s.Address, "/")
	return address
}

// URL returns the URL of the node's API server.
func (s Spec) URL() string { return "https://" + net.JoinHostPort(s.host(), apiPort) }

// kube returns a program from the directory of the Kubernetes executables.
func (s Spec) kube(name string, args ...string) program {
	return program{name: name, path: filepath.Join(s.Programs, name), args: args, env: s.env(), log: s.logOf(name)}
}

func (s Spec) logOf(name string) string { return filepath.Join(s.LogDir, name+".log") }

// env returns the environment of all components.
func (s Spec) env() []string {
	return append(args.Runtime(), "HOME="+s.in(dirTemporary), "TMPDIR="+s.in(dirTemporary),
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

func (s Spec) etcd() program {
	const url = "http://127.0.0.1:2379" // the node's own loopback
	return s.kube("etcd", "--data-dir="+s.in("etcd"), "--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls=http://127.0.0.1:2380", "--unsafe-no-fsync", "--log-level=error")
}

func (s Spec) apiServer() program {
	return s.kube("kube-apiserver",
		"--etcd-servers=http://127.0.0.1:2379",
		"--bind-address=0.0.0.0", "--secure-port="+apiPort, "--advertise-address="+s.host(),
		"--service-cluster-ip-range="+pki.ServiceCIDR,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+s.in(pki.FileAccounts), "--service-account-signing-key-file="+s.in(pki.FileAccounts),
		"--token-auth-file="+s.in(pki.FileTokens),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--tls-cert-file="+s.in(pki.FileServing), "--tls-private-key-file="+s.in(pki.FileServingKey), "--client-ca-file="+s.in(pki.FileCA),
		"--kubelet-preferred-address-types=InternalIP", // node names cannot be resolved, so "kubectl logs" needs the address
		"--allow-privileged")
}

// controllerManager runs with the default rate limits, as users' clusters do.
func (s Spec) controllerManager() program {
	kubeconfig := s.in(pki.FileKubeconfig)
	return s.kube("kube-controller-manager",
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", "--tls-cert-file="+s.in(pki.FileServing), "--tls-private-key-file="+s.in(pki.FileServingKey),
		"--service-account-private-key-file="+s.in(pki.FileAccounts), // without it the token controller is silently disabled
		"--root-ca-file="+s.in(pki.FileCA), "--use-service-account-credentials", "--leader-elect=false")
}

func (s Spec) scheduler() program {
	kubeconfig := s.in(pki.FileKubeconfig)
	return s.kube("kube-scheduler",
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", "--tls-cert-file="+s.in(pki.FileServing), "--tls-private-key-file="+s.in(pki.FileServingKey),
		"--leader-elect=false")
}

func (s Spec) nodeAgent() program {
	return s.kube("kubelet", "--config="+s.in(fileKubelet), "--kubeconfig="+s.in(pki.FileKubeconfig),
		"--hostname-override="+s.Name, "--node-ip="+s.host())
}

// proxy does not set the connection tracking sysctls, because they are read-only in the node's network namespace.
func (s Spec) proxy() program {
	return s.kube("kube-proxy", "--kubeconfig="+s.in(pki.FileKubeconfig), "--hostname-override="+s.Name,
		"--cluster-cidr="+podCIDR, "--proxy-mode=iptables",
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0")
}
