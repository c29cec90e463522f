package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/fleet-hub/fleet/dev/machines/cloudconfig"
)

// SuccessFile is the file below MACHINE_ROOT that reports success. The last command of the bootstrap data writes it.
const SuccessFile = "run/cluster-api/bootstrap-success.complete"

// commandTimeout limits each command.
const commandTimeout = 10 * time.Minute

// mostOutput limits the output that a record quotes.
const mostOutput = 4 << 10

// failure describes why bootstrapping failed.
type failure struct {
	cause  string
	line   int
	output string
}

// bootstrap executes the bootstrap data and returns nil if it succeeded.
func (m *process) bootstrap(ctx context.Context) *failure {
	data, err := os.ReadFile(m.folder.Data())
	if err != nil {
		return &failure{cause: "the bootstrap data cannot be read: " + err.Error()}
	}
	config, err := cloudconfig.Parse(data)
	if invalid := (*cloudconfig.Error)(nil); errors.As(err, &invalid) {
		return &failure{cause: "the bootstrap data is invalid: " + invalid.Error(), line: invalid.Line}
	} else if err != nil {
		return &failure{cause: "the bootstrap data is invalid: " + err.Error()}
	}
	if failed := m.writeFiles(config.Files); failed != nil {
		return failed
	}
	for i, command := range config.Commands {
		m.record(func(r *Record) { r.Command, r.Line = i+1, command.Line })
		if failed := m.runCommand(ctx, i+1, command); failed != nil {
			return failed
		}
	}
	if info, err := m.root.Stat(SuccessFile); err != nil || !info.Mode().IsRegular() {
		return &failure{cause: "all commands of the bootstrap data succeeded, but the file " + SuccessFile + " does not exist; its last command has to write it"}
	}
	return nil
}

// writeFiles writes the files below the machine's root. os.Root follows no symbolic link out of it.
func (m *process) writeFiles(files []cloudconfig.File) *failure {
	for _, file := range files {
		if err := m.writeFile(file); err != nil {
			return &failure{cause: fmt.Sprintf("writing the file %s (line %d) failed: %s", file.Path, file.Line, err), line: file.Line}
		}
	}
	return nil
}

func (m *process) writeFile(file cloudconfig.File) error {
	if err := m.root.MkdirAll(path.Dir(file.Path), 0o755); err != nil {
		return err
	}
	// Only this user can read the content before the permissions are set.
	out, err := m.root.OpenFile(file.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return errors.New("it is already written, or is a folder")
	}
	if err != nil {
		return err
	}
	_, err = out.Write(file.Content)
	return errors.Join(err, out.Chmod(file.Permissions), out.Close())
}

func (m *process) runCommand(ctx context.Context, number int, command cloudconfig.Command) *failure {
	log := m.folder.log("bootstrap")
	before := sizeOf(log)
	err := m.execute(ctx, command.Args, log)
	// What the command has requested is done before the next one runs.
	m.services.load(ctx)
	if err == nil {
		return nil
	}
	return &failure{
		cause: fmt.Sprintf("command %d (line %d) failed: %s", number, command.Line, err), line: command.Line,
		output: strings.ToValidUTF8(string(Tail(log, before, mostOutput)), "?"),
	}
}

// execute runs a command until it ends, at most for commandTimeout.
func (m *process) execute(ctx context.Context, args []string, log string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTimeout, fmt.Errorf("it did not end within %s", commandTimeout))
	defer cancel()
	cmd, err := m.starter.start(ctx, args, log)
	if err != nil {
		return err
	}
	return wait(ctx, cmd)
}
