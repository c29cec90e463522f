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

// EndProcesses kills all processes of a machine and returns when they have ended. A process belongs to the machine if
// its environment has the machine's MACHINE_ROOT, or if the machine's process runs and leads its group. Each is killed
// by a handle, which never reaches another process that got its ID.
func EndProcesses(f Folder) error {
	return untilNone(f.killAll, string(f))
}

// endOthers is EndProcesses for the machine's process, which it does not end.
func endOthers(f Folder) error {
	self := os.Getpid()
	return untilNone(func() (int, error) {
		return f.killExcept(self, func() bool { return true })
	}, string(f))
}

// EndAll kills all processes whose environment has a MACHINE_ROOT below a folder. It ends what is left of machines that
// have removed their own folder.
func EndAll(folder string) error {
	below := func(root string) bool { return strings.HasPrefix(root, folder+"/") }
	return untilNone(func() (int, error) {
		pids, err := processIDs()
		found := 0
		for _, pid := range pids {
			if pid != os.Getpid() && send(pid, syscall.SIGKILL, func() bool { return hasRoot(pid, below) }) {
				found++
			}
		}
		return found, err
	}, folder)
}

// untilNone calls killAll until it finds no process.
func untilNone(killAll func() (int, error), folder string) error {
	deadline := time.After(endTimeout)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		left, err := killAll()
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-ticker.C:
		case <-deadline:
			return fmt.Errorf("%d processes of machines in %s did not end within %s after SIGKILL", left, folder, endTimeout)
		}
	}
}

// killAll sends SIGKILL to each process of the machine and returns their number. It stops the machine's process first
// and kills it last, so that it starts no service meanwhile.
func (f Folder) killAll() (int, error) {
	leader := f.Process()
	leads := func() bool { return leader != 0 && f.Process() == leader }
	if leader != 0 {
		send(leader, syscall.SIGSTOP, leads)
	}
	found, err := f.killExcept(leader, leads)
	if err == nil && found == 0 && leader != 0 && send(leader, syscall.SIGKILL, leads) {
		found++
	}
	return found, err
}

// killExcept sends SIGKILL to each process of the machine except its leader and returns their number. leads reports
// whether the leader still is one.
func (f Folder) killExcept(leader int, leads func() bool) (int, error) {
	pids, err := processIDs()
	if err != nil {
		return 0, err
	}
	found := 0
	for _, pid := range pids {
		isOurs := func() bool {
			return leader != 0 && groupOf(pid) == leader && leads() || hasRoot(pid, func(root string) bool { return root == f.Root() })
		}
		if pid != leader && send(pid, syscall.SIGKILL, isOurs) {
			found++
		}
	}
	return found, nil
}

// send sends a signal to a process if isOurs returns true, and reports whether it did.
func send(pid int, signal syscall.Signal, isOurs func() bool) bool {
	handle, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = handle.Release() }() // the signal is sent already
	if hasEnded(pid) || !isOurs() {
		return false
	}
	// The handle was open before isOurs looked at the process, so the ID cannot have changed its meaning.
	return !errors.Is(handle.Signal(signal), os.ErrProcessDone)
}

// hasRoot reports whether the MACHINE_ROOT in the environment of a process fulfils a condition.
func hasRoot(pid int, condition func(root string) bool) bool {
	environment, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if root, found := bytes.CutPrefix(variable, []byte(mark)); found && condition(string(root)) {
			return true
		}
	}
	return false
}

// hasEnded reports whether a process does not exist or is a zombie.
func hasEnded(pid int) bool {
	state, _ := statOf(pid)
	return state == "" || state == "Z" || state == "X"
}

func groupOf(pid int) int {
	_, group := statOf(pid)
	return group
}

// statOf returns the state and the group of a process. The state is empty if it does not exist.
func statOf(pid int) (state string, group int) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", 0
	}
	return parseStat(content)
}

// parseStat reads /proc/PID/stat. The program's name in brackets may contain anything, so fields are counted from the
// last bracket: state, parent, group.
func parseStat(content []byte) (state string, group int) {
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if len(fields) < 3 {
		return "", 0
	}
	group, err := strconv.Atoi(string(fields[2]))
	if err != nil {
		return "", 0
	}
	return string(fields[0]), group
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
