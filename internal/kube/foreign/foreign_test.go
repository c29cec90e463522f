package foreign

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube"
	"github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/kube/kubetest"
)

// validUntil is a certificate of 127.0.0.1 that signs itself, and its key, PEM.
func validUntil(t *testing.T, end time.Time) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end, IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

func TestForeignConfig(t *testing.T) {
	now := time.Now()
	credential := func(end time.Time, more string) []byte {
		certificate, key := validUntil(t, end)
		return kubetest.Kubeconfig("token: SECRET", "{client-certificate-data: "+base64.StdEncoding.EncodeToString(certificate)+
			", client-key-data: "+base64.StdEncoding.EncodeToString(key)+more+"}")
	}
	server := func(url string) []byte { return kubetest.Kubeconfig("https://10.99.0.3:6443", url) }
	type refusal struct {
		in []byte
		is error
		// always is what no operator can allow.
		always bool
	}
	tests := map[string]refusal{
		"a private address":                     {in: kubetest.Kubeconfig()},
		"a public address":                      {in: server("https://198.51.100.7")},
		"an IPv6 address":                       {in: server("https://[2001:db8::1]:6443")},
		"a name":                                {in: server("https://api.east.example.com:6443")},
		"plain http":                            {in: server("http://10.99.0.3"), is: ErrKubeconfigPlain, always: true},
		"no scheme and no CA":                   {in: kubetest.Kubeconfig("https://10.99.0.3:6443", "10.99.0.3", "certificate-authority-data: Y2E=", ""), is: ErrKubeconfigPlain, always: true},
		"as":                                    {in: kubetest.Kubeconfig("token: SECRET", "{token: SECRET, as: admin}"), is: kubeconfig.ErrKubeconfigImpersonates, always: true},
		"as-uid":                                {in: kubetest.Kubeconfig("token: SECRET", "{token: SECRET, as-uid: u}"), is: kubeconfig.ErrKubeconfigImpersonates, always: true},
		"as-groups":                             {in: kubetest.Kubeconfig("token: SECRET", "{token: SECRET, as-groups: [system:masters]}"), is: kubeconfig.ErrKubeconfigImpersonates, always: true},
		"as-user-extra":                         {in: kubetest.Kubeconfig("token: SECRET", "{token: SECRET, as-user-extra: {a: [b]}}"), is: kubeconfig.ErrKubeconfigImpersonates, always: true},
		"a good certificate":                    {in: credential(now.Add(time.Minute), "")},
		"an expired certificate":                {in: credential(now.Add(-time.Minute), ""), is: ErrKubeconfigExpired, always: true},
		"an expired certificate beside a token": {in: credential(now.Add(-time.Minute), ", token: SECRET")},
		"a proxy":                               {in: kubetest.Kubeconfig("server:", "proxy-url: http://198.51.100.8:3128\n    server:"), is: ErrKubeconfigProxy},
	}
	for _, host := range []string{
		"127.0.0.1:6443", "127.8.8.8", "[::1]", "[::ffff:127.0.0.1]", "localhost", "LOCALHOST:8443", "a.localhost", "0.0.0.0", "[::]", "169.254.169.254",
		"[fe80::1]", "[fe80::1%25eth0]", "[ff02::1]", "224.0.0.1", "2130706433", "kubernetes", "hub:6443", "kubernetes.default", "kubernetes.default.svc",
		"Kubernetes.Default.SVC.", "a.b.svc.cluster.local", "1-2-3-4.a.pod.cluster.local", "kubernetes.default.svc.corp.example", "a.b.SVC.corp.example:6443",
		"10.96.0.1", "10.96.255.255:6443", "[fd00:10:96::1]", "[::ffff:10.96.0.1]", "[64:ff9b::a60:1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::a9fe:a9fe]",
		"[2002:a60:1::1]", "[2002:7f00:1::]", "[::10.96.0.1]", "[::127.0.0.1]", "[::ffff:0:10.96.0.1]", "[fd00:10:96::1%25eth0]",
	} {
		tests["https://"+host] = refusal{in: server("https://" + host), is: ErrKubeconfigAddress}
	}
	for _, host := range []string{
		"10.97.0.1", "192.168.1.1", "172.16.0.1:6443", "100.64.0.1", "[fd00:10:97::1]", "[64:ff9b::a63:3]", "[2002:a63:3::1]", "svc.example.com", "a.svcs.example.com",
	} {
		tests["https://"+host+", which is not the hub's own"] = refusal{in: server("https://" + host)}
	}
	refused := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:10:96::/112")}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := Config(test.in, Options{Now: now, Refused: refused}); !errors.Is(err, test.is) {
				t.Errorf("got %v, want %v", err, test.is)
			}
			_, err := Config(test.in, Options{Now: now, AnyAddress: true, Refused: refused})
			if test.always && !errors.Is(err, test.is) || !test.always && err != nil {
				t.Errorf("as the operator allows: got %v, always %v", err, test.always)
			}
		})
	}
}

