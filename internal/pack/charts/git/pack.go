package git

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/fleet-hub/fleet/internal/pack/charts/unpack"
)

// boundedStorage refuses packs with an object that is too large. The library reads each object into memory, and a small
// pack can contain huge ones.
type boundedStorage struct {
	*filesystem.Storage

	dir    string
	limits unpack.Limits
}

// PackfileWriter returns a writer that checks a pack before the library reads it.
func (s *boundedStorage) PackfileWriter() (io.WriteCloser, error) {
	file, err := os.CreateTemp(s.dir, "pack-")
	if err != nil {
		return nil, err
	}
	return &checkedPack{file, s.limits.Received, s}, nil
}

// checkedPack is a pack that was received, but not checked.
type checkedPack struct {
	file    *os.File
	left    int64
	storage *boundedStorage
}

// Write writes.
func (c *checkedPack) Write(p []byte) (int, error) {
	if c.left -= int64(len(p)); c.left < 0 {
		return 0, errTooLarge
	}
	return c.file.Write(p)
}

// Close checks the pack and stores it.
func (c *checkedPack) Close() error {
	defer os.Remove(c.file.Name())
	defer c.file.Close()
	if _, err := c.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	switch err := checkPack(bufio.NewReader(c.file), c.storage.limits.Memory); {
	case errors.Is(err, packfile.ErrEmptyPackfile):
		return nil
	case err != nil:
		return fmt.Errorf("reading pack: %w", err)
	}
	if _, err := c.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	into, err := c.storage.Storage.PackfileWriter()
	if err != nil {
		return err
	}
	_, err = io.Copy(into, c.file)
	return errors.Join(err, into.Close())
}

// checkPack returns an error if an object of a pack has more bytes than the limit.
func checkPack(pack io.Reader, limit int64) error {
	scanner := packfile.NewScanner(pack)
	_, count, err := scanner.Header()
	if err != nil {
		return err
	}
	for range count {
		header, err := scanner.NextObjectHeader()
		if err != nil {
			return err
		}
		if header.Length > limit {
			return fmt.Errorf("%w: an object has more than %d bytes", errTooLarge, limit)
		}
		beginning := &head{}
		if _, _, err := scanner.NextObject(beginning); err != nil {
			return err
		}
		isDelta := header.Type == plumbing.OFSDeltaObject || header.Type == plumbing.REFDeltaObject
		if isDelta && beginning.deltaSize() > uint64(limit) { //nolint:gosec // limits are positive
			return fmt.Errorf("%w: an object has more than %d bytes", errTooLarge, limit)
		}
	}
	return nil
}

// head keeps the first bytes of what is written.
type head struct{ bytes []byte }

// Write keeps what is missing.
func (h *head) Write(p []byte) (int, error) {
	missing := 2*binary.MaxVarintLen64 - len(h.bytes)
	h.bytes = append(h.bytes, p[:min(len(p), missing)]...)
	return len(p), nil
}

// deltaSize returns the size of the object that a delta makes. The delta begins with the size of the other object, and
// this one. For a delta that is not valid, it is 0.
func (h *head) deltaSize() uint64 {
	from := bytes.NewReader(h.bytes)
	if _, err := binary.ReadUvarint(from); err != nil {
		return 0
	}
	size, err := binary.ReadUvarint(from)
	if err != nil {
		return 0
	}
	return size
}
