package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fleet-hub/fleet/dev/machines/host"
)

// Folder is the absolute path of a machine's folder.
type Folder string

// Root is the folder in which commands run.
func (f Folder) Root() string { return f.file("root") }

// Data is the file with the bootstrap data.
func (f Folder) Data() string { return f.file("bootstrap.yaml") }

// Logs is the folder of all logs.
func (f Folder) Logs() string { return f.file("log") }

// Log is the log of the machine's own process.
func (f Folder) Log() string { return f.log("machine") }

func (f Folder) log(name string) string { return filepath.Join(f.Logs(), name+".log") }

func (f Folder) lock() string { return f.file("lock") }

func (f Folder) spec() string { return f.file("machine.json") }

func (f Folder) state() string { return f.file("state.json") }

func (f Folder) file(name string) string { return filepath.Join(string(f), name) }

// Spec is what the host has decided about a machine. It never changes.
type Spec struct {
	ID         string `json:"id"`
	Endpoint   string `json:"endpoint,omitempty"`
	Port       int    `json:"port"`
	ExtraPorts []int  `json:"extraPorts,omitempty"`
	// DataHash is the SHA-256 of the bootstrap data in hexadecimal.
	DataHash string `json:"dataHash"`
}

// Phase is how far a machine's bootstrapping is.
type Phase string

// The phases. A machine without a record has the phase NotStarted.
const (
	NotStarted    Phase = ""
	Bootstrapping Phase = "Bootstrapping"
	Bootstrapped  Phase = "Bootstrapped"
	Failed        Phase = "Failed"
)

// Record is what a machine's process has recorded about it.
type Record struct {
	Phase Phase `json:"phase"`
	// Command, Line, Cause and Output are as in host.Status.
	Command  int            `json:"command,omitempty"`
	Line     int            `json:"line,omitempty"`
	Cause    string         `json:"cause,omitempty"`
	Output   string         `json:"output,omitempty"`
	Services []host.Service `json:"services,omitempty"`
}

// Prepare fills a new folder with the spec and the bootstrap data.
func (f Folder) Prepare(spec Spec, data []byte) error {
	for _, dir := range []string{f.Root(), f.Logs(), filepath.Join(f.Root(), "tmp")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("creating the machine's folder: %w", err)
		}
	}
	if err := os.WriteFile(f.Data(), data, 0o600); err != nil {
		return fmt.Errorf("writing the bootstrap data: %w", err)
	}
	return writeJSON(f.spec(), spec)
}

// Spec reads the machine's spec.
func (f Folder) Spec() (Spec, error) {
	var spec Spec
	err := readJSON(f.spec(), &spec)
	return spec, err
}

// Record reads the machine's record. It is empty if the machine has not started.
func (f Folder) Record() (Record, error) {
	var record Record
	err := readJSON(f.state(), &record)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return record, err
}

// mostJSON limits the files with specs, records and services.
const mostJSON = 1 << 20

func readJSON(path string, into any) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // the file is only read
	content, err := io.ReadAll(io.LimitReader(file, mostJSON))
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// writeJSON replaces a file at once, so that its readers never see a part of it.
func writeJSON(path string, content any) error {
	encoded, err := json.Marshal(content)
	if err == nil {
		err = os.WriteFile(path+".new", encoded, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
