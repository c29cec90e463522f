package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// Log reads an audit log while it grows.
type Log struct {
	path   string
	offset int64
}

// NewLog returns a Log that starts at the file's current end. If a line is incomplete there, the Log includes it.
func NewLog(path string) (log *Log, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("finding the end of the audit log: %w", err)
	}
	offset, err := lineBefore(file, size)
	if err != nil {
		return nil, fmt.Errorf("finding the end of the audit log: %w", err)
	}
	return &Log{path: path, offset: offset}, nil
}

// lineBefore returns the start of the line that contains end, or end itself if no line is incomplete there.
func lineBefore(file io.ReaderAt, end int64) (int64, error) {
	const most = 64 << 10
	for end > 0 {
		chunk := make([]byte, min(most, end))
		if _, err := file.ReadAt(chunk, end-int64(len(chunk))); err != nil {
			return 0, err
		}
		if last := bytes.LastIndexByte(chunk, '\n'); last >= 0 {
			return end - int64(len(chunk)) + int64(last) + 1, nil
		}
		end -= int64(len(chunk))
	}
	return 0, nil
}

// Next returns the events since the last call. An incomplete last line is left for the next call.
func (l *Log) Next() (events []Event, err error) {
	file, err := os.Open(l.path)
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	l.offset += int64(len(whole))
	for line := range bytes.Lines(whole) {
		event, err := Parse(line)
		if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	return events, nil
}
