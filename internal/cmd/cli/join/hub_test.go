package join

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubclient"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
)

// canary is the bearer token of the texts.
const canary = "canary-7d41b0"

// authority is a CA.
type authority struct {
	pem  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), cert, key}
}

// issue returns a certificate for a server.
func (a authority) issue(t *testing.T, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// recorder records what clients send: the bytes of connections, and the requests that were decrypted.
type recorder struct {
	net.Listener
	mu       sync.Mutex
	bytes    bytes.Buffer
	requests []string
	tokens   int
}

func (r *recorder) Accept() (net.Conn, error) {
	conn, err := r.Listener.Accept()
	return recorded{conn, r}, err
}

func (r *recorder) saw(request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, request.Method+" "+request.URL.Path)
	if request.Header.Get("Authorization") != "" {
		r.tokens++
	}
}

type recorded struct {
	net.Conn
	to *recorder
}

func (c recorded) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.to.mu.Lock()
	defer c.to.mu.Unlock()
	c.to.bytes.Write(p[:n])
	return n, err
}

// answers are what a hub answers, by path. The status is 200 if it is 0.
type answers map[string]struct {
	code int
	body string
}

func good() answers {
	return answers{
		"/version": {0, `{"gitVersion":"v1.36.3"}`},
		"/apis/authentication.k8s.io/v1/selfsubjectreviews":      {0, `{"status":{"userInfo":{"username":"system:serviceaccount:fleet-default:west-1","uid":"u-1"}}}`},
		"/openapi/v3/apis/fleet.cattle.io/v1alpha1":              {0, `{"properties":{"kubernetesVersion":{}}}`},
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": {0, `{"status":{"allowed":true}}`},
	}
}

func (a answers) with(path string, code int, body string) answers {
	a[path] = struct {
		code int
		body string
	}{code, body}
	return a
}

// serve starts a hub with this certificate, and returns its URL.
func serve(t *testing.T, certificate tls.Certificate, a answers) (string, *recorder) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{Listener: listener}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.saw(request)
		answer, found := a[request.URL.Path]
		switch {
		case !found:
			w.WriteHeader(http.StatusNotFound)
			return
		case answer.code >= 300 && answer.code < 400:
			w.Header().Set("Location", "https://127.0.0.1:1/elsewhere")
		}
		if answer.code != 0 {
			w.WriteHeader(answer.code)
		}
		_, _ = io.WriteString(w, answer.body)
	}))
	server.Listener = r
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, r
}

func textFor(url string, ca authority) jointext.Text {
	return jointext.Text{
		URL: url, CA: ca.pem, Workspace: "fleet-default", Token: canary, TokenName: "west", ClientID: "client-1", Cluster: "moor",
		SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	}
}

