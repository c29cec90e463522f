package unpack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// small are limits that a test can reach.
func small() Limits {
	return Limits{Received: 1 << 20, Unpacked: 16 << 10, Memory: 1 << 20, Entries: 10}
}

func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for _, header := range headers {
		content := header.PAXRecords["content"]
		header.PAXRecords = nil
		header.Size = int64(len(content))
		if err := archive.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func regular(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, PAXRecords: map[string]string{"content": content}}
}

func link(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, _ = writer.Write(data)
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// unpackInto unpacks data as a download with the given suffix. The folder lies in another one, in which nothing else
// may appear.
func unpackInto(t testing.TB, data []byte, suffix, sub string) (string, error) {
	t.Helper()
	outer := t.TempDir()
	dir := filepath.Join(outer, "to")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	download := filepath.Join(t.TempDir(), "download")
	if err := os.WriteFile(download, data, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(download)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	into, err := NewSink(dir, small())
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	err = Write(Download{File: file, Path: "/web" + suffix, Suffix: suffix, Folder: sub}, into)
	if err == nil {
		err = into.Verify()
	}
	entries, readErr := os.ReadDir(outer)
	if readErr != nil || len(entries) != 1 {
		t.Errorf("files outside of the folder: %v %v", entries, readErr)
	}
	return dir, err
}

func TestArchive_IsUnpackedBySuffix(t *testing.T) {
	plain := tarOf(t, regular("web/Chart.yaml", "name: web"), link("web/link", "Chart.yaml"))
	var zipped bytes.Buffer
	archive := zip.NewWriter(&zipped)
	entry, _ := archive.Create("web/Chart.yaml")
	_, _ = entry.Write([]byte("name: web"))
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	encoder, _ := zstd.NewWriter(nil)
	compressed := encoder.EncodeAll(plain, nil)
	for name, test := range map[string]struct {
		suffix, sub string
		data        []byte
		file        string
	}{
		"tar":                  {".tar", "", plain, "web/Chart.yaml"},
		"tar, link":            {".tar", "", plain, "web/link"},
		"tgz":                  {".tgz", "", gzipped(t, plain), "web/Chart.yaml"},
		"tar.gz, folder":       {".tar.gz", "web", gzipped(t, plain), "Chart.yaml"},
		"tar.zst":              {".tar.zst", "", compressed, "web/Chart.yaml"},
		"zip":                  {".zip", "", zipped.Bytes(), "web/Chart.yaml"},
		"zip, folder":          {".zip", "web", zipped.Bytes(), "Chart.yaml"},
		"compressed file":      {".gz", "", gzipped(t, []byte("name: web")), "web"},
		"file of another kind": {"", "", []byte("name: web"), "web"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := unpackInto(t, test.data, test.suffix, test.sub)
			if err != nil {
				t.Fatal(err)
			}
			if data, err := os.ReadFile(filepath.Join(dir, test.file)); string(data) != "name: web" {
				t.Errorf("content %q, error %v", data, err)
			}
		})
	}
}

func TestHostileArchive_IsRefused(t *testing.T) {
	many := make([]tar.Header, 11)
	for i := range many {
		many[i] = regular("f"+string(rune('a'+i)), "x")
	}
	hard := func(name, to string) tar.Header { return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to} }
	for name, test := range map[string]struct {
		data   []byte
		suffix string
		want   string
	}{
		"hard link to a symbolic link": {tarOf(t, link("a", "../x"), hard("b", "a"), regular("a", "")), ".tar", "leads out"},
		"path out of the folder":       {tarOf(t, regular("../x", "")), ".tar", "leads out"},
		"absolute path":                {tarOf(t, regular("/x", "")), ".tar", "leads out"},
		"absolute link":                {tarOf(t, link("l", "/etc/passwd")), ".tar", "leads out"},
		"link out of the folder":       {tarOf(t, link("a/l", "../../x")), ".tar", "leads out"},
		"links that lead out together": {tarOf(t, link("p/q/x", "../.."), link("p/q/l", "x/../to2")), ".tar", "leads out"},
		"file through a link":          {tarOf(t, link("l", ".."), regular("l/x", "")), ".tar", "escapes"},
		"hard link out of the folder":  {tarOf(t, hard("l", "../x")), ".tar", "leads out"},
		"device":                       {tarOf(t, tar.Header{Typeflag: tar.TypeChar, Name: "d"}), ".tar", "unsupported type"},
		"nested too deep":              {tarOf(t, regular(strings.Repeat("a/", maxDepth+1)+"x", "")), ".tar", "nested more than 100 levels deep"},
		"folder nested too deep":       {tarOf(t, tar.Header{Typeflag: tar.TypeDir, Name: strings.Repeat("a/", maxDepth+2)}), ".tar", "nested more than"},
		"path is too long":             {tarOf(t, regular(strings.Repeat("a/", MaxName)+"x", "")), ".tar", "a path of more than 4096 bytes"},
		"link to a path that is long":  {tarOf(t, link("l", strings.Repeat("a/", MaxName))), ".tar", "leads out"},
		"too many entries":             {tarOf(t, many...), ".tar", "more than 10 files"},
		"too many bytes":               {gzipped(t, tarOf(t, regular("x", strings.Repeat("x", 20000)))), ".tgz", "more than 16384 bytes"},
		"too many bytes in one file":   {gzipped(t, bytes.Repeat([]byte{0}, 1<<20)), ".gz", "more than 16384 bytes"},
		"not an archive":               {[]byte("hello"), ".tgz", "reading archive"},
		"truncated":                    {tarOf(t, regular("x", "hello"))[:515], ".tar", "unexpected EOF"},
		"not a zip archive":            {[]byte("hello"), ".zip", "zip"},
		"xz is named as not supported": {[]byte("hello"), ".tar.xz", "xz"},
		"folder that is in the way":    {tarOf(t, regular("a/b", ""), regular("a", "")), ".tar", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := unpackInto(t, test.data, test.suffix, ""); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestZipWithLargeDirectory_IsRefused(t *testing.T) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for range 2000 {
		if _, err := archive.Create("x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := unpackInto(t, out.Bytes(), ".zip", ""); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("error %v", err)
	}
}

func FuzzArchive(f *testing.F) {
	f.Add(tarOf(f, regular("web/Chart.yaml", "x"), link("l", "web")), uint8(0))
	f.Add(gzipped(f, tarOf(f, regular("../x", "x"))), uint8(1))
	f.Add([]byte("PK\x05\x06"), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, kind uint8) {
		suffixes := []string{".tar", ".tgz", ".zip", ".tar.bz2", ".tar.zst", ".gz"}
		dir, err := unpackInto(t, data, suffixes[int(kind)%len(suffixes)], "")
		if err != nil {
			return
		}
		_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
			if real, err := filepath.EvalSymlinks(path); err == nil {
				if inside, _ := filepath.Rel(dir, real); !filepath.IsLocal(inside) {
					t.Errorf("%s leads to %s", path, real)
				}
			}
			return nil
		})
	})
}
