package protocol

import (
	"errors"
	"net/url"
)

// ErrHubURL means that an address of a hub is no https URL. Without TLS no connection is made: the token would be
// readable on its way. And without a scheme clients that read the address from a kubeconfig leave the token out.
var ErrHubURL = errors.New("the hub's address is no https URL")

// CheckHubURL is ErrHubURL or nil. The error repeats nothing of the address.
func CheckHubURL(address string) error {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || parsed.Scheme != "https" {
		return ErrHubURL
	}
	return nil
}
