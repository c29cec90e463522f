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

func TestNames(t *testing.T) {
	tests := map[string]struct {
		names []string
		fine  bool
	}{
		"three nodes":                 {[]string{"hub", "east", "west"}, true},
		"the longest name":            {[]string{"abcdefghij"}, true},
		"digits and hyphens":          {[]string{"a-1"}, true},
		"too long for a device":       {[]string{"abcdefghijk"}, false},
		"one letter":                  {[]string{"a"}, true},
		"a name twice":                {[]string{"hub", "hub"}, false},
		"no name":                     {[]string{""}, false},
		"no nodes":                    {nil, false},
		"upper case":                  {[]string{"Hub"}, false},
		"a path":                      {[]string{"../x"}, false},
		"a hyphen at the end":         {[]string{"a-"}, false},
		"more than there is room for": {strings.Split(strings.Repeat("a ", 60), " "), false},
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
		t.Errorf("an archive that is not there: %v", err)
	}
}

func TestDevicesHaveNamesThatFit(t *testing.T) {
	p := &place{number: places - 1}
	for _, device := range []string{p.bridge(), p.cable("abcdefghij")} {
		if len(device) > 15 {
			t.Errorf("%s is longer than a device's name can be", device)
		}
	}
	if got := []string{p.gateway(), p.address(firstNode), p.cgroup("hub")}; !cmp.Equal(got, []string{"10.99.99.1", "10.99.99.2", "/fleet-lab99-hub"}) {
		t.Errorf("got %v", got)
	}
}

func TestFoldersThatNodesDoNotSeeAreRefused(t *testing.T) {
	tests := map[string]struct {
		lab  *Lab
		fine bool
	}{
		"the usual":            {&Lab{dir: "/tmp/lab", LogDir: "/tmp/logs", programs: "/root/.cache/kube", pause: "/tmp/lab/pause.tar"}, true},
		"a home in /var/lib":   {&Lab{dir: "/tmp/lab", programs: "/var/lib/ci/.cache/kube"}, false},
		"data in /run":         {&Lab{dir: "/run/user/0/lab"}, false},
		"logs in /var/log":     {&Lab{LogDir: "/var/log/lab"}, false},
		"an image in /var/lib": {&Lab{options: Options{Archives: []string{"/var/lib/x.tar"}}}, false},
		"a name alike":         {&Lab{dir: "/var/library/lab"}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := test.lab.reachable(); (err == nil) != test.fine {
				t.Errorf("got %v", err)
			}
		})
	}
}

// numbers far from those of real labs, so that nothing of these is in the way of a test.
func TestEachLabHasANumberOfItsOwn(t *testing.T) {
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
		t.Errorf("both have number %d", first.number)
	}
	if got := content(t, lockFile(locks, second.number)); got != "/data/second" {
		t.Errorf("the lock says %q", got)
	}
	if _, err := take(locks, first.number); !errors.Is(err, errTaken) {
		t.Errorf("taking a number that is taken: %v", err)
	}
	first.release()
	if exists(lockFile(locks, first.number)) {
		t.Error("the lock is still there")
	}
	third, err := reserve(locks, "/data/third")
	if err != nil {
		t.Fatal(err)
	}
	if third.number != first.number {
		t.Errorf("number %d is free, and the next lab has %d", first.number, third.number)
	}
	// The first is asked to clean up again, and must not touch what is the third's now.
	if err := first.sweep(); err != nil || !exists(lockFile(locks, third.number)) {
		t.Errorf("the third has lost its number: %v", err)
	}
}

