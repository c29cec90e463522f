package registering

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/fleet-hub/fleet/internal/identity"
)

// ErrLowerSerial means that a hub document is older than the last one that the agent stored.
var ErrLowerSerial = errors.New("the hub document is older than the last one")

// ErrNotNamed means that a hub document does not name an address or its CA.
var ErrNotNamed = errors.New("the hub document names another address or another CA")

// DocumentInput is the input of UseDocument and ProveAddress.
type DocumentInput struct {
	// Document is a hub document whose signature was verified.
	Document identity.Document
	// Serial is the serial of the last document that the agent stored, or 0.
	Serial int64
	// Server and CA are the address in use and the CA that has to have signed its certificate.
	Server string
	CA     []byte
	// SystemStore means that the TLS mode is system-store.
	SystemStore bool
	// Works means that the hub accepts the agent at Server.
	Works bool
}

// UseDocument reports whether the agent has to test the address of a hub document. It refuses a lower serial, because an
// old document may name a CA or an address that no longer belongs to the hub. While the connection works, an address is
// tested only once: the agent may reach the hub at another one for a reason.
func UseDocument(in DocumentInput) (test bool, err error) {
	document := in.Document
	if err := in.checkSerial(); err != nil {
		return false, err
	}
	known := document.AddressSerial
	if known == 0 {
		known = document.Serial
	}
	if document.URL == "" || in.Works && known <= in.Serial {
		return false, nil
	}
	if !sameServer(in.Server, document.URL) {
		return true, nil
	}
	rooted := in.SystemStore && len(in.CA) == 0 || len(document.CA) == 0
	if in.Works && rooted { // the system's roots suffice, or the hub does not know its CA
		return false, nil
	}
	return !bytes.Equal(bytes.TrimSpace(in.CA), bytes.TrimSpace(document.CA)), nil
}

// ProveAddress returns nil if the hub document that was read at another address or with another CA proves that the agent's
// hub answers there. Any server can show a copy of the document. So either the server has a certificate of the CA that the
// agent trusts already, or the document names the CA and the address. It need not name an address that the agent uses.
func ProveAddress(in DocumentInput, server string, ca []byte) error {
	if err := in.checkSerial(); err != nil {
		return err
	}
	ca = bytes.TrimSpace(ca)
	if len(ca) > 0 && bytes.Equal(ca, bytes.TrimSpace(in.CA)) {
		return nil
	}
	isNamed := sameServer(server, in.Document.URL) || sameServer(server, in.Server)
	if !isNamed || !bytes.Contains(in.Document.CA, ca) {
		return ErrNotNamed
	}
	return nil
}

// IsNamed reports whether a hub document names the address of a server and its CA.
func IsNamed(document identity.Document, server string, ca []byte) bool {
	return sameServer(server, document.URL) && bytes.Contains(document.CA, bytes.TrimSpace(ca))
}

func (in DocumentInput) checkSerial() error {
	if in.Document.Serial < in.Serial {
		return fmt.Errorf("serial %d instead of at least %d: %w", in.Document.Serial, in.Serial, ErrLowerSerial)
	}
	return nil
}
