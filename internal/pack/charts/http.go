package charts

import (
	"context"
	"crypto/md5"  //nolint:gosec // the address chooses the algorithm
	"crypto/sha1" //nolint:gosec // the address chooses the algorithm
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/fleet-hub/fleet/internal/pack/charts/unpack"
	"github.com/fleet-hub/fleet/internal/version"
)

// certificates returns the certificates of the system and the given ones.
func certificates(bundle []byte) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if len(bundle) > 0 && !pool.AppendCertsFromPEM(bundle) {
		return nil, errors.New("the CA bundle contains no certificate in PEM")
	}
	return pool, nil
}

// forURL returns a URL without its user and password, which win over those of auth.
func (a Auth) forURL(address url.URL) (Auth, url.URL) {
	if address.User != nil {
		a.Username = address.User.Username()
		a.Password, _ = address.User.Password()
		address.User = nil
	}
	return a, address
}

// newTransport returns a transport that trusts the given certificates.
func newTransport(auth Auth) (*http.Transport, error) {
	pool, err := certificates(auth.CABundle)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	transport.TLSClientConfig = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            pool,
		InsecureSkipVerify: auth.InsecureSkipVerify, //nolint:gosec // the user asks for it
	}
	return transport, nil
}

// newClient returns a client that sends user name and password only to the given origins, whatever the servers redirect
// to.
func newClient(auth Auth, origins ...string) (*http.Client, error) {
	transport, err := newTransport(auth)
	if err != nil {
		return nil, err
	}
	allowed := map[string]bool{}
	for _, origin := range origins {
		allowed[origin] = auth.Username != "" || auth.Password != ""
	}
	return &http.Client{Timeout: requestTimeout, Transport: &credentialed{transport, auth, allowed}}, nil
}

// credentialed adds credentials to the requests to some origins.
type credentialed struct {
	transport http.RoundTripper
	auth      Auth
	allowed   map[string]bool
}

// RoundTrip sends a request.
func (c *credentialed) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("User-Agent", "fleet/"+version.Version)
	if c.allowed[origin(request.URL)] {
		request.SetBasicAuth(c.auth.Username, c.auth.Password)
	}
	return c.transport.RoundTrip(request)
}

// get requests a URL. The caller closes the body.
func get(ctx context.Context, client *http.Client, text string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, text, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(request)
}

// download fetches a URL and unpacks it.
func download(ctx context.Context, address *address, target target, into *unpack.Sink) error {
	auth, from := target.auth.forURL(*address.url)
	client, err := newClient(auth, origin(&from))
	if err != nil {
		return err
	}
	response, err := get(ctx, client, from.String())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		err := fmt.Errorf("bad response code: %d", response.StatusCode)
		if target.withheld && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden) {
			err = fmt.Errorf("%w: the credentials were not sent to %s, because they belong to the host of the chart repository", err, from.Host)
		}
		return err
	}
	file, err := receive(response.Body, address, from, into.Limits)
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if address.archive == "" {
		address.archive = unpack.Suffix(from.Path, target.archive)
	}
	return unpack.Write(unpack.Download{File: file, Path: address.url.Path, Suffix: address.archive, Folder: address.sub}, into)
}

// receive writes a body to a temporary file and compares its checksum.
func receive(body io.Reader, address *address, from url.URL, limits unpack.Limits) (*os.File, error) {
	file, err := os.CreateTemp("", "fleet-chart-")
	if err != nil {
		return nil, err
	}
	sum := newHash(address.algorithm)
	var into io.Writer = file
	if sum != nil {
		into = io.MultiWriter(file, sum)
	}
	received, err := io.Copy(into, io.LimitReader(body, limits.Received+1))
	switch {
	case err != nil:
	case received > limits.Received:
		err = fmt.Errorf("more than %d bytes received", limits.Received)
	case sum != nil && hex.EncodeToString(sum.Sum(nil)) != address.digest:
		err = fmt.Errorf("checksum mismatch for %q: expected %s:%s, got %x", from.String(), address.algorithm, address.digest, sum.Sum(nil))
	default:
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(file.Name())
		return nil, err
	}
	return file, nil
}

// newHash returns a hash by its name, or nil.
func newHash(algorithm string) hash.Hash {
	switch algorithm {
	case "md5":
		return md5.New() //nolint:gosec // the address chooses the algorithm
	case "sha1":
		return sha1.New() //nolint:gosec // the address chooses the algorithm
	case "sha256":
		return sha256.New()
	case "sha512":
		return sha512.New()
	}
	return nil
}
