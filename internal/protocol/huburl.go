package protocol

import (
	"errors"
	"net/url"
)

// ErrHubURL means that the address of a hub is not an https URL. Connections without TLS are refused, because
// the token could be read in transit. And if the scheme is missing, clients that read the address from a
// kubeconfig do not send the token.
var ErrHubURL = errors.New("the hub's address is not an https URL")

// CheckHubURL returns ErrHubURL unless the address is an https URL. The error does not contain the address.
func CheckHubURL(address string) error {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || parsed.Scheme != "https" {
		return ErrHubURL
	}
	return nil
}
