package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/pack/charts/unpack"
)

// packed is a file in an archive.
type packed struct{ name, content string }

// archive returns the archive of a chart.
func archive(t testing.TB, files ...packed) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	writer := tar.NewWriter(compressed)
	for _, file := range files {
		if err := writer.WriteHeader(&tar.Header{Name: file.name, Mode: 0o644, Size: int64(len(file.content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(file.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(writer.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// nested returns archives of charts, each in charts/ of the next.
func nested(t testing.TB, depth int, innermost string) []byte {
	t.Helper()
	data := archive(t, packed{"web/Chart.yaml", innermost})
	for range depth {
		data = archive(t, packed{"web/Chart.yaml", "name: web"}, packed{"web/charts/inner.tgz", string(data)})
	}
	return data
}

// bomb returns lists of aliases, each ten times as large as the one before.
func bomb() string {
	var text strings.Builder
	text.WriteString("a0: &a0 [x]\n")
	for i := range 10 {
		fmt.Fprintf(&text, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
	}
	return text.String()
}

// tight are limits that a chart of a few kilobytes exceeds.
func tight() unpack.Limits { return unpack.Limits{Memory: 20_000, Entries: 20} }

func TestChartThatFillsTheMemory_IsRefused(t *testing.T) {
	large := strings.Repeat("x", 30_000)
	many := make([]packed, 21)
	for i := range many {
		many[i] = packed{"web/" + string(rune('a'+i)), ""}
	}
	folders := map[string]string{}
	for name := 'a'; name < 'l'; name++ {
		folders[string(name)+"/x"] = ""
	}
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"small chart":                      {map[string]string{"Chart.yaml": "name: web", "charts/a.tgz": string(nested(t, 1, "name: a"))}, ""},
		"large file":                       {map[string]string{"Chart.yaml": large}, "more than 20000 bytes unpacked: exclude what does not belong to it in .helmignore"},
		"several files":                    {map[string]string{"a": large[:15_000], "b": large[:15_000]}, "more than 20000 bytes unpacked"},
		"many files":                       {folders, "more than 20 files and folders"},
		"large file that is ignored":       {map[string]string{".helmignore": "/data\n*.bin\n", "data/a": large, "b.bin": large}, ""},
		"many files that are ignored":      {map[string]string{".helmignore": "[a-k]/\n", "a/x": "", "b/x": "", "c/x": "", "d/x": "", "e/x": "", "f/x": "", "g/x": "", "h/x": "", "i/x": "", "j/x": "", "k/x": ""}, ""},
		"large rules":                      {map[string]string{".helmignore": "data\n" + large, "data": ""}, "more than 20000 bytes unpacked"},
		"large file in an archive":         {map[string]string{"charts/a.tgz": string(nested(t, 0, large))}, `"charts/a.tgz": the chart has more than 20000 bytes`},
		"large file in nested archives":    {map[string]string{"charts/a.tgz": string(nested(t, 2, large))}, "more than 20000 bytes unpacked"},
		"many files in an archive":         {map[string]string{"charts/a.tgz": string(archive(t, many...))}, "more than 20 files and folders"},
		"archives are nested too deep":     {map[string]string{"charts/a.tgz": string(nested(t, maxNested, ""))}, "archives are nested more than 5 levels deep"},
		"archive below another chart":      {map[string]string{"charts/sub/charts/a.tgz": string(nested(t, 0, large))}, "more than 20000 bytes unpacked"},
		"archive that is no dependency":    {map[string]string{"files/a.tgz": string(nested(t, 0, large))}, ""},
		"aliases that grow":                {map[string]string{"values.yaml": bomb()}, `"values.yaml": the YAML is too large`},
		"aliases that grow, in an archive": {map[string]string{"charts/a.tgz": string(nested(t, 1, bomb()))}, `"web/Chart.yaml": the YAML is too large`},
		"file that is not an archive":      {map[string]string{"charts/a.tgz": "text"}, ""},
		"archive that ends in the middle":  {map[string]string{"charts/a.tgz": string(nested(t, 0, "name: a")[:40])}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range test.files {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := checkFiles(dir, tight())
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestDownloadedArchiveThatFillsTheMemory_IsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"chart":           {nested(t, 1, "name: a"), ""},
		"large chart":     {nested(t, 0, strings.Repeat("x", 30_000)), "more than 20000 bytes"},
		"index":           {[]byte("apiVersion: v1\nentries: {}\n"), ""},
		"nested too deep": {nested(t, maxNested+1, ""), "nested more than 5 levels deep"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkArchive(test.data, tight())
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func FuzzChartArchive(f *testing.F) {
	f.Add(nested(f, 1, "name: a"))
	f.Add(nested(f, 0, "")[:30])
	f.Fuzz(func(t *testing.T, data []byte) {
		check := &checker{left: tight().Memory, limits: tight()}
		err := check.archive(bytes.NewReader(data), 0)
		if exceeded := check.left < 0 || check.entries > tight().Entries; exceeded && err == nil {
			t.Errorf("%d bytes left, %d entries, but no error", check.left, check.entries)
		}
		if bound := tooLarge(""); err != nil && !errors.As(err, &bound) {
			t.Errorf("an archive that is not valid is left to Helm: %v", err)
		}
	})
}

func TestProgress_ContainsNoSecrets(t *testing.T) {
	var out bytes.Buffer
	into := scrubbing{&out, secrets("https://me:hunter2@h/charts")}
	text := []byte("Downloading web from repo https://me:hunter2@h/charts\n")
	if n, err := into.Write(text); n != len(text) || err != nil || out.String() != "Downloading web from repo https://me:redacted@h/charts\n" {
		t.Errorf("%d bytes, error %v, text %q", n, err, out.String())
	}
}