func TestTheNextLabCleansUpAfterAKilledOne(t *testing.T) {
	locks, left := t.TempDir(), filepath.Join(t.TempDir(), "left")
	put(t, filepath.Join(left, "etcd", "db"), "data")
	probe, err := reserve(locks, "")
	if err != nil {
		t.Fatal(err)
	}
	number := probe.number
	probe.release()
	put(t, lockFile(locks, number), left) // nobody holds it
	next, err := reserve(locks, "/data/next")
	if err != nil {
		t.Fatal(err)
	}
	if next.number != number || exists(left) {
		t.Errorf("number %d instead of %d; the folder is there: %t", next.number, number, exists(left))
	}
	if got := content(t, lockFile(locks, number)); got != "/data/next" {
		t.Errorf("the lock says %q", got)
	}
}

func TestCgroupsOfVersion1(t *testing.T) {
	mount := t.TempDir()
	put(t, filepath.Join(mount, "cpuset", "cpuset.cpus"), "0-1")
	put(t, filepath.Join(mount, "cpuset", "cpuset.mems"), "0")
	put(t, filepath.Join(mount, "memory", "tasks"), "")
	// The kernel makes these with the folder.
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
		t.Errorf("the cpuset is %q", got)
	}
	if !exists(filepath.Join(mount, "memory", "lab-a")) {
		t.Error("no cgroup in hierarchy memory")
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // which the kernel removes with the folder
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
		t.Error("lab-a has to go, lab-b to stay")
	}
}

func TestCgroupsOfVersion2(t *testing.T) {
	mount := t.TempDir()
	put(t, filepath.Join(mount, fileControllers), "cpuset cpu memory pids\n")
	put(t, filepath.Join(mount, fileSubtree), "")
	err := createCgroups(mount, "/lab-a")
	// In a plain file the last write is all there is.
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "cannot be delegated") {
		t.Errorf("got %v", err)
	}
	if got := hierarchies(mount); !cmp.Equal(got, []string{mount}) {
		t.Errorf("hierarchies %v", got)
	}
}

func TestNoCgroups(t *testing.T) {
	if err := createCgroups(filepath.Join(t.TempDir(), "none"), "/lab-a"); !errors.Is(err, ErrMissing) {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
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

func TestPackagesAreInstalledWithWhatIsKnownOrNew(t *testing.T) {
	const tells = "#!/bin/sh\necho $1 >>$0.said\n"
	tests := map[string]struct {
		script, asked, says string
	}{
		"what is known does":              {tells, "install ", ""},
		"what is known is too old":        {tells + "[ $1 = update ] && touch $0.new; [ -e $0.new ]\n", "install update install ", ""},
		"nothing new can be had":          {tells + "echo no route; exit 100\n", "install update ", "apt-get update failed: exit status 100\nno route\n"},
		"there is no such package at all": {tells + "echo unknown; [ $1 = update ]\n", "install update install ", "apt-get install failed: exit status 1\nunknown\n"},
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
				t.Errorf("asked for %q, which says %q", got, says)
			}
		})
	}
}

func TestRole(t *testing.T) {
	tests := map[string]struct {
		args   []string
		played bool
		says   string
	}{
		"itself":                 {[]string{"/usr/bin/lab", "up"}, false, ""},
		"a node without a file":  {[]string{"/data/" + roleNode}, true, roleNode + ": it is started by dev/lab, with a file\n"},
		"a node of no such file": {[]string{roleNode, "/no/such/node.json"}, true, roleNode + ": reading what the node is"},
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

func TestALabThatIsNotThereHasNoTraces(t *testing.T) {
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

func TestACommandThatFailsSaysWhatItSaid(t *testing.T) {
	err := command("sh", "-c", "echo no such device >&2; exit 2")
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 2: no such device") {
		t.Errorf("got %v", err)
	}
}

func TestAnOffNodeCannotBeUsed(t *testing.T) {
	n := &Node{Name: "east"}
	for name, do := range map[string]func() error{
		"import": func() error { return n.Import("x.tar") }, "cut": func() error { return n.Cut(n) }, "heal": func() error { return n.Heal(n) },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "east is off") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n.Up() {
		t.Error("it is off")
	}
	if err := n.Off(); err != nil {
		t.Errorf("turning off what is off: %v", err)
	}
}
