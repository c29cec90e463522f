//go:build linux

package nodes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Each lab has a number. Its bridge, its network 10.99.<number>.0/24 and its cgroups are named after it.
const (
	places    = 100
	firstNode = 2 // .1 is the bridge
	lastNode  = 50
)

// lockFolder is the directory of the lock files, one per number. The lab's supervisor holds the lock while it
// runs. The file contains the lab's directory, to remove it after a kill.
const lockFolder = "/run"

// place is a lab's number and the lock on it.
type place struct {
	number int
	lock   *os.File
	dir    string // the lab's data directory
}

func (p *place) bridge() string  { return fmt.Sprintf("fleetlab%d", p.number) }
func (p *place) gateway() string { return p.address(1) }
func (p *place) address(host int) string {
	return fmt.Sprintf("10.99.%d.%d", p.number, host)
}

// cable returns the name of the host's end of a node's network device, for example fl0-east.
func (p *place) cable(node string) string { return fmt.Sprintf("fl%d-%s", p.number, node) }

// cgroup returns the path of a node's cgroup in each hierarchy.
func (p *place) cgroup(node string) string { return fmt.Sprintf("/fleet-lab%d-%s", p.number, node) }

func lockFile(folder string, number int) string {
	return filepath.Join(folder, fmt.Sprintf("fleet-lab%d.lock", number))
}

// errTaken means that another lab uses the number.
var errTaken = errors.New("number in use by another lab")

// reserve takes the first free number and removes what a killed lab with this number has left.
func reserve(folder, dir string) (*place, error) {
	for number := range places {
		p, err := take(folder, number)
		if errors.Is(err, errTaken) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if p.dir == "" && exists(filepath.Join(devices, p.bridge())) {
			p.release() // the bridge belongs to something else
			continue
		}
		return p, p.settle(dir)
	}
	return nil, fmt.Errorf("all %d lab numbers of this machine are in use: stop a lab with make lab-down", places)
}

// settle removes what an earlier lab with this number has left, and records this lab's directory.
func (p *place) settle(dir string) error {
	if p.dir != "" {
		if err := p.clean(); err != nil {
			return fmt.Errorf("removing the leftovers of an earlier lab: %w", err)
		}
	}
	p.dir = dir
	if err := errors.Join(p.lock.Truncate(0), writeAt(p.lock, dir)); err != nil {
		return fmt.Errorf("recording the lab's directory: %w", err)
	}
	return nil
}

func writeAt(file *os.File, content string) error {
	_, err := file.WriteAt([]byte(content), 0)
	return err
}

// take locks a number. A non-empty lock file contains the directory of a lab that was not cleaned up.
func take(folder string, number int) (*place, error) {
	file, err := os.OpenFile(lockFile(folder, number), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("taking a number for the lab: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && !same(file) {
		err = syscall.EWOULDBLOCK // the previous holder has removed the file meanwhile
	}
	if err != nil {
		err = errors.Join(file.Close(), ifElse(errors.Is(err, syscall.EWOULDBLOCK), errTaken, err))
		return nil, err
	}
	content, err := os.ReadFile(file.Name())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading %s: %w", file.Name(), err), file.Close())
	}
	return &place{number: number, lock: file, dir: strings.TrimSpace(string(content))}, nil
}

func ifElse(condition bool, yes, no error) error {
	if condition {
		return yes
	}
	return no
}

// same reports whether the open file is still the one with this path.
func same(file *os.File) bool {
	mine, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(file.Name())
	return err == nil && os.SameFile(mine, named)
}

// release removes the lock file and releases the lock.
func (p *place) release() {
	_ = os.Remove(p.lock.Name()) // safe, because this process holds the lock
	_ = p.lock.Close()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Sweep removes what labs with killed supervisors have left, and returns the names of their
// bridges. It does not touch running labs.
func Sweep() ([]string, error) {
	var swept []string
	for number := range places {
		if !exists(lockFile(lockFolder, number)) {
			continue
		}
		p, err := take(lockFolder, number)
		if errors.Is(err, errTaken) {
			continue
		}
		if err == nil {
			err = p.sweep()
		}
		if err != nil {
			return swept, err
		}
		swept = append(swept, p.bridge())
	}
	return swept, nil
}
