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

func TestProveAddress(t *testing.T) {
	const there = "https://there.example"
	tests := map[string]struct {
		url, ca, server, serverCA string
		serial                    int64
		named                     bool
		want                      error
	}{
		"the document names address and CA":              {url: there, ca: "ca-2", server: there, serverCA: "ca-2\n", named: true},
		"the document names the CA among others":         {url: there, ca: "ca-1\nca-2", server: there, serverCA: "ca-2", named: true},
		"the document names the address, system's roots": {url: there, ca: "", server: there + "/", serverCA: "", named: true},
		"another address with the CA in use":             {url: agentHub, ca: "ca-1", server: there, serverCA: "ca-1"},
		"the address in use with a CA of the document":   {url: there, ca: "ca-1\nca-2", server: agentHub, serverCA: "ca-2"},
		"a copy of the document at another address":      {url: agentHub, ca: "ca-1", server: there, serverCA: "ca-2", want: ErrNotNamed},
		"a copy, and the system's roots verify both":     {url: agentHub, ca: "", server: there, serverCA: "", want: ErrNotNamed},
		"a copy that names the CA only":                  {url: agentHub, ca: "ca-2", server: there, serverCA: "ca-2", want: ErrNotNamed},
		"the address in use with another CA":             {url: agentHub, ca: "ca-1", server: agentHub, serverCA: "ca-2", want: ErrNotNamed},
		"a document without an address":                  {url: "", ca: "ca-2", server: there, serverCA: "ca-2", want: ErrNotNamed},
		"an old document":                                {url: there, ca: "ca-2", server: there, serverCA: "ca-2", serial: 8, want: ErrLowerSerial, named: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := DocumentInput{
				Document: identity.Document{URL: test.url, CA: []byte(test.ca), Serial: 7}, Serial: test.serial, Server: agentHub, CA: []byte("ca-1"),
			}
			if got := ProveAddress(in, test.server, []byte(test.serverCA)); !errors.Is(got, test.want) || (got == nil) != (test.want == nil) {
				t.Errorf("%v, want %v", got, test.want)
			}
			if got := IsNamed(in.Document, test.server, []byte(test.serverCA)); got != test.named {
				t.Errorf("named: %v", got)
			}
		})
	}
}
