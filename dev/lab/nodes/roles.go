//go:build linux

package nodes

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/fleet-hub/fleet/dev/lab/inside"
	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

// The executable that starts a lab also runs as the lab's supervisor and as each node's first process. The name
// it is called by selects the role.
const (
	roleSupervisor = "fleet-lab-supervisor"
	roleNode       = "fleet-lab-node"
)

// lockDescriptor is the supervisor's file descriptor of the lab's lock.
const lockDescriptor = 3

// Role runs the role of the lab that the program's name selects, and returns the exit code. If the name selects
// no role, played is false. It has to be the first call in main or TestMain:
//
//	if code, played := nodes.Role(os.Args, os.Stderr); played {
//		os.Exit(code)
//	}
func Role(args []string, out io.Writer) (code int, played bool) {
	var err error
	switch filepath.Base(args[0]) {
	case roleSupervisor:
		err = beSupervisor(args[1:])
		if err != nil {
			_, _ = fmt.Fprintln(out, roleSupervisor+":", err) // a failed write cannot be reported
		}
		supervise.KillOwnGroup()
	case roleNode:
		err = beNode(args[1:], out)
	default:
		return 0, false
	}
	if err == nil {
		return 0, true
	}
	_, _ = fmt.Fprintln(out, filepath.Base(args[0])+":", err) // see above
	return 1, true
}

// beSupervisor waits until its caller has ended. Then it ends the processes it has started and removes the lab.
// Its only argument is the lab's directory. The name of the lock file contains the lab's number.
func beSupervisor(args []string) error {
	if len(args) != 1 {
		return errors.New("want one argument, the lab's directory: start it with dev/lab")
	}
	syscall.CloseOnExec(lockDescriptor)
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", lockDescriptor))
	if err != nil {
		return fmt.Errorf("finding the lab's lock: %w", err)
	}
	var number int
	if _, err := fmt.Sscanf(filepath.Base(name), "fleet-lab%d.lock", &number); err != nil {
		return fmt.Errorf("reading the lab's number from %s: %w", name, err)
	}
	p := &place{number: number, lock: os.NewFile(lockDescriptor, lockFile(lockFolder, number)), dir: args[0]}
	return errors.Join(supervise.Main(args[0]), p.sweep())
}

func beNode(args []string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("want one argument, the file of the node's spec: start it with dev/lab")
	}
	spec, err := inside.Load(args[0])
	if err != nil {
		return err
	}
	return inside.Main(spec, slog.New(slog.NewTextHandler(out, nil)))
}

// callMe creates a symbolic link to this executable, named after the role to run.
func callMe(dir, role string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this executable: %w", err)
	}
	link := filepath.Join(dir, role)
	if err := os.Symlink(self, link); err != nil {
		return "", fmt.Errorf("linking this executable: %w", err)
	}
	return link, nil
}

// launchSupervisor starts the supervisor and passes it the lock.
func (l *Lab) launchSupervisor() error {
	binary, err := callMe(l.dir, roleSupervisor)
	if err != nil {
		return err
	}
	l.supervisor, err = supervise.Launch(supervise.Options{
		Binary: binary, DataDir: l.dir, Log: filepath.Join(l.LogDir, "supervisor.log"), Files: []*os.File{l.place.lock},
	})
	return err
}
