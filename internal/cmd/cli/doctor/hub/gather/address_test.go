package gather

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/internal/cmd/cli/clitest"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/hub"
	"github.com/fleet-hub/fleet/internal/config"
)

// serve starts a TLS server and returns its address and its CA.
func serve(t *testing.T, expires time.Time) (address string, ca []byte) {
	t.Helper()
	der, key := clitest.Certificate(t, expires)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the probe sent a request") }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// certificate returns the rows about the hub's certificate.
func certificate(f *hub.Facts) []check.Row {
	all := hub.Checks()
	return all[slices.IndexFunc(all, func(c check.Check[*hub.Facts]) bool { return c.ID == "hub-certificate" })].Judge(f)
}

func TestProbe(t *testing.T) {
	good, ca := serve(t, clitest.Noon().AddDate(1, 0, 0))
	other, _ := serve(t, clitest.Noon().AddDate(1, 0, 0))
	expired, expiredCA := serve(t, clitest.Noon().AddDate(0, 0, -1))
	soon, soonCA := serve(t, clitest.Noon().AddDate(0, 0, 10))
	for name, test := range map[string]struct {
		config        config.Config
		verdict, want string
	}{
		"server of the CA":                  {config.Config{APIServerURL: good, APIServerCA: ca}, "ok", "expires on "},
		"server of another CA":              {config.Config{APIServerURL: other, APIServerCA: ca}, "failed", "is not signed by apiServerCA"},
		"server whose CA is unknown":        {config.Config{APIServerURL: good}, "failed", "is not signed by apiServerCA"},
		"certificate has expired":           {config.Config{APIServerURL: expired, APIServerCA: expiredCA}, "failed", "has expired or is not valid yet"},
		"certificate expires soon":          {config.Config{APIServerURL: soon, APIServerCA: soonCA}, "warning", "expires in 10d"},
		"certificate is for another name":   {config.Config{APIServerURL: strings.Replace(good, "127.0.0.1", "localhost", 1), APIServerCA: ca}, "failed", "is for other names"},
		"no server":                         {config.Config{APIServerURL: "https://127.0.0.1:1", APIServerCA: ca}, "failed", "no TLS server answers"},
		"no URL: nothing is connected":      {config.Config{}, "ok", "not checked"},
		"invalid URL: nothing is connected": {config.Config{APIServerURL: "http://127.0.0.1:1"}, "ok", "not checked"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &hub.Facts{Now: clitest.Noon(), Config: hub.Configuration{Config: test.config}, Address: probe(t.Context(), test.config, time.Minute, clitest.Noon)}
			rows := certificate(f)
			if len(rows) != 1 || string(rows[0].Verdict) != test.verdict || !strings.Contains(rows[0].Cause, test.want) {
				t.Errorf("rows %+v, error %v", rows, f.Address.Err)
			}
		})
	}
}