func TestServerWithAnotherCA_ReceivesNoByteOfTheToken(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	url, r := serve(t, other.issue(t, nil), good())
	_, err := checkHub(t.Context(), textFor(url, own), time.Now)
	if exit.CodeOf(err) != exit.Preflight || !strings.Contains(err.Error(), "The token was not sent") {
		t.Fatalf("code %d: %v", exit.CodeOf(err), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes.Len() == 0 || len(r.requests) > 0 || bytes.Contains(r.bytes.Bytes(), []byte(canary)) {
		t.Errorf("%d bytes, requests %v", r.bytes.Len(), r.requests)
	}
}

func TestHub_IsProvenBeforeTheTokenIsSent(t *testing.T) {
	ca := newAuthority(t)
	url, r := serve(t, ca.issue(t, nil), good())
	report, err := checkHub(t.Context(), textFor(url, ca), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if report.version != "v1.36.3" || report.product != productOurs || report.namespace != "fleet-default" || report.account != "west-1" || report.uid != "u-1" {
		t.Errorf("%+v", report)
	}
	if r.requests[0] != "GET /version" || r.tokens != len(r.requests)-1 {
		t.Errorf("%d of %v had a token", r.tokens, r.requests)
	}
}

func TestProductOfTheHub_IsThatOfItsCRDs(t *testing.T) {
	ca := newAuthority(t)
	const schema = "/openapi/v3/apis/fleet.cattle.io/v1alpha1"
	tests := map[string]struct {
		answers answers
		want    string
	}{
		"this project":      {good(), productOurs},
		"Rancher Fleet":     {good().with(schema, 0, `{"properties":{"lastSeen":{}}}`), productRancher},
		"no right to see":   {good().with(schema, 403, ``), "an unknown version of Fleet"},
		"a failed request":  {good().with(schema, 500, ``), "an unknown version of Fleet"},
		"an endless schema": {good().with(schema, 0, strings.Repeat(" ", hubclient.AnswerLimit+1)), "an unknown version of Fleet"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			url, _ := serve(t, ca.issue(t, nil), test.answers)
			if report, err := checkHub(t.Context(), textFor(url, ca), time.Now); err != nil || report.product != test.want {
				t.Errorf("%q, %v", report.product, err)
			}
		})
	}
}

func TestBadHub_IsReportedWithItsProblem(t *testing.T) {
	ca := newAuthority(t)
	const reviews, rights = "/apis/authentication.k8s.io/v1/selfsubjectreviews", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	const revoked = "error: the hub does not accept the token fleet-default/west: it was revoked or has expired, or its workspace was deleted\n" +
		"reason: TokenRejected (docs/conditions.md)\nfix: on the hub: fleet repair moor -n fleet-default\n"
	const setURL = "fix: set apiServerURL of the chart fleet on the hub, then print the text again: fleet token show west -n fleet-default --with-secret\n"
	tests := map[string]struct {
		change  func(*x509.Certificate)
		answers answers
		want    string
	}{
		"another certificate name": {
			func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"hub.example.com"} }, good(),
			"error: the certificate of URL is for other names than that of the URL: x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs\n" +
				"reason: TLSUntrusted (docs/conditions.md)\nfix: set apiServerURL of the chart fleet on the hub to a name of the certificate, then print the text again: fleet token show west -n fleet-default --with-secret\n",
		},
		"an expired certificate": {
			func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, good(),
			"error: the certificate of URL has expired or is not valid yet, or the clock of this machine is wrong\n" +
				"reason: TLSUntrusted (docs/conditions.md)\nfix: check the clock of this machine: date\nfix: on the hub, renew the certificate of the API server, with kubeadm: kubeadm certs renew apiserver\n",
		},
		"a revoked token":                        {nil, good().with(reviews, 401, ""), revoked},
		"a deleted workspace":                    {nil, good().with(rights, 0, `{"status":{"allowed":false}}`), revoked},
		"a token that was revoked just now":      {nil, good().with(rights, 401, ""), revoked},
		"a cluster without Fleet":                {nil, good().with("/openapi/v3/apis/fleet.cattle.io/v1alpha1", 404, ""), "error: URL is not a hub: its API server does not have the API fleet.cattle.io\nfix: check apiServerURL of the chart fleet on the hub, then print the text again\n"},
		"a redirect":                             {nil, good().with("/version", 302, ""), "error: the server at URL redirects, which is not followed. Use the address of the API server itself\n" + setURL},
		"a redirect when the token is sent":      {nil, good().with(reviews, 307, ""), "error: the server at URL redirects, which is not followed. Use the address of the API server itself\n" + setURL},
		"an answer that is not JSON":             {nil, good().with("/version", 0, "<html>"), "error: asking the hub at URL: the hub's answer is not JSON\nfix: run the command again\n"},
		"an endless answer":                      {nil, good().with("/version", 0, strings.Repeat(" ", hubclient.AnswerLimit+1)), "error: asking the hub at URL: the hub's answer is too long\nfix: run the command again\n"},
		"a failure with a text of several lines": {nil, good().with(rights, 500, `{"message":"a\nb\u001b[2J"}`), "error: asking the hub at URL: the hub answered with status 500: a b [2J\nfix: run the command again\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			url, _ := serve(t, ca.issue(t, test.change), test.answers)
			_, err := checkHub(t.Context(), textFor(url, ca), time.Now)
			if err == nil {
				t.Fatal("it was accepted")
			}
			if got := strings.ReplaceAll(exit.Text(err), url, "URL"); got != test.want || exit.CodeOf(err) != exit.Preflight {
				t.Errorf("code %d:\n%s\nwant:\n%s", exit.CodeOf(err), got, test.want)
			}
			if strings.Contains(err.Error(), canary) {
				t.Error("the error contains the token")
			}
		})
	}
}

