package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// program returns a minimal Linux executable: an ELF header and, if linked, a segment that names the dynamic
// linker. content makes programs differ.
func program(machine elf.Machine, linked bool, content string) []byte {
	var out bytes.Buffer
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64, Phentsize: 56, Phoff: 64,
	}
	if linked {
		header.Phnum = 1
	}
	write := func(value any) {
		if err := binary.Write(&out, binary.LittleEndian, value); err != nil {
			panic(err)
		}
	}
	write(header)
	if linked {
		write(elf.Prog64{Type: uint32(elf.PT_INTERP)})
	}
	return append(out.Bytes(), content...)
}

// programs creates a directory with the programs for each platform.
func programs(t *testing.T) map[string]string {
	t.Helper()
	folders := map[string]string{}
	for platform, machine := range map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64} {
		folder := t.TempDir()
		for _, name := range []string{Controller, CommandLine, Agent} {
			write(t, filepath.Join(folder, name), program(machine, false, name+" for "+platform))
		}
		folders[platform] = folder
	}
	return folders
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// archive maps the paths in an OCI archive to their contents.
type archive map[string][]byte

func open(t *testing.T, file string) archive {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content := archive{}
	for _, entry := range untar(t, raw) {
		content[entry.header.Name] = entry.content
	}
	return content
}

type entry struct {
	header  *tar.Header
	content []byte
}

func untar(t *testing.T, raw []byte) []entry {
	t.Helper()
	var entries []entry
	reader := tar.NewReader(bytes.NewReader(raw))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry{header, content})
	}
}

// blob returns what a descriptor references. It fails the test if digest or size are wrong.
func (a archive) blob(t *testing.T, descriptor v1.Descriptor) []byte {
	t.Helper()
	raw, there := a["blobs/sha256/"+descriptor.Digest.Hex]
	if !there {
		t.Fatalf("%s is not in the archive", descriptor.Digest)
	}
	digest, size, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil || digest != descriptor.Digest || size != descriptor.Size {
		t.Fatalf("blob %s of %d bytes is %s of %d (%v)", descriptor.Digest, descriptor.Size, digest, size, err)
	}
	return raw
}

func decode[T any](t *testing.T, raw []byte) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// one returns the only index of the archive.
func (a archive) one(t *testing.T) (v1.Descriptor, v1.IndexManifest) {
	t.Helper()
	list := decode[v1.IndexManifest](t, a["index.json"])
	if len(list.Manifests) != 1 {
		t.Fatalf("the archive lists %d images, want 1", len(list.Manifests))
	}
	return list.Manifests[0], decode[v1.IndexManifest](t, a.blob(t, list.Manifests[0]))
}

// tell describes the image of one platform: its configuration, and the files of its layers as `tar -tv` prints
// them.
func (a archive) tell(t *testing.T, image v1.Descriptor) string {
	t.Helper()
	manifest := decode[v1.Manifest](t, a.blob(t, image))
	config := decode[v1.ConfigFile](t, a.blob(t, manifest.Config))
	var told strings.Builder
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(&told, format+"\n", args...) }
	say("platform %s/%s, created %s", config.OS, config.Architecture, config.Created.UTC().Format("2006-01-02T15:04:05Z"))
	say("%s, %s", manifest.MediaType, manifest.Config.MediaType)
	say("user %s, in %s, entrypoint %q, command %q", config.Config.User, config.Config.WorkingDir, config.Config.Entrypoint, config.Config.Cmd)
	say("environment %q", config.Config.Env)
	for _, key := range []string{"title", "version"} {
		say("%s: %s", key, config.Config.Labels["org.opencontainers.image."+key])
	}
	for i, layer := range manifest.Layers {
		raw := a.unzip(t, layer)
		if digest, _, err := v1.SHA256(bytes.NewReader(raw)); err != nil || digest != config.RootFS.DiffIDs[i] {
			t.Fatalf("layer %d unpacks to %s, not to %s (%v)", i, digest, config.RootFS.DiffIDs[i], err)
		}
		say("layer %s", layer.MediaType)
		for _, e := range untar(t, raw) {
			say("  %s %4d:%-4d %s %s", e.header.FileInfo().Mode(), e.header.Uid, e.header.Gid, e.header.ModTime.UTC().Format("2006-01-02"), e.header.Name)
		}
	}
	return told.String()
}

func (a archive) unzip(t *testing.T, layer v1.Descriptor) []byte {
	t.Helper()
	packed, err := gzip.NewReader(bytes.NewReader(a.blob(t, layer)))
	if err != nil {
		t.Fatal(err)
	}
	if packed.Name != "" || !packed.ModTime.IsZero() {
		t.Errorf("the gzip header of layer %s has a name or a time: %q, %s", layer.Digest, packed.Name, packed.ModTime)
	}
	raw, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// file returns the content of a file in the image of one platform.
func (a archive) file(t *testing.T, image v1.Descriptor, path string) []byte {
	t.Helper()
	for _, layer := range decode[v1.Manifest](t, a.blob(t, image)).Layers {
		for _, e := range untar(t, a.unzip(t, layer)) {
			if e.header.Name == path {
				return e.content
			}
		}
	}
	t.Fatalf("%s is not in the image", path)
	return nil
}

// wants fails the test unless the error starts with want, or is nil if want is empty.
func wants(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case err == nil && want == "":
	case err == nil:
		t.Errorf("got no error, want %q", want)
	case want == "" || !strings.Contains(err.Error(), want):
		t.Errorf("error %q, want %q", err, want)
	}
}
