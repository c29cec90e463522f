package machine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// endTimeout limits the time until a killed process has ended.
	endTimeout = 20 * time.Second
	// maxRounds limits the rounds against processes that start others.
	maxRounds = 100
)

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
	return untilNone(func(h *hunt) error {
		return h.kill(self, func(pid int) bool { return groupOf(pid) == self || f.owns(pid) })
	}, string(f))
}

// EndAll kills all processes whose environment has a MACHINE_ROOT below a folder. It ends what is left of machines that
// have removed their own folder.
func EndAll(folder string) error {
	return untilNone(func(h *hunt) error {
		return h.kill(os.Getpid(), func(pid int) bool {
			return hasRoot(pid, func(root string) bool { return strings.HasPrefix(root, folder+"/") })
		})
	}, folder)
}

// killAll kills the processes of the machine. It stops the machine's process first and kills it last, so that it starts
// no service meanwhile.
func (f Folder) killAll(h *hunt) error {
	leader := f.Process()
	leads := func(int) bool { return leader != 0 && f.Process() == leader }
	if leader != 0 {
		h.send(leader, unix.SIGSTOP, leads)
	}
	err := h.kill(leader, func(pid int) bool { return leader != 0 && groupOf(pid) == leader && leads(pid) || f.owns(pid) })
	if err == nil && len(h.killed) == 0 && leader != 0 {
		h.send(leader, unix.SIGKILL, leads)
	}
	return err
}

func (f Folder) owns(pid int) bool {
	return hasRoot(pid, func(root string) bool { return root == f.Root() })
}

// hunt is one round of a search for processes.
type hunt struct {
	killed []int // pidfds of processes that got SIGKILL
}

// untilNone repeats a round until it kills no process. Each round ends when the killed processes have ended.
func untilNone(round func(*hunt) error, folder string) error {
	for range maxRounds {
		h := &hunt{}
		err := errors.Join(round(h), h.wait())
		if err != nil {
			return fmt.Errorf("ending processes of machines in %s: %w", folder, err)
		}
		if len(h.killed) == 0 {
			return nil
		}
	}
	return fmt.Errorf("processes of machines in %s still start others after %d rounds of SIGKILL", folder, maxRounds)
}

// kill sends SIGKILL to each process that isOurs accepts, except one.
func (h *hunt) kill(except int, isOurs func(pid int) bool) error {
	pids, err := processIDs()
	for _, pid := range pids {
		if pid != except {
			h.send(pid, unix.SIGKILL, isOurs)
		}
	}
	return err
}

// send sends a signal to a process if isOurs accepts it.
func (h *hunt) send(pid int, signal unix.Signal, isOurs func(pid int) bool) {
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended
	}
	// The handle is open before isOurs looks at the process, so the ID cannot have changed its meaning.
	if !hasEnded(pid) && isOurs(pid) && unix.PidfdSendSignal(handle, signal, nil, 0) == nil && signal == unix.SIGKILL {
		h.killed = append(h.killed, handle)
		return
	}
	_ = unix.Close(handle) // nothing was written to it
}

// wait returns when the killed processes have ended with all their threads, so that their ports are free.
func (h *hunt) wait() error {
	var left int
	for _, handle := range h.killed {
		poll := []unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}
		ready, err := unix.Poll(poll, int(endTimeout.Milliseconds()))
		for errors.Is(err, unix.EINTR) {
			ready, err = unix.Poll(poll, int(endTimeout.Milliseconds()))
		}
		if err != nil || ready == 0 {
			left++
		}
		_ = unix.Close(handle) // nothing was written to it
	}
	if left > 0 {
		return fmt.Errorf("%d processes did not end within %s after SIGKILL", left, endTimeout)
	}
	return nil
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
