package charts

import (
	"strings"
	"testing"
)

func TestAddress_IsRecognized(t *testing.T) {
	for name, test := range map[string]struct {
		text    string
		want    string // the URL or the path
		scheme  scheme
		sub     string
		archive string
		ref     string
		sum     string
		fails   string
	}{
		"archive":                                   {text: "https://h/web.tgz", want: "https://h/web.tgz", scheme: schemeHTTP},
		"folder in an archive":                      {text: "http://h/web.tgz//a/b", want: "http://h/web.tgz", scheme: schemeHTTP, sub: "a/b"},
		"query belongs to the address":              {text: "http://h/web.tgz//a?b=2&a=1", want: "http://h/web.tgz?a=1&b=2", scheme: schemeHTTP, sub: "a"},
		"checksum is taken out":                     {text: "http://h/x?checksum=md5:AB&z=1", want: "http://h/x?z=1", scheme: schemeHTTP, sum: "md5:ab"},
		"archive suffix is taken out":               {text: "http://h/x?archive=tar.gz", want: "http://h/x", scheme: schemeHTTP, archive: ".tar.gz"},
		"checksum in a file: unsupported":           {text: "http://h/x?checksum=file:http://h/sums", fails: "checksum"},
		"checksum of an unknown kind":               {text: "http://h/x?checksum=crc:1", fails: "checksum"},
		"checksum without kind":                     {text: "http://h/x?checksum=abcd", fails: "checksum"},
		"forced http":                               {text: "http::http://h/x.git", want: "http://h/x.git", scheme: schemeHTTP},
		"forced git":                                {text: "git::https://h/x?ref=v1", want: "https://h/x", scheme: schemeGit, ref: "v1"},
		"forced git with user":                      {text: "git::git@h:o/x.git//sub?ref=v1", want: "ssh://git@h/o/x.git", scheme: schemeGit, sub: "sub", ref: "v1"},
		"scheme git":                                {text: "git://h/x", want: "git://h/x", scheme: schemeGit},
		"scheme ssh":                                {text: "ssh://me@h:22/x", want: "ssh://me@h:22/x", scheme: schemeGit},
		"user and host":                             {text: "me@h.example:o/x.git", want: "ssh://me@h.example/o/x.git", scheme: schemeGit},
		"well-known host":                           {text: "github.com/o/x", want: "https://github.com/o/x.git", scheme: schemeGit},
		"well-known host: folder":                   {text: "gitlab.com/o/x/charts/web?ref=main", want: "https://gitlab.com/o/x.git", scheme: schemeGit, sub: "charts/web", ref: "main"},
		"well-known host: folder after slashes":     {text: "bitbucket.org/o/x.git//web", want: "https://bitbucket.org/o/x.git", scheme: schemeGit, sub: "web"},
		"well-known host without repository":        {text: "github.com/o", want: "github.com/o"},
		"local folder":                              {text: "./charts/web", want: "./charts/web"},
		"folder in a local folder":                  {text: "charts//web", want: "charts", sub: "web"},
		"folder out of the download":                {text: "http://h/x.tgz//../etc", fails: "leads out"},
		"folder out of the download, in the middle": {text: "charts//a/../../b", fails: "leads out"},
		"folder out of a path that is not a URL":    {text: "%0X///b", fails: "leads out"},
		"no host":                                   {text: "http:///x.tgz", fails: "no host"},
		"not a URL":                                 {text: "http://h:port/x", fails: "not a valid URL"},
		"depth is not a number":                     {text: "git::https://h/x?depth=many", fails: "depth"},
		"depth is not positive":                     {text: "git::https://h/x?depth=0", fails: "depth"},
		"key is not base64":                         {text: "git::ssh://h/x?sshkey=%25", fails: "sshkey"},
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := parse(test.text)
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Fatalf("error %v, want one with %q", err, test.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := parsed.path
			if parsed.scheme != schemeLocal {
				got = parsed.url.String()
			}
			sum := strings.TrimPrefix(parsed.algorithm+":"+parsed.digest, ":")
			if got != test.want || parsed.scheme != test.scheme || parsed.sub != test.sub || parsed.archive != test.archive ||
				parsed.ref != test.ref || sum != test.sum {
				t.Errorf("got %q %+v", got, parsed)
			}
		})
	}
}

func TestAddressInMessages_ContainsNoSecret(t *testing.T) {
	for text, want := range map[string]string{
		"https://me:pw@h/x":                     "https://me:redacted@h/x",
		"git::ssh://h/x?sshkey=c2VjcmV0&ref=v1": "git::ssh://h/x?sshkey=redacted&ref=v1",
		"https://me@h/x":                        "https://me@h/x",
		"https://ghp_0123456789abcdefgh@h/o/x":  "https://redacted@h/o/x",
		"git::ssh://git@h/o/x":                  "git::ssh://git@h/o/x",
		"http://127.0.0.1:18879/a?b=c:d@e":      "http://127.0.0.1:18879/a?b=c:d@e",
	} {
		if got := Redact(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func FuzzAddress(f *testing.F) {
	for _, seed := range []string{
		"https://me:pw@h/web.tgz//a?checksum=md5:00&archive=tgz", "git::git@h:o/x.git//sub?ref=v1&sshkey=YQ==&depth=1",
		"github.com/o/x/y", "../x", "//", "git::", "http::a@b:c", "oci://h/x", "%0X0///0",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := parse(text)
		if err != nil {
			return
		}
		if parsed.sub == ".." || strings.HasPrefix(parsed.sub, "../") || strings.HasPrefix(parsed.sub, "/") {
			t.Errorf("folder %q leads out of the download", parsed.sub)
		}
		if parsed.scheme != schemeLocal && parsed.url == nil {
			t.Error("no URL")
		}
		_ = Redact(text)
	})
}