func TestHubThatDoesNotAnswer_IsReported(t *testing.T) {
	ca := newAuthority(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	_, err = checkHub(t.Context(), textFor("https://"+address, ca), time.Now)
	if !strings.HasPrefix(exit.Text(err), "error: no server answers at https://"+address+": ") || exit.CodeOf(err) != exit.Preflight {
		t.Errorf("code %d: %s", exit.CodeOf(err), exit.Text(err))
	}
}

func TestRefusedText_IsReportedByTheCommand(t *testing.T) {
	own, other := newAuthority(t), newAuthority(t)
	url, _ := serve(t, other.issue(t, nil), good())
	expires := time.Now().Add(-time.Minute)
	expired := textFor(url, own)
	expired.Expires = &expires
	for name, test := range map[string]struct {
		text jointext.Text
		want string
	}{
		"another CA": {textFor(url, own), "phase 2, check the hub: the server at " + url + " does not have the hub's CA"},
		"expired":    {expired, "phase 2, check the hub: the join text has expired at"},
	} {
		t.Run(name, func(t *testing.T) {
			encoded, err := jointext.Encode(test.text)
			if err != nil {
				t.Fatal(err)
			}
			var out, problems bytes.Buffer
			command := New(genericiooptions.IOStreams{In: strings.NewReader(encoded), Out: &out, ErrOut: &problems}, time.Now)
			command.SilenceErrors, command.SilenceUsage = true, true
			command.SetArgs([]string{"--kubeconfig", kubeconfigFile(t)})
			err = command.ExecuteContext(t.Context())
			if exit.CodeOf(err) != exit.Preflight || !strings.Contains(exit.Text(err), test.want) || strings.Contains(out.String()+problems.String()+exit.Text(err), canary) {
				t.Errorf("code %d: %s\n%s", exit.CodeOf(err), exit.Text(err), problems.String())
			}
		})
	}
}

func TestClockThatIsAhead_DoesNotMakeATextExpire(t *testing.T) {
	own := newAuthority(t)
	url, _ := serve(t, own.issue(t, nil), good())
	text, expires := textFor(url, own), time.Now().Add(time.Hour)
	text.Expires = &expires
	encoded, err := jointext.Encode(text)
	if err != nil {
		t.Fatal(err)
	}
	ahead := func() time.Time { return time.Now().Add(2 * time.Hour) }
	command := New(genericiooptions.IOStreams{In: strings.NewReader(encoded), Out: io.Discard, ErrOut: io.Discard}, ahead)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs([]string{"--kubeconfig", kubeconfigFile(t)})
	if err := command.ExecuteContext(t.Context()); errors.Is(err, jointext.ErrExpired) || !strings.Contains(exit.Text(err), "phase 3") {
		t.Error(exit.Text(err))
	}
}

func TestErrorsWithTheToken_AreRedacted(t *testing.T) {
	for _, err := range []error{
		fmt.Errorf("token: %s", base64.StdEncoding.EncodeToString([]byte(canary))),
		fmt.Errorf("patching: %s", canary), exit.Errorf(exit.Refused, "patching: %s", canary), inPhase(4, "install", errors.New("x "+canary)),
	} {
		if got := redact(err, canary); strings.Contains(exit.Text(got), canary) || !strings.Contains(exit.Text(got), "REMOVED") || exit.CodeOf(got) != exit.CodeOf(err) {
			t.Error(got)
		}
	}
}

func TestClusterThatRefusesARequest_FixReachesTheCluster(t *testing.T) {
	own := newAuthority(t)
	url, _ := serve(t, own.issue(t, nil), good())
	encoded, err := jointext.Encode(textFor(url, own))
	if err != nil {
		t.Fatal(err)
	}
	for request, code := range map[string]exit.Code{
		"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews": exit.Preflight,
		"GET /api/v1/namespaces/cattle-fleet-system":                  exit.Preflight,
		"POST /api/v1/namespaces":                                     exit.Failed,
	} {
		t.Run(request, func(t *testing.T) {
			server := clitest.Start(t)
			server.Refuse(request, http.StatusUnauthorized)
			var problems bytes.Buffer
			command := New(genericiooptions.IOStreams{In: strings.NewReader(encoded), Out: io.Discard, ErrOut: &problems}, time.Now)
			command.SilenceErrors, command.SilenceUsage = true, true
			command.SetArgs([]string{"--kubeconfig", server.Kubeconfig, "--context", "east"})
			err := command.ExecuteContext(t.Context())
			want := "\nfix: log in again, then: kubectl --kubeconfig " + server.Kubeconfig + " --context east auth whoami\n"
			if exit.CodeOf(err) != code || !strings.HasSuffix(exit.Text(err), want) {
				t.Errorf("code %d: %s\n%s", exit.CodeOf(err), exit.Text(err), problems.String())
			}
		})
	}
}
