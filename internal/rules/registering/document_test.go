package registering

import (
	"errors"
	"testing"

	"github.com/fleet-hub/fleet/internal/identity"
)

func TestUseDocument(t *testing.T) {
	const there = "https://there.example"
	document := func(serial, address int64, url, ca string) identity.Document {
		return identity.Document{Serial: serial, AddressSerial: address, URL: url, CA: []byte(ca)}
	}
	tests := map[string]struct {
		document    identity.Document
		serial      int64
		ca          string
		systemStore bool
		works       bool
		want        bool
		err         error
	}{
		"first document, same address: nothing to test":            {document: document(5, 5, agentHub, "ca-1"), ca: "ca-1", works: true},
		"same address, spelled differently: nothing to test":       {document: document(5, 5, "https://HUB.example:6443/", "ca-1\n"), ca: "ca-1", works: true},
		"document names no address: nothing to test":               {document: document(5, 5, "", ""), ca: "ca-1"},
		"new address: tested":                                      {document: document(5, 5, there, "ca-1"), ca: "ca-1", works: true, want: true},
		"new CA beside the old one: tested":                        {document: document(5, 5, agentHub, "ca-1\nca-2"), ca: "ca-1", works: true, want: true},
		"new CA since the last document: tested":                   {document: document(7, 6, agentHub, "ca-2"), serial: 5, ca: "ca-1", works: true, want: true},
		"same document, connection works: not tested again":        {document: document(5, 5, there, "ca-1"), serial: 5, ca: "ca-1", works: true},
		"signed again, same address, connection works: not again":  {document: document(9, 5, there, "ca-1"), serial: 7, ca: "ca-1", works: true},
		"same document, connection is lost: tested again":          {document: document(5, 5, agentHub, "ca-2"), serial: 5, ca: "ca-1", want: true},
		"no serial of the address: that of the document counts":    {document: document(9, 0, there, "ca-1"), serial: 7, ca: "ca-1", works: true, want: true},
		"system's roots are in use and work: CA is not needed":     {document: document(5, 5, agentHub, "ca-2"), systemStore: true, works: true},
		"system's roots no longer suffice: CA is tested":           {document: document(5, 5, agentHub, "ca-2"), systemStore: true, want: true},
		"document has no CA, connection works: CA stays":           {document: document(5, 5, agentHub, ""), ca: "ca-1", works: true},
		"document has no CA, CA no longer works: roots are tested": {document: document(5, 5, agentHub, ""), ca: "ca-1", want: true},
		"lower serial: refused":                                    {document: document(4, 4, there, "ca-2"), serial: 5, ca: "ca-1", works: true, err: ErrLowerSerial},
		"lower serial, connection is lost: refused":                {document: document(4, 4, there, "ca-2"), serial: 5, ca: "ca-1", err: ErrLowerSerial},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := UseDocument(DocumentInput{
				Document: test.document, Serial: test.serial, Server: agentHub, CA: []byte(test.ca), SystemStore: test.systemStore, Works: test.works,
			})
			if got != test.want || !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
				t.Errorf("test %t, want %t; error %v, want %v", got, test.want, err, test.err)
			}
		})
	}
}
