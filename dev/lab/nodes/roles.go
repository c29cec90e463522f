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

// The executable that starts a lab is also the lab's supervisor and each node's first process, told by the name
// it is called by.
const (
	roleSupervisor = "fleet-lab-supervisor"
	roleNode       = "fleet-lab-node"
)

// lockDescriptor is where the supervisor has the lock of the lab's number.
const lockDescriptor = 3

// Role plays the part that the program is called for, if it is one of the lab's, and says what to exit with. Where
// it is none, played is false and the program is itself. It has to be the first thing in main or TestMain:
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
			_, _ = fmt.Fprintln(out, roleSupervisor+":", err) // nowhere to say that nothing can be said
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
	_, _ = fmt.Fprintln(out, filepath.Base(args[0])+":", err) // likewise
	return 1, true
}

// beSupervisor ends what it has started, and removes the lab, when its caller is gone. Its one argument is the
// lab's folder; the number is in the folder of the lock.
func beSupervisor(args []string) error {
	if len(args) != 1 {
		return errors.New("it is started by dev/lab, with a folder")
	}
	syscall.CloseOnExec(lockDescriptor)
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", lockDescriptor))
	if err != nil {
		return fmt.Errorf("looking for the lab's lock: %w", err)
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
		return errors.New("it is started by dev/lab, with a file")
	}
	spec, err := inside.Load(args[0])
	if err != nil {
		return err
	}
	return inside.Main(spec, slog.New(slog.NewTextHandler(out, nil)))
}

// callMe makes a name for this executable in a folder, for the part it is to play.
func callMe(dir, role string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this executable: %w", err)
	}
	link := filepath.Join(dir, role)
	if err := os.Symlink(self, link); err != nil {
		return "", fmt.Errorf("naming this executable: %w", err)
	}
	return link, nil
}

// launchSupervisor starts it, with the lock.
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
