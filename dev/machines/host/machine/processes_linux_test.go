package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseStat_CountsFromTheLastBracket(t *testing.T) {
	tests := map[string]struct {
		content, state string
		group          int
	}{
		"usual":                  {"12 (etcd) S 1 34 34 0", "S", 34},
		"name has brackets":      {"12 (a) R 1 99) Z 1 34 34", "Z", 34},
		"name has line breaks":   {"12 (a\n) S 1 34 34", "S", 34},
		"process does not exist": {"", "", 0},
		"too short":              {"12 (a) S 1", "", 0},
		"group is not a number":  {"12 (a) S 1 x 34", "", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if state, group := parseStat([]byte(test.content)); state != test.state || group != test.group {
				t.Errorf("state %q, group %d", state, group)
			}
		})
	}
	if state, group := statOf(os.Getpid()); state == "" || group != syscall.Getpgrp() {
		t.Errorf("this process: state %q, group %d", state, group)
	}
}

// TestSend_ReachesOnlyOwnProcesses also sends a signal to an ID after its process has ended, as if the ID were reused.
func TestSend_ReachesOnlyOwnProcesses(t *testing.T) {
	root := Folder(t.TempDir()).Root()
	child := exec.Command("sleep", "600")
	child.Env = []string{mark + root}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	kill := func(isOurs func(int) bool) (found int) {
		t.Helper()
		h := &hunt{}
		h.send(pid, unix.SIGKILL, isOurs)
		if err := h.wait(); err != nil {
			t.Error(err)
		}
		return len(h.killed)
	}
	if kill(Folder(t.TempDir()).owns) != 0 {
		t.Error("a process of another machine was killed")
	}
	if kill(Folder(filepath.Dir(root)).owns) != 1 {
		t.Error("the process was not killed")
	}
	if err := child.Wait(); err == nil {
		t.Error("want the process to be killed")
	}
	if kill(func(int) bool { return true }) != 0 {
		t.Error("a process that has ended was killed")
	}
}

func TestProcess_IsKnownByTheLock(t *testing.T) {
	folder := Folder(t.TempDir())
	if pid := folder.Process(); pid != 0 {
		t.Errorf("without a lock: process %d", pid)
	}
	if err := os.WriteFile(folder.lock(), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if pid := folder.Process(); pid != 0 {
		t.Errorf("with a file that is not locked: process %d", pid)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (etcd) S 1 34 34 0"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if state, group := parseStat(content); state == "" && group != 0 {
			t.Errorf("state %q, group %d", state, group)
		}
	})
}
