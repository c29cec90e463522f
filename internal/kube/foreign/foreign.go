package foreign

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
)

// Sentinels of where a kubeconfig from a user must not lead.
var (
	// ErrKubeconfigPlain means that the server is not reached by https.
	ErrKubeconfigPlain = errors.New("the kubeconfig's server does not begin with https://; use one that does")
	// ErrKubeconfigProxy means that proxy-url is set and the operator does not allow it.
	ErrKubeconfigProxy = errors.New("the kubeconfig names a proxy (proxy-url); set the proxy of the fleet chart instead, or allowLocalKubeconfigs")
	// ErrKubeconfigAddress means that the server, or what its name resolves to, is an address that means the hub's own
	// machine, its network segment or the services of its cluster, and the operator does not allow it.
	ErrKubeconfigAddress = errors.New("the kubeconfig points to a loopback, link-local or in-cluster address; use an address that other machines reach, or set allowLocalKubeconfigs of the fleet chart")
	// ErrHubAddress means that the hub's URL in a kubeconfig Secret points to such an address.
	ErrHubAddress = errors.New("its key apiServerURL points to a loopback, link-local or in-cluster address; use an address that other machines reach, or set allowLocalKubeconfigs of the fleet chart")
	// ErrKubeconfigExpired means that the client certificate has ended.
	ErrKubeconfigExpired = errors.New("the client certificate in the kubeconfig has expired; write a kubeconfig with a new one")
)

// Options describes how a user's kubeconfig is used.
type Options struct {
	// Insecure permits insecure-skip-tls-verify.
	Insecure bool
	// AnyAddress permits proxy-url, and loopback, link-local and in-cluster addresses.
	AnyAddress bool
	// Refused are networks that are refused without AnyAddress, for example that of the hub's Services.
	Refused []netip.Prefix
	// Now tells whether the client certificate has expired.
	Now time.Time
}

// Config returns the client configuration of a user's kubeconfig. Unless AnyAddress is set, it also checks the address
// of each connection that is dialled, so that a name cannot resolve to a refused address.
func Config(kubeconfig []byte, f Options) (*rest.Config, error) {
	cfg, err := kubeconfigs.SafeOrInsecure(kubeconfig, f.Insecure)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: its server is not a URL", kubeconfigs.ErrKubeconfigMalformed)
	case base.Scheme != "https":
		return nil, ErrKubeconfigPlain
	case isExpired(cfg, f.Now):
		return nil, ErrKubeconfigExpired
	case f.AnyAddress:
		return cfg, nil
	case cfg.Proxy != nil:
		return nil, ErrKubeconfigProxy
	}
	if err := f.restrict(cfg, base); err != nil {
		return nil, err
	}
	return cfg, nil
}

// restrict limits cfg to permitted addresses. base is its server.
func (f Options) restrict(cfg *rest.Config, base *url.URL) error {
	if f.refusesHost(base.Hostname()) {
		return ErrKubeconfigAddress
	}
	// A proxy of the operator's is dialled instead of the server, wherever it is. The function is given so that client-go
	// keeps no transport for each dialler.
	cfg.Proxy = http.ProxyFromEnvironment
	if !isProxied(base) {
		cfg.Dial = f.dial
	}
	return nil
}

func isProxied(base *url.URL) bool {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: base})
	return err == nil && proxy != nil
}

// isExpired reports whether the client certificate is the only credential and has ended.
func isExpired(cfg *rest.Config, now time.Time) bool {
	block, _ := pem.Decode(cfg.CertData)
	if block == nil || cfg.BearerToken != "" || cfg.Username != "" {
		return false
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	return err == nil && now.After(certificate.NotAfter)
}

// refusesHost reports whether a host name or address may lead to the hub itself, or to a Service in the hub's cluster.
func (f Options) refusesHost(host string) bool {
	if address, err := netip.ParseAddr(host); err == nil {
		return f.refusesAddress(address)
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if !strings.Contains(host, ".") || host == "kubernetes.default" {
		return true
	}
	// A label "svc" is in the names of Services, whatever the domain of the cluster is.
	return strings.Contains(host+".", ".svc.") || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".cluster.local")
}

// refusesAddress reports whether an address is a loopback or link-local address (where clouds serve their metadata), a
// multicast address, or in a refused network. For an IPv6 address that contains an IPv4 address, both are checked.
func (f Options) refusesAddress(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	if inner, ok := embedded(address); ok && f.refusesAddress(inner) {
		return true
	}
	return !address.IsValid() || address.IsLoopback() || address.IsUnspecified() || address.IsMulticast() || address.IsLinkLocalUnicast() ||
		slices.ContainsFunc(f.Refused, func(network netip.Prefix) bool { return network.Contains(address) })
}

// translated returns the IPv6 networks whose addresses end with an IPv4 address: those of NAT64, of stateless translators,
// and "compatible" addresses.
func translated() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("::ffff:0:0:0/96"),
		netip.MustParsePrefix("::/96"),
	}
}

// embedded is the IPv4 address that packets to an IPv6 address may be sent to.
func embedded(address netip.Addr) (netip.Addr, bool) {
	bytes := address.As16()
	switch {
	case !address.Is6():
		return netip.Addr{}, false
	case netip.MustParsePrefix("2002::/16").Contains(address): // 6to4
		return netip.AddrFrom4([4]byte(bytes[2:6])), true
	}
	return netip.AddrFrom4([4]byte(bytes[12:])), slices.ContainsFunc(translated(), func(network netip.Prefix) bool { return network.Contains(address) })
}

// dial connects like client-go does, but to no refused address. Names are taken as they are: search domains would make the
// name of a Service of "name.namespace".
func (f Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(host); err != nil && !strings.HasSuffix(host, ".") {
		host += "."
	}
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: f.checkAddress}
	return dialer.DialContext(ctx, network, net.JoinHostPort(host, port))
}

// checkAddress is asked with the address that a name has resolved to, before each connection.
func (f Options) checkAddress(_, address string, _ syscall.RawConn) error {
	dialled, err := netip.ParseAddrPort(address)
	if err != nil || f.refusesAddress(dialled.Addr()) {
		return ErrKubeconfigAddress
	}
	return nil
}
