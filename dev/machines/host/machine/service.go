package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"syscall"
)

// AddService is the command service: it defines a service and asks the machine's process to start it. root is
// MACHINE_ROOT. A service that is already defined in the same way is left alone.
func AddService(root, name string, command []string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if len(command) == 0 {
		return errors.New("the service has no command: service NAME COMMAND ARGUMENT…")
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return fmt.Errorf("service %s: %w", name, err)
	}
	content, err := json.Marshal(definition{Command: command})
	if err != nil {
		return fmt.Errorf("service %s: %w", name, err)
	}
	if _, err := decodeDefinition(content); err != nil {
		return fmt.Errorf("service %s: %w", name, err)
	}
	if err := define(root, name, command, content); err != nil {
		return fmt.Errorf("service %s: %w", name, err)
	}
	return requestServices(Folder(filepath.Dir(root)))
}

// define writes a definition, unless the same one exists.
func define(root, name string, command []string, content []byte) error {
	inside, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer func() { _ = inside.Close() }() // files in it are closed already
	existing, err := readDefinition(inside, name)
	switch {
	case err == nil && slices.Equal(existing.Command, command):
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return errors.New("a service of this name has another definition")
	}
	if err := inside.MkdirAll(servicesFolder, 0o755); err != nil {
		return err
	}
	file := path.Join(servicesFolder, name+".json")
	if err := inside.WriteFile(file+".new", content, 0o600); err != nil {
		return err
	}
	return inside.Rename(file+".new", file)
}

// requestServices makes the machine's process load the definitions.
func requestServices(f Folder) error {
	pid := f.Process()
	if pid == 0 {
		return errors.New("the machine does not run: call this command from its bootstrap data")
	}
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Signal(syscall.SIGHUP)
	}
	if err != nil {
		return fmt.Errorf("sending a signal to the machine's process: %w", err)
	}
	return nil
}
