package hub

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol"
)

// Probe is the result of a TLS handshake with the server at apiServerURL.
type Probe struct {
	// Done is false if there was no URL to connect to.
	Done bool
	// Err is why the handshake failed.
	Err error
	// Expires is when the server's certificate expires.
	Expires time.Time
}

// addressChecks returns the checks of the hub's address.
func addressChecks() []check.Check[*Facts] {
	return []check.Check[*Facts]{
		{ID: "hub-url", Needs: sources(SourceConfig), Judge: checkURL},
		{ID: "hub-ca", Needs: sources(SourceConfig), Judge: checkCA},
		{ID: "hub-certificate", Needs: sources(SourceConfig, SourceAddress), Judge: checkCertificate},
	}
}

func checkURL(f *Facts) []check.Row {
	address := f.Config.APIServerURL
	fix := f.chart("--set", "apiServerURL="+f.Server)
	switch {
	case !f.Config.Exists: // check hub-config reports it
		return nil
	case address == "":
		return []check.Row{check.Fail(f.configObject(), "apiServerURL is not set: clusters cannot be imported, and tokens have no address", fix)}
	case protocol.CheckHubURL(address) != nil:
		return []check.Row{check.Fail(f.configObject(), fmt.Sprintf("apiServerURL %q: %v", address, protocol.CheckHubURL(address)), fix)}
	}
	return []check.Row{check.Ok(f.configObject(), address)}
}

// setCA returns the command that sets apiServerCA to the CA with which you reach the hub.
func (f *Facts) setCA() string {
	return remedy.Command("kubectl", "config", "view", "--raw", "--minify", "--flatten", "-o", "jsonpath={.clusters[0].cluster.certificate-authority-data}") +
		" | base64 -d > hub-ca.pem && " + f.chart("--set-file", "apiServerCA=hub-ca.pem")
}

func checkCA(f *Facts) []check.Row {
	c := f.Config
	switch c.AgentTLSMode {
	case "", config.TLSModeStrict, config.TLSModeSystemStore:
	default:
		return []check.Row{check.Fail(f.configObject(), fmt.Sprintf("agentTLSMode %q is neither strict nor system-store: clusters cannot be imported", c.AgentTLSMode),
			f.chart("--set", "agentTLSMode="+config.TLSModeStrict))}
	}
	if len(c.APIServerCA) == 0 {
		if c.AgentTLSMode == config.TLSModeStrict {
			return []check.Row{check.Fail(f.configObject(), "agentTLSMode is strict and apiServerCA is not set: agents trust no certificate of the hub", f.setCA())}
		}
		return []check.Row{check.Ok(f.configObject(), "no CA: agents trust the roots of their system")}
	}
	last, found := check.LastExpiry(c.APIServerCA)
	if !found {
		return []check.Row{check.Fail(f.configObject(), "apiServerCA contains no certificate in PEM: agents trust no certificate of the hub", f.setCA())}
	}
	return []check.Row{check.Certificate(f.configObject(), "the CA in apiServerCA", last, f.Now, f.setCA())}
}

func checkCertificate(f *Facts) []check.Row {
	address, target := f.Config.APIServerURL, f.configObject()
	if !f.Address.Done {
		return []check.Row{check.Ok(target, "not checked, because there is no usable apiServerURL")}
	}
	renew := "renew the certificate of the hub's API server, with kubeadm: kubeadm certs renew apiserver"
	if f.Address.Err == nil {
		return []check.Row{check.Certificate(target, "the certificate of "+address, f.Address.Expires, f.Now, renew)}
	}
	var host x509.HostnameError
	err := foreign.Classify(f.Address.Err)
	switch {
	case errors.As(err, &host):
		return []check.Row{check.Fail(target, fmt.Sprintf("the certificate of %s is for other names: %s", address, foreign.Excerpt(host.Error(), maxError)),
			f.chart("--set", "apiServerURL="+f.Server))}
	case errors.Is(err, foreign.ErrExpired):
		return []check.Row{check.Fail(target, fmt.Sprintf("the certificate of %s has expired or is not valid yet, or the clock of this machine is wrong", address), renew)}
	case errors.Is(err, foreign.ErrUntrusted):
		return []check.Row{check.Fail(target, fmt.Sprintf("the certificate of %s is not signed by apiServerCA: agents do not connect", address), f.setCA())}
	}
	return []check.Row{check.Fail(target, fmt.Sprintf("no TLS server answers at %s, seen from this machine: %s", address, foreign.Excerpt(f.Address.Err.Error(), maxError)),
		f.chart("--set", "apiServerURL="+f.Server))}
}

// maxError is the length of the text of another program in a cause, in bytes.
const maxError = 256
