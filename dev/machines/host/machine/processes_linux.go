package machine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endTimeout limits the time until the killed processes of a machine have ended.
const endTimeout = 20 * time.Second

// mark is the variable that all processes of a machine inherit.
const mark = "MACHINE_ROOT="

// EndProcesses kills all processes of a machine except the calling one and returns when they have ended. A process
// belongs to the machine if its environment has the machine's MACHINE_ROOT, or if the machine's process runs and leads
// its group. Each is killed by a handle, which never reaches another process that got its ID.
func EndProcesses(f Folder) error {
	deadline := time.After(endTimeout)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		left, err := f.killAll()
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-ticker.C:
		case <-deadline:
			return fmt.Errorf("%d processes of the machine in %s did not end within %s after SIGKILL", left, f, endTimeout)
		}
	}
}

// killAll sends SIGKILL to each process of the machine and returns their number. It stops the machine's process first
// and kills it last, so that it starts no service meanwhile.
func (f Folder) killAll() (int, error) {
	leader := f.Process()
	if leader != 0 && leader != os.Getpid() {
		f.signal(leader, leader, syscall.SIGSTOP)
	}
	pids, err := processIDs()
	if err != nil {
		return 0, err
	}
	found := 0
	for _, pid := range pids {
		if pid != leader && pid != os.Getpid() && f.signal(pid, leader, syscall.SIGKILL) {
			found++
		}
	}
	if found == 0 && leader != 0 && leader != os.Getpid() {
		f.signal(leader, leader, syscall.SIGKILL)
		found++
	}
	return found, nil
}

// signal sends a signal to a process if it belongs to the machine, and reports whether it does.
func (f Folder) signal(pid, leader int, signal syscall.Signal) bool {
	handle, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = handle.Release() }() // the signal is sent already
	if !f.owns(pid, leader) {
		return false
	}
	// With the handle open, the ID cannot have changed its meaning since owns.
	return !errors.Is(handle.Signal(signal), os.ErrProcessDone)
}

func (f Folder) owns(pid, leader int) bool {
	state, group := statOf(pid)
	if state == "" || state == "Z" || state == "X" {
		return false // it has ended
	}
	if leader != 0 && group == leader && f.Process() == leader {
		return true
	}
	environment, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if string(variable) == mark+f.Root() {
			return true
		}
	}
	return false
}

// statOf returns the state and the group of a process. The state is empty if it does not exist.
func statOf(pid int) (state string, group int) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", 0
	}
	// The name in brackets may contain anything, so fields are counted from its end: state, parent, group.
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 3 {
		return "", 0
	}
	group, err = strconv.Atoi(fields[2])
	if err != nil {
		return "", 0
	}
	return fields[0], group
}

func processIDs() ([]int, error) {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	names, err := folder.Readdirnames(-1)
	_ = folder.Close() // the folder is only read
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
