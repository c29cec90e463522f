//go:build linux

package nodes

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func put(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, file string) string {
	t.Helper()
	read, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(read)
}

func TestValidate_LimitsNodeNames(t *testing.T) {
	tests := map[string]struct {
		names []string
		fine  bool
	}{
		"three nodes: valid":         {[]string{"hub", "east", "west"}, true},
		"ten characters: valid":      {[]string{"abcdefghij"}, true},
		"digits and hyphens: valid":  {[]string{"a-1"}, true},
		"eleven characters: invalid": {[]string{"abcdefghijk"}, false},
		"one letter: valid":          {[]string{"a"}, true},
		"duplicate name: invalid":    {[]string{"hub", "hub"}, false},
		"empty name: invalid":        {[]string{""}, false},
		"no nodes: invalid":          {nil, false},
		"upper case: invalid":        {[]string{"Hub"}, false},
		"path: invalid":              {[]string{"../x"}, false},
		"hyphen at the end: invalid": {[]string{"a-"}, false},
		"too many nodes: invalid":    {strings.Split(strings.Repeat("a ", 60), " "), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := Options{Names: test.names}.validate()
			if (err == nil) != test.fine {
				t.Errorf("got %v", err)
			}
		})
	}
	err := Options{Names: []string{"hub"}, Archives: []string{"/no/such/image.tar"}}.validate()
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing archive: got %v", err)
	}
}

func TestDeviceNames_FitTheKernelLimit(t *testing.T) {
	p := &place{number: places - 1}
	for _, device := range []string{p.bridge(), p.cable("abcdefghij")} {
		if len(device) > 15 {
			t.Errorf("device name %s is too long", device)
		}
	}
	if got := []string{p.gateway(), p.address(firstNode), p.cgroup("hub")}; !cmp.Equal(got, []string{"10.99.99.1", "10.99.99.2", "/fleet-lab99-hub"}) {
		t.Errorf("got %v", got)
	}
}

