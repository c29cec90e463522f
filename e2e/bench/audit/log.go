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

// NewLog begins at the log's present end.
func NewLog(path string) (*Log, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("looking for the audit log: %w", err)
	}
	return &Log{path: path, offset: info.Size()}, nil
}

// Next are the events since the last call. The last line is left for the next call while it is not whole.
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
