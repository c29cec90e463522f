package git

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/fleet-hub/fleet/internal/pack/charts/unpack"
)

// packed is an object of a pack.
type packed struct {
	kind    plumbing.ObjectType
	size    uint64
	content []byte
}

// packOf returns a pack. Deltas are for the first object.
func packOf(objects ...packed) []byte {
	var pack bytes.Buffer
	pack.WriteString("PACK")
	_ = binary.Write(&pack, binary.BigEndian, []uint32{2, uint32(len(objects))})
	first := plumbing.ComputeHash(objects[0].kind, objects[0].content)
	for _, object := range objects {
		rest := object.size >> 4
		begin := byte(object.kind)<<4 | byte(object.size&15)
		if rest > 0 {
			begin |= 0x80
		}
		pack.WriteByte(begin)
		if rest > 0 {
			pack.Write(binary.AppendUvarint(nil, rest))
		}
		if object.kind == plumbing.REFDeltaObject {
			pack.Write(first[:])
		}
		compressed := zlib.NewWriter(&pack)
		_, _ = compressed.Write(object.content)
		_ = compressed.Close()
	}
	sum := sha1.Sum(pack.Bytes())
	pack.Write(sum[:])
	return pack.Bytes()
}

func blob(content []byte) packed {
	return packed{plumbing.BlobObject, uint64(len(content)), content}
}

// delta makes an object of a size by copying the beginning of the first one.
func delta(size uint64, base int) packed {
	content := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(base)), size)
	for ; size > 0; size -= min(size, 256) {
		content = append(content, 0x80|0x10|0x20, byte(min(size, 256)), byte(min(size, 256)>>8))
	}
	return packed{plumbing.REFDeltaObject, uint64(len(content)), content}
}

func TestPackOfAGitServer_ContainsNoObjectLargerThanTheLimit(t *testing.T) {
	small := blob(bytes.Repeat([]byte("x"), 256))
	for name, test := range map[string]struct {
		pack []byte
		want error
	}{
		"small objects":            {packOf(small, delta(512, 256)), nil},
		"large object":             {packOf(small, blob(make([]byte, 1<<20+1))), errTooLarge},
		"delta that makes a large": {packOf(small, delta(1<<20+1, 256)), errTooLarge},
		"more bytes than it says":  {packOf(packed{plumbing.BlobObject, 10, make([]byte, 1<<20)}), packfile.ErrInflatedSizeMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			limits := unpack.Limits{Received: 1 << 20, Memory: 1 << 20}
			storage := &boundedStorage{filesystem.NewStorage(osfs.New(dir+"/git"), cache.NewObjectLRUDefault()), dir, limits}
			err := packfile.UpdateObjectStorage(storage, bytes.NewReader(test.pack))
			if !errors.Is(err, test.want) {
				t.Fatalf("error %v, want %v", err, test.want)
			}
			if _, found := storage.EncodedObject(plumbing.BlobObject, plumbing.ComputeHash(plumbing.BlobObject, small.content)); (found == nil) != (test.want == nil) {
				t.Errorf("reading the first object: %v", found)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 1 {
				t.Errorf("%v, %v", entries, err)
			}
		})
	}
}