func TestHiddenDirectories_AreRejected(t *testing.T) {
	tests := map[string]struct {
		lab  *Lab
		fine bool
	}{
		"usual directories: accepted":         {&Lab{dir: "/tmp/lab", LogDir: "/tmp/logs", programs: "/root/.cache/kube", pause: "/tmp/lab/pause.tar"}, true},
		"programs in /var/lib: rejected":      {&Lab{dir: "/tmp/lab", programs: "/var/lib/ci/.cache/kube"}, false},
		"data in /run: rejected":              {&Lab{dir: "/run/user/0/lab"}, false},
		"logs in /var/log: rejected":          {&Lab{LogDir: "/var/log/lab"}, false},
		"image in /var/lib: rejected":         {&Lab{options: Options{Archives: []string{"/var/lib/x.tar"}}}, false},
		"similar name /var/library: accepted": {&Lab{dir: "/var/library/lab"}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := test.lab.reachable(); (err == nil) != test.fine {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestReserve_GivesEachLabItsOwnNumber uses a lock directory of its own, so that it does not collide with real
// labs.
func TestReserve_GivesEachLabItsOwnNumber(t *testing.T) {
	locks := t.TempDir()
	first, err := reserve(locks, "/data/first")
	if err != nil {
		t.Fatal(err)
	}
	second, err := reserve(locks, "/data/second")
	if err != nil {
		t.Fatal(err)
	}
	if first.number == second.number {
		t.Errorf("both labs got number %d", first.number)
	}
	if got := content(t, lockFile(locks, second.number)); got != "/data/second" {
		t.Errorf("the lock file contains %q", got)
	}
	if _, err := take(locks, first.number); !errors.Is(err, errTaken) {
		t.Errorf("taking a number in use: got %v", err)
	}
	first.release()
	if exists(lockFile(locks, first.number)) {
		t.Error("the lock file still exists")
	}
	third, err := reserve(locks, "/data/third")
	if err != nil {
		t.Fatal(err)
	}
	if third.number != first.number {
		t.Errorf("number %d is free, but the next lab got %d", first.number, third.number)
	}
	// A second sweep of the first lab must not touch the number, which now belongs to the third lab.
	if err := first.sweep(); err != nil || !exists(lockFile(locks, third.number)) {
		t.Errorf("the third lab lost its number: %v", err)
	}
}

func TestReserveAfterKilledLab_RemovesItsLeftovers(t *testing.T) {
	locks, left := t.TempDir(), filepath.Join(t.TempDir(), "left")
	put(t, filepath.Join(left, "etcd", "db"), "data")
	probe, err := reserve(locks, "")
	if err != nil {
		t.Fatal(err)
	}
	number := probe.number
	probe.release()
	put(t, lockFile(locks, number), left) // no process holds this lock
	next, err := reserve(locks, "/data/next")
	if err != nil {
		t.Fatal(err)
	}
	if next.number != number || exists(left) {
		t.Errorf("got number %d, want %d; the old directory exists: %t", next.number, number, exists(left))
	}
	if got := content(t, lockFile(locks, number)); got != "/data/next" {
		t.Errorf("the lock file contains %q", got)
	}
}

func TestCgroupsV1_InheritTheCpuset(t *testing.T) {
	mount := t.TempDir()
	put(t, filepath.Join(mount, "cpuset", "cpuset.cpus"), "0-1")
	put(t, filepath.Join(mount, "cpuset", "cpuset.mems"), "0")
	put(t, filepath.Join(mount, "memory", "tasks"), "")
	// The kernel creates these files with the directory.
	put(t, filepath.Join(mount, "cpuset", "lab-a", "cpuset.cpus"), "")
	put(t, filepath.Join(mount, "cpuset", "lab-a", "cpuset.mems"), "")
	if err := os.Symlink("memory", filepath.Join(mount, "alias")); err != nil {
		t.Fatal(err)
	}
	if err := createCgroups(mount, "/lab-a"); err != nil {
		t.Fatal(err)
	}
	got := []string{content(t, filepath.Join(mount, "cpuset", "lab-a", "cpuset.cpus")), content(t, filepath.Join(mount, "cpuset", "lab-a", "cpuset.mems"))}
	if !cmp.Equal(got, []string{"0-1", "0"}) {
		t.Errorf("got cpuset %q", got)
	}
	if !exists(filepath.Join(mount, "memory", "lab-a")) {
		t.Error("no cgroup in hierarchy memory")
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // the kernel removes these files with the directory
		if err := os.Remove(filepath.Join(mount, "cpuset", "lab-a", file)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(mount, "memory", "lab-b", "keep"), "")
	if err := os.MkdirAll(filepath.Join(mount, "memory", "lab-a", "kubepods", "pod1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := removeCgroups(mount, "/lab-a"); err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(mount, "memory", "lab-a")) || exists(filepath.Join(mount, "cpuset", "lab-a")) || !exists(filepath.Join(mount, "memory", "lab-b")) {
		t.Error("want lab-a removed and lab-b kept")
	}
}

func TestCgroupsV2MissingController_ReturnsErrMissing(t *testing.T) {
	mount := t.TempDir()
	put(t, filepath.Join(mount, fileControllers), "cpuset cpu memory pids\n")
	put(t, filepath.Join(mount, fileSubtree), "")
	err := createCgroups(mount, "/lab-a")
	// A plain file keeps only the last write, so the other controllers look as if they were not delegated.
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "cannot be delegated") {
		t.Errorf("got %v", err)
	}
	if got := hierarchies(mount); !cmp.Equal(got, []string{mount}) {
		t.Errorf("hierarchies %v", got)
	}
}

func TestNoCgroups_ReturnsErrMissing(t *testing.T) {
	if err := createCgroups(filepath.Join(t.TempDir(), "none"), "/lab-a"); !errors.Is(err, ErrMissing) {
		t.Errorf("got %v", err)
	}
}

func TestMissingPackages_AreNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	missing := missingPackages()
	want := []string{"containerd", "runc", "iptables", "iproute2", "util-linux"}
	if findPlugins() == "" {
		want = append(want, pluginPack)
	}
	if diff := cmp.Diff(want, missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	err := install(t.Context(), missing, t.Logf)
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "containerd runc iptables") {
		t.Errorf("got %v", err)
	}
}

func TestGet_UpdatesThePackageListsOnlyIfNeeded(t *testing.T) {
	const tells = "#!/bin/sh\necho $1 >>$0.said\n"
	tests := map[string]struct {
		script, asked, says string
	}{
		"package lists are current: no update":                    {tells, "install ", ""},
		"package lists are stale: update and retry":               {tells + "[ $1 = update ] && touch $0.new; [ -e $0.new ]\n", "install update install ", ""},
		"update fails: error contains apt-get's output":           {tells + "echo no route; exit 100\n", "install update ", "apt-get update failed: exit status 100\nno route\n"},
		"package does not exist: error contains apt-get's output": {tells + "echo unknown; [ $1 = update ]\n", "install update install ", "apt-get install failed: exit status 1\nunknown\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			apt := filepath.Join(t.TempDir(), "apt-get")
			if err := os.WriteFile(apt, []byte(test.script), 0o700); err != nil {
				t.Fatal(err)
			}
			says := ""
			if err := get(t.Context(), apt, []string{"containerd"}); err != nil {
				says = err.Error()
			}
			asked, err := os.ReadFile(apt + ".said")
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.ReplaceAll(string(asked), "\n", " "); got != test.asked || says != test.says {
				t.Errorf("ran apt-get with %q, got error %q", got, says)
			}
		})
	}
}

func TestRole_RunsTheRoleOfItsName(t *testing.T) {
	tests := map[string]struct {
		args   []string
		played bool
		says   string
	}{
		"own name: no role":               {[]string{"/usr/bin/lab", "up"}, false, ""},
		"node without a file: error":      {[]string{"/data/" + roleNode}, true, roleNode + ": want one argument, the file of the node's spec: start it with dev/lab\n"},
		"node with a missing file: error": {[]string{roleNode, "/no/such/node.json"}, true, roleNode + ": reading the node's spec"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			code, played := Role(test.args, &out)
			if played != test.played || (code != 0) != played || !strings.HasPrefix(out.String(), test.says) {
				t.Errorf("played %t, code %d, said %q", played, code, out.String())
			}
		})
	}
}

func TestTracesOfEndedLab_AreEmpty(t *testing.T) {
	mark := Mark{Number: places + 1, Dir: "/no/such/lab"}
	traces, err := mark.Traces()
	if err != nil || len(traces) != 0 {
		t.Errorf("%v, %v", traces, err)
	}
	dir := t.TempDir()
	if traces, err = (Mark{Number: places + 1, Dir: dir}).Traces(); err != nil || !cmp.Equal(traces, []string{dir}) {
		t.Errorf("%v, %v", traces, err)
	}
}

func TestFailedCommand_ReturnsItsOutput(t *testing.T) {
	err := command("sh", "-c", "echo no such device >&2; exit 2")
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 2: no such device") {
		t.Errorf("got %v", err)
	}
}

func TestNodeThatIsOff_RejectsActions(t *testing.T) {
	n := &Node{Name: "east"}
	for name, do := range map[string]func() error{
		"import": func() error { return n.Import("x.tar") }, "cut": func() error { return n.Cut(n) }, "heal": func() error { return n.Heal(n) },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "east is off") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n.Up() {
		t.Error("want the node to be off")
	}
	if err := n.Off(); err != nil {
		t.Errorf("turning off a node that is off: %v", err)
	}
}
