package gather

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"time"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/hub"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol"
)

// probe connects to the server of a configuration with exactly its CA. Without a CA, the roots of the system are used. It
// sends no request.
func probe(ctx context.Context, c config.Config, timeout time.Duration, now func() time.Time) hub.Probe {
	server, err := url.Parse(c.APIServerURL)
	if err != nil || server.Hostname() == "" || protocol.CheckHubURL(c.APIServerURL) != nil {
		return hub.Probe{}
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, Time: now, ServerName: server.Hostname()}
	if len(c.APIServerCA) > 0 {
		settings.RootCAs = x509.NewCertPool()
		settings.RootCAs.AppendCertsFromPEM(c.APIServerCA)
	}
	address := net.JoinHostPort(server.Hostname(), cmp.Or(server.Port(), "443"))
	connection, err := (&tls.Dialer{NetDialer: &net.Dialer{Timeout: timeout}, Config: settings}).DialContext(ctx, "tcp", address)
	if err != nil {
		return hub.Probe{Done: true, Err: err}
	}
	defer connection.Close()
	return hub.Probe{Done: true, Expires: connection.(*tls.Conn).ConnectionState().PeerCertificates[0].NotAfter}
}
