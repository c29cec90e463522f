package unpack

import (
	"archive/tar"
	"archive/zip"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// zstdMemory bounds the memory of a zstd decoder.
const zstdMemory = 128 << 20

// format is how to unpack files with a suffix: the kind of archive, and the compression.
type format struct{ suffix, packed, compression string }

// formats returns the known formats. A suffix that ends with another one comes first.
func formats() []format {
	return []format{
		{".tar.gz", ".tar", "gzip"}, {".tgz", ".tar", "gzip"}, {".tar.bz2", ".tar", "bzip2"}, {".tbz2", ".tar", "bzip2"},
		{".tar.zst", ".tar", "zstd"}, {".tar.zstd", ".tar", "zstd"}, {".tzst", ".tar", "zstd"},
		{".tar.xz", ".tar", "xz"}, {".txz", ".tar", "xz"}, {".tar", ".tar", ""}, {".zip", ".zip", ""},
		{".gz", "", "gzip"}, {".bz2", "", "bzip2"}, {".zst", "", "zstd"}, {".zstd", "", "zstd"}, {".xz", "", "xz"},
	}
}

// Suffix returns the suffix of a path that says how to unpack, or the default.
func Suffix(name, otherwise string) string {
	for _, known := range formats() {
		if strings.HasSuffix(name, known.suffix) {
			return known.suffix
		}
	}
	return otherwise
}

// Download is a downloaded file.
type Download struct {
	File *os.File
	// Path is the path that it was downloaded from. Its last part names a file that is not an archive.
	Path string
	// Suffix says how to unpack, or is empty for a file that is not an archive.
	Suffix string
	// Folder selects a folder in the archive. Empty means all.
	Folder string
}

// Write writes the files of a download to a sink, or only those of a folder in it.
func Write(download Download, into *Sink) error {
	if download.Folder == "" {
		return unpackAll(download, into)
	}
	dir, err := os.MkdirTemp("", "fleet-chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all, err := NewSink(dir, into.Limits)
	if err != nil {
		return err
	}
	defer all.Close()
	if err := errors.Join(unpackAll(download, all), all.Verify()); err != nil {
		return err
	}
	return CopyFolder(all.root, download.Folder, into, true)
}

// unpackAll writes all files of a download.
func unpackAll(download Download, into *Sink) error {
	name := path.Base(download.Path)
	if name == "." || name == "/" {
		name = "file"
	}
	packed, compression := unpacking(download.Suffix)
	if packed == ".zip" {
		return unzip(download.File, into)
	}
	content, stop, err := decompress(compression, download.File, into.Limits)
	if err != nil {
		return err
	}
	defer stop()
	if packed == ".tar" {
		return untar(content, into)
	}
	if compression != "" {
		name = strings.TrimSuffix(name, download.Suffix)
	}
	return into.File(name, content)
}

// WriteTgz writes the files of a compressed tar stream to a sink.
func WriteTgz(from io.Reader, into *Sink) error {
	content, stop, err := decompress("gzip", from, into.Limits)
	if err != nil {
		return err
	}
	defer stop()
	return untar(content, into)
}

// unpacking splits a suffix into the kind of archive and the compression.
func unpacking(suffix string) (packed, compression string) {
	for _, known := range formats() {
		if known.suffix == suffix {
			return known.packed, known.compression
		}
	}
	return "", ""
}

// decompress returns a bounded stream of what a stream contains.
func decompress(compression string, from io.Reader, limits Limits) (content io.Reader, stop func(), err error) {
	content, stop = from, func() {}
	switch compression {
	case "gzip":
		content, err = gzip.NewReader(from)
	case "bzip2":
		content = bzip2.NewReader(from)
	case "zstd":
		var decoder *zstd.Decoder
		decoder, err = zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(zstdMemory))
		if err == nil {
			content, stop = decoder, decoder.Close
		}
	case "xz":
		err = errors.New("archives in the format xz are not supported: use gzip or zstd")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading archive: %w", err)
	}
	return &bounded{content, limits.Unpacked, limits.Unpacked}, stop, nil
}

// bounded is a reader that fails after too many bytes, including those that an archive makes its reader skip.
type bounded struct {
	from        io.Reader
	left, limit int64
}

// Read reads.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, fmt.Errorf("more than %d bytes unpacked", b.limit)
	}
	return n, err
}

// untar writes the files of a tar stream.
func untar(content io.Reader, into *Sink) error {
	archive := tar.NewReader(content)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading archive: %w", err)
		}
		switch header.Typeflag {
		case tar.TypeDir:
			err = into.Dir(header.Name)
		case tar.TypeReg:
			err = into.File(header.Name, archive)
		case tar.TypeSymlink:
			err = into.Symlink(header.Name, header.Linkname)
		case tar.TypeLink:
			err = into.hardlink(header.Name, header.Linkname)
		case tar.TypeXGlobalHeader:
		default:
			err = fmt.Errorf("entry %q has the unsupported type %q", header.Name, header.Typeflag)
		}
		if err != nil {
			return err
		}
	}
}

// unzip writes the files of a zip archive.
func unzip(file *os.File, into *Sink) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	directory := &directory{file: file, left: int64(into.Limits.Entries+1) * directoryEntry}
	archive, err := zip.NewReader(directory, info.Size())
	if err != nil {
		return fmt.Errorf("reading archive: %w", err)
	}
	directory.whole = true
	for _, entry := range archive.File {
		if err := unzipEntry(entry, into); err != nil {
			return err
		}
	}
	return nil
}

func unzipEntry(entry *zip.File, into *Sink) error {
	mode := entry.Mode()
	if mode.IsDir() {
		return into.Dir(entry.Name)
	}
	if mode&fs.ModeType != 0 && mode&fs.ModeType != fs.ModeSymlink {
		return fmt.Errorf("entry %q has the unsupported type %q", entry.Name, mode.Type())
	}
	content, err := entry.Open()
	if err != nil {
		return fmt.Errorf("reading archive: entry %q: %w", entry.Name, err)
	}
	defer content.Close()
	if mode&fs.ModeSymlink == 0 {
		return into.File(entry.Name, content)
	}
	to, err := io.ReadAll(io.LimitReader(content, MaxName))
	if err != nil {
		return fmt.Errorf("reading archive: entry %q: %w", entry.Name, err)
	}
	return into.Symlink(entry.Name, string(to))
}

// directoryEntry is the number of bytes that an entry of a zip archive's directory may have on average.
const directoryEntry = 512

// directory bounds how much of a zip archive is read before its entries can be counted.
type directory struct {
	file  io.ReaderAt
	left  int64
	whole bool
}

// ReadAt reads.
func (d *directory) ReadAt(p []byte, offset int64) (int, error) {
	if d.left -= int64(len(p)); d.left < 0 && !d.whole {
		return 0, errors.New("the directory of the archive is too large")
	}
	return d.file.ReadAt(p, offset)
}
