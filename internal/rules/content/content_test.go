package content

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/e2e/framework/recorded"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func manifest(resources ...fleet.BundleResource) Manifest { return Manifest{Resources: resources} }

func file(name, text string) fleet.BundleResource {
	return fleet.BundleResource{Name: name, Content: text}
}

func TestBytes(t *testing.T) {
	tests := map[string]struct {
		in   Manifest
		want string
		id   string
	}{
		"no resources leave an empty object": {
			in: manifest(), want: "{}\n",
			id: "s-ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442",
		},
		"an empty list is left out as well": {
			in: Manifest{Resources: []fleet.BundleResource{}}, want: "{}\n",
			id: "s-ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442",
		},
		"markup is escaped, as the contract's vector says": {
			in:   manifest(file("cm.yaml", "a: <b>\n")),
			want: `{"resources":[{"name":"cm.yaml","content":"a: \u003cb\u003e\n"}]}` + "\n",
			id:   "s-25f6bd9ee89cbcfe45d21106997dac9e6039ac86ebbc00c2fab1ac2de0070",
		},
		"keys come as name, content, encoding": {
			in:   manifest(fleet.BundleResource{Name: "n", Content: "YQ==", Encoding: "base64"}),
			want: `{"resources":[{"name":"n","content":"YQ==","encoding":"base64"}]}` + "\n",
		},
		"empty keys are left out": {
			in:   manifest(fleet.BundleResource{Content: "&"}, fleet.BundleResource{}),
			want: `{"resources":[{"content":"\u0026"},{}]}` + "\n",
		},
		"the order of the resources stays": {
			in:   manifest(file("b", ""), file("a", "")),
			want: `{"resources":[{"name":"b"},{"name":"a"}]}` + "\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, string(test.in.Bytes())); diff != "" {
				t.Errorf("bytes (-want +got):\n%s", diff)
			}
			if test.id != "" && test.in.ID() != test.id {
				t.Errorf("ID = %s, want %s", test.in.ID(), test.id)
			}
			if got := test.in.ID(); len(got) != 63 || !strings.HasPrefix(test.in.SHA256(), got[2:]) {
				t.Errorf("ID %q is not 63 characters of the hash %s", got, test.in.SHA256())
			}
		})
	}
}

func TestHash_MatchesTheContractsVector(t *testing.T) {
	got := manifest(file("cm.yaml", "a: <b>\n")).SHA256()
	if !strings.HasPrefix(got, "25f6bd9e") || !strings.HasSuffix(got, "0134") || len(got) != 64 {
		t.Errorf("SHA256 = %s", got)
	}
}

func TestID_ShortHashIsNotCut(t *testing.T) {
	if got := ID("abc"); got != "s-abc" {
		t.Errorf("ID = %q", got)
	}
}