func TestCheckAddress(t *testing.T) {
	for address, refused := range map[string]bool{
		"127.0.0.1:443": true, "[::1]:443": true, "[::ffff:127.0.0.1]:443": true, "169.254.169.254:443": true, "[fe80::1%eth0]:443": true,
		"0.0.0.0:443": true, "nonsense": true, "10.0.0.1:443": false, "[2001:db8::1]:443": false,
		"10.96.0.1:443": true, "[64:ff9b::a60:1]:443": true,
	} {
		if err := (Options{Refused: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}}).checkAddress("tcp", address, nil); errors.Is(err, ErrKubeconfigAddress) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// nameServer answers every DNS query with 127.0.0.1 and records the queried names.
type nameServer struct {
	mu    sync.Mutex
	asked map[string]bool
}

// serve answers one query after the other: a header of 12 bytes, and the question, which is repeated.
func (n *nameServer) serve(at net.PacketConn) {
	query := make([]byte, 512)
	for {
		length, from, err := at.ReadFrom(query)
		if err != nil {
			return // closed
		}
		var labels []string
		end := 12
		for query[end] != 0 {
			labels = append(labels, string(query[end+1:end+1+int(query[end])]))
			end += 1 + int(query[end])
		}
		question := query[12 : end+5]
		n.mu.Lock()
		n.asked[strings.Join(labels, ".")] = true
		n.mu.Unlock()
		answer := append([]byte{query[0], query[1], 0x85, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
		if length > end+2 && query[end+2] == 1 { // A
			answer[7] = 1
			answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1)
		}
		_, _ = at.WriteTo(answer, from)
	}
}

// resolveToLoopback makes all names resolve to 127.0.0.1 during a test.
func resolveToLoopback(t *testing.T) *nameServer {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	answering := &nameServer{asked: map[string]bool{}}
	go answering.serve(server)
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	t.Cleanup(func() { net.DefaultResolver = before })
	return answering
}

// startVictim starts a server on 127.0.0.1 and counts the connections to it.
func startVictim(t *testing.T, handler http.HandlerFunc) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	connections := &atomic.Int32{}
	victim := httptest.NewUnstartedServer(handler)
	victim.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	victim.StartTLS()
	t.Cleanup(victim.Close)
	return victim, connections
}

func TestNameThatResolvesToLoopback_IsNotDialled(t *testing.T) {
	answering := resolveToLoopback(t)
	victim, connections := startVictim(t, http.NotFound)
	_, port, err := net.SplitHostPort(victim.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := Config(kubetest.Kubeconfig("https://10.99.0.3:6443", "https://rebinding.example:"+port, "certificate-authority-data: Y2E=", ""), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Reach(t.Context(), cfg, time.Minute); err != nil {
		t.Errorf("reaching: %v, which is for the next question to tell", err)
	}
	cfg, err = kube.WithTLSMode(t.Context(), cfg, config.TLSModeSystemStore)
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if _, err := d.ServerVersion(t.Context()); !errors.Is(err, ErrKubeconfigAddress) || errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v", err)
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
	answering.mu.Lock()
	defer answering.mu.Unlock()
	if len(answering.asked) != 1 || !answering.asked["rebinding.example"] {
		t.Errorf("search domains were tried: %v", answering.asked)
	}
}

func TestExpiredCertificate_IsClassified(t *testing.T) {
	certificate, key := validUntil(t, time.Now().Add(-time.Hour))
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	d, err := New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: certificate}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if _, err := d.ServerVersion(t.Context()); !errors.Is(err, ErrExpired) || !errors.Is(err, ErrUntrusted) {
		t.Errorf("error %v", err)
	}
}