func TestObject(t *testing.T) {
	m := manifest(file("a.yaml", "a: 1\n"), file("b.yaml", strings.Repeat("b", 10000)))
	got := Object(m)
	want := &fleet.Content{
		TypeMeta:   metav1.TypeMeta{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "Content"},
		ObjectMeta: metav1.ObjectMeta{Name: m.ID()},
		Content:    got.Content,
		SHA256Sum:  m.SHA256(),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(got, Object(m)); diff != "" {
		t.Errorf("a second object of the same manifest differs:\n%s", diff)
	}
	if len(got.Content) >= len(m.Bytes()) {
		t.Errorf("%d bytes were compressed to %d", len(m.Bytes()), len(got.Content))
	}
	read, err := Read(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, read); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// bomb returns compressed zeros that exceed MaxSize when decompressed. It has a few dozen kilobytes.
func bomb(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	chunk := make([]byte, 1<<20)
	for range MaxSize>>20 + 1 {
		if _, err := w.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestRead(t *testing.T) {
	object := func(name string, data []byte, sum string) *fleet.Content {
		return &fleet.Content{ObjectMeta: metav1.ObjectMeta{Name: name}, Content: data, SHA256Sum: sum}
	}
	const text = `{"resources":[{"name":"a","content":"b"}],"later":1}`
	tests := map[string]struct {
		in    *fleet.Content
		want  Manifest
		is    error
		error string
	}{
		"without a hash nothing is compared": {
			in: object("c", zipped(t, text), ""), want: manifest(file("a", "b")),
		},
		"the hash is of the bytes as they are, also those of another writer": {
			in: object("c", zipped(t, text), hash([]byte(text))), want: manifest(file("a", "b")),
		},
		"another hash is refused": {
			in: object("c", zipped(t, text), strings.Repeat("0", 64)), is: ErrHashMismatch,
			error: "reading content c: content does not match hash",
		},
		"what is not compressed is refused": {
			in: object("c", []byte(text), ""), is: gzip.ErrHeader,
			error: "decompressing content c: gzip: invalid header",
		},
		"an empty object is refused": {
			in: object("c", nil, ""), error: "decompressing content c: EOF",
		},
		"cut data is refused": {
			in: object("c", zipped(t, text)[:20], ""), error: "decompressing content c: unexpected EOF",
		},
		"what grows beyond the limit is refused": {
			in: object("c", bomb(t), ""), is: ErrTooLarge,
			error: "decompressing content c: decompressed content is larger than 64 MiB",
		},
		"what is not JSON is refused": {
			in:    object("c", zipped(t, "a: b"), ""),
			error: "reading content c: parsing manifest: invalid character 'a' looking for beginning of value",
		},
		"a second document is refused": {
			in:    object("c", zipped(t, text+text), ""),
			error: "reading content c: parsing manifest: invalid character '{' after top-level value",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Read(test.in)
			expectError(t, err, test.is, test.error)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("manifest (-want +got):\n%s", diff)
			}
		})
	}
}

func expectError(t *testing.T, err, is error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Fatalf("unexpected error: %v", err)
	case text != "" && err == nil:
		t.Fatalf("no error, want %q", text)
	case text != "" && err.Error() != text:
		t.Errorf("error = %q, want %q", err, text)
	}
	if is != nil && !errors.Is(err, is) {
		t.Errorf("error %v is not %v", err, is)
	}
}

func TestData(t *testing.T) {
	tests := map[string]struct {
		in    fleet.BundleResource
		want  string
		is    error
		error string
	}{
		"plain text is itself":      {in: file("f", "a: b\n"), want: "a: b\n"},
		"an empty file stays empty": {in: file("f", ""), want: ""},
		"base64 is decoded":         {in: fleet.BundleResource{Name: "f", Content: "AP8=", Encoding: "base64"}, want: "\x00\xff"},
		"compressed base64 is decoded": {
			in:   fleet.BundleResource{Name: "f", Content: base64.StdEncoding.EncodeToString(zipped(t, "\x00\xff")), Encoding: "base64+gz"},
			want: "\x00\xff",
		},
		"broken base64 names the file": {
			in:    fleet.BundleResource{Name: "f", Content: "!", Encoding: "base64"},
			error: `decoding resource "f": illegal base64 data at input byte 0`,
		},
		"broken base64 of a compressed file names the file": {
			in:    fleet.BundleResource{Name: "f", Content: "!", Encoding: "base64+gz"},
			error: `decoding resource "f": illegal base64 data at input byte 0`,
		},
		"base64 of what is not compressed is refused": {
			in: fleet.BundleResource{Name: "f", Content: "YWJjYWJjYWJjYWJj", Encoding: "base64+gz"}, is: gzip.ErrHeader,
			error: `decoding resource "f": gzip: invalid header`,
		},
		"what grows beyond the limit is refused": {
			in: fleet.BundleResource{Name: "f", Content: base64.StdEncoding.EncodeToString(bomb(t)), Encoding: "base64+gz"}, is: ErrTooLarge,
			error: `decoding resource "f": decompressed content is larger than 64 MiB`,
		},
		"an unknown encoding says which are known": {
			in: fleet.BundleResource{Name: "f", Encoding: "zip"}, is: ErrUnknownEncoding,
			error: `decoding resource "f": unknown encoding (use "", base64 or base64+gz): "zip"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Data(test.in, MaxSize)
			expectError(t, err, test.is, test.error)
			if string(got) != test.want {
				t.Errorf("data = %q, want %q", got, test.want)
			}
		})
	}
}

func TestEncode(t *testing.T) {
	tests := map[string]struct {
		in       string
		encoding string
	}{
		"text stays text":           {in: "a: ü\n", encoding: EncodingPlain},
		"an empty file stays empty": {in: "", encoding: EncodingPlain},
		"bytes are compressed":      {in: "\x1f\x8b\xff", encoding: EncodingGzip},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Encode("f", []byte(test.in))
			if got.Name != "f" || got.Encoding != test.encoding {
				t.Errorf("resource = %+v, want encoding %q", got, test.encoding)
			}
			expectData(t, got, test.in)
			expectData(t, Compress("f", []byte(test.in)), test.in)
		})
	}
}

func expectData(t *testing.T, r fleet.BundleResource, want string) {
	t.Helper()
	got, err := Data(r, MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("data = %q, want %q", got, want)
	}
}

func TestSplitDeploymentID(t *testing.T) {
	tests := map[string]struct{ in, manifestID, optionsHash string }{
		"name and hash":                       {"s-1:ab", "s-1", "ab"},
		"the first colon separates":           {"s-1:ab:cd", "s-1", "ab:cd"},
		"without a colon it is the name":      {"s-1", "s-1", ""},
		"a chart from elsewhere has no name":  {":ab", "", "ab"},
		"nothing has neither":                 {"", "", ""},
		"a hash may be missing after a colon": {"s-1:", "s-1", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			manifestID, optionsHash := SplitDeploymentID(test.in)
			if manifestID != test.manifestID || optionsHash != test.optionsHash {
				t.Errorf("SplitDeploymentID(%q) = %q, %q", test.in, manifestID, optionsHash)
			}
		})
	}
}

func TestRecordedContents_AreReadAndEncodedUnchanged(t *testing.T) {
	read := 0
	for _, c := range recorded.Objects[fleet.Content](t, "contents") {
		if c.Name != ID(c.SHA256Sum) {
			t.Errorf("content %s is not named after its hash %s", c.Name, c.SHA256Sum)
		}
		m, err := Read(c)
		if err != nil {
			t.Errorf("content %s: %v", c.Name, err)
			continue
		}
		read++
		if m.ID() != c.Name || m.SHA256() != c.SHA256Sum {
			t.Errorf("content %s: written again it is %s", c.Name, m.ID())
		}
	}
	if read != 4 {
		t.Errorf("%d recorded Contents were read, want all 4", read)
	}
}

func TestRecordedBundles_HaveTheRecordedContents(t *testing.T) {
	contents := map[string]*fleet.Content{}
	for _, c := range recorded.Objects[fleet.Content](t, "contents") {
		contents[c.Name] = c
	}
	for _, b := range recorded.Objects[fleet.Bundle](t, "bundles") {
		m := Manifest{Resources: b.Spec.Resources}
		if got := m.SHA256(); got != b.Status.ResourcesSHA256Sum {
			t.Errorf("bundle %s/%s: hash = %s, want %s", b.Namespace, b.Name, got, b.Status.ResourcesSHA256Sum)
		}
		stored := contents[m.ID()]
		read, err := Read(stored)
		if err != nil {
			t.Errorf("bundle %s/%s: %v", b.Namespace, b.Name, err)
		}
		if diff := cmp.Diff(m, read); diff != "" {
			t.Errorf("bundle %s/%s: its Content (-want +got):\n%s", b.Namespace, b.Name, diff)
		}
	}
}
