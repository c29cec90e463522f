package programs_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/host/machine"
	"github.com/fleet-hub/fleet/e2e/framework/await"
)

func TestFailedBootstrap_ReportsTheCauseAndEndsAllProcesses(t *testing.T) {
	f := start(t)
	tests := map[string]struct {
		text string
		want host.Status
	}{
		"command fails": {
			data + "- [count, ran]\n- [service, web, listen]\n- [fail, disk is full]\n- [count, ran]\n",
			host.Status{Command: 3, Line: 5, Cause: "command 3 (line 5) failed: exit status 3", Output: "disk is full\n"},
		},
		"program does not exist": {
			data + "- [no-such-program, --token=secret]\n",
			host.Status{Command: 1, Line: 3, Cause: "command 1 (line 3) failed: the program of the command was not found: executable file not found in $PATH"},
		},
		"data is invalid": {
			"#cloud-config\nusers: []\n",
			host.Status{Line: 2, Cause: `the bootstrap data is invalid: line 2: unknown field "users"; known are runcmd, write_files`},
		},
		"data is empty": {"", host.Status{Line: 1, Cause: "the bootstrap data is invalid: line 1: the first line must be #cloud-config"}},
		"file is a folder of another file": {
			"#cloud-config\nwrite_files:\n- path: a/b\n- path: a\n",
			host.Status{Line: 4, Cause: "writing the file a (line 4) failed: it is already written, or is a folder"},
		},
		"success file is missing": {
			data + "- [count, ran]\n",
			host.Status{Command: 1, Cause: "all commands of the bootstrap data succeeded, but the file run/cluster-api/bootstrap-success.complete does not exist; its last command has to write it"},
		},
		"success file is a link out of the folder": {
			data + "- mkdir -p run/cluster-api && ln -s /etc/passwd run/cluster-api/bootstrap-success.complete\n",
			host.Status{Command: 1, Cause: "all commands of the bootstrap data succeeded, but the file run/cluster-api/bootstrap-success.complete does not exist; its last command has to write it"},
		},
		"service's program does not exist": {
			data + "- [service, web, no-such-program]\n",
			host.Status{Command: 1, Line: 3, Cause: "command 1 (line 3) failed: exit status 1", Output: "service: service web: exec: \"no-such-program\": executable file not found in $PATH\n"},
		},
		"service has another definition": {
			data + "- [service, web, listen]\n- [service, web, listen]\n- [service, web, stubborn]\n",
			host.Status{Command: 3, Line: 5, Cause: "command 3 (line 5) failed: exit status 1", Output: "service: service web: a service of this name has another definition\n"},
		},
		"service's name is a path": {
			data + "- [service, ../web, listen]\n",
			host.Status{Command: 1, Line: 3, Cause: "command 1 (line 3) failed: exit status 1",
				Output: "service: \"../web\" cannot be the name of a service: use up to 63 lower case letters, digits and hyphens, but not bootstrap or machine\n"},
		},
		"URL does not answer in time": {
			data + "- await -timeout 1ms http://127.0.0.1:$MACHINE_PORT/\n",
			host.Status{Command: 1, Line: 3, Cause: "command 1 (line 3) failed: exit status 1"},
		},
	}
	number := 0
	for name, test := range tests {
		number++
		id := fmt.Sprintf("m-%d", number)
		t.Run(name, func(t *testing.T) {
			f.create(t, id, test.text)
			got := f.becomes(t, id, host.Failed)
			if !strings.Contains(name, "in time") || !strings.Contains(got.Output, "did not answer with status 200 within 1ms") {
				if diff := cmp.Diff(test.want.Output, got.Output); diff != "" {
					t.Errorf("output (-want +got):\n%s", diff)
				}
			}
			got.ID, got.Address, got.Port, got.State, got.Output, test.want.Output = "", "", 0, "", "", ""
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			f.hasNoProcess(t, id)
			if err := f.DeleteMachine(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
}

func (f fixture) hasNoProcess(t *testing.T, id string) {
	t.Helper()
	await.Until(t, "waiting until machine "+id+" has no process", time.Minute, func(context.Context) error {
		if left := processesWith(f.root(id)); len(left) > 0 {
			return fmt.Errorf("processes %v exist", left)
		}
		return nil
	})
}

func TestFilesAndEnvironment_BelongToTheMachine(t *testing.T) {
	f := start(t)
	text := "#cloud-config\nwrite_files:\n- {path: /etc/secret, permissions: \"0400\", content: s}\n- {path: etc/run, permissions: \"0755\"}\nruncmd:\n" +
		"- [environment]\n- ls -l etc | cut -c1-10\n- [succeed]\n"
	if _, err := f.CreateMachine(t.Context(), "one", host.Machine{BootstrapData: []byte(text), ExtraPorts: 2}); err != nil {
		t.Fatal(err)
	}
	status := f.becomes(t, "one", host.Running)
	log, err := f.Log(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	root := f.root("one")
	for _, want := range []string{
		"==> bootstrap <==\nworking directory " + root + "\n", "\nMACHINE_ROOT=" + root + "\n", "\nMACHINE_ID=one\n", "\nMACHINE_ADDRESS=127.0.0.1\n",
		fmt.Sprintf("\nMACHINE_PORT=%d\n", status.Port), fmt.Sprintf("\nMACHINE_PORT_2=%d\n", status.ExtraPorts[1]), "\nHOME=" + root + "\n", "-rwxr-xr-x\n", "-r--------\n",
	} {
		if !strings.Contains(string(log), want) {
			t.Errorf("want %q in\n%s", want, log)
		}
	}
	if strings.Contains(string(log), "GOCACHE") || strings.Contains(string(log), "TMPDIR=/tmp\n") {
		t.Errorf("want that the machine inherits no variable:\n%s", log)
	}
}

func TestService_RestartsWhenItEnds(t *testing.T) {
	f := start(t)
	f.create(t, "one", runs+"- [service, flaky, fail, no]\n")
	status := f.becomes(t, "one", host.Running)
	f.serves(t, status.Port)
	var first int
	f.until(t, "one", "running its service", func(s host.Status) bool {
		if len(s.Services) == 2 {
			first = s.Services[1].PID
		}
		return first != 0
	})
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.until(t, "one", "running its service again", func(s host.Status) bool {
		web := s.Services[1]
		return web.PID != 0 && web.PID != first && web.Restarts == 1 && web.LastEnd == "signal: killed"
	})
	f.serves(t, status.Port)
	f.until(t, "one", "restarting the flaky service", func(s host.Status) bool {
		return s.Services[0].Name == "flaky" && s.Services[0].Restarts > 1 && s.Services[0].LastEnd == "exit status 3"
	})
}

// TestServiceDefinedByAFile_StartsAfterTheCommands also covers definitions that must not start anything.
func TestServiceDefinedByAFile_StartsAfterTheCommands(t *testing.T) {
	f := start(t)
	f.create(t, "one", `#cloud-config
write_files:
- {path: etc/services/web.json, content: '{"command": ["listen"]}'}
- {path: etc/services/Upper.json, content: '{"command": ["listen"]}'}
- {path: etc/services/empty.json, content: '{}'}
- {path: etc/services/more.json, content: '{"command": ["listen"], "user": "root"}'}
- {path: etc/services/readme.txt, content: 'x'}
runcmd:
- ln -s /etc/passwd etc/services/link.json
- [succeed]
`)
	status := f.becomes(t, "one", host.Running)
	f.serves(t, status.Port)
	if status, err := f.Machine(t.Context(), "one"); err != nil || len(status.Services) != 1 {
		t.Errorf("services %+v, %v", status.Services, err)
	}
	log, err := os.ReadFile(machine.Folder(filepath.Dir(f.root("one"))).Log())
	for _, want := range []string{"Upper", "empty", "more", "link"} {
		if !strings.Contains(string(log), `service "`+want+`": `) {
			t.Errorf("want a message about %s in %q, %v", want, log, err)
		}
	}
}

// TestHostKilledAtEachStage_ContinuesTruthfully kills the host, changes what else may have happened, and starts the
// host again.
func TestHostKilledAtEachStage_ContinuesTruthfully(t *testing.T) {
	const waits = data + "- [count, boots]\n- [wait-for, go]\n- [service, web, listen]\n- [succeed]\n"
	tests := map[string]struct {
		before    host.State
		meanwhile func(t *testing.T, f fixture)
		want      host.State
		cause     string
		boots     int
	}{
		"while bootstrapping: the machine continues": {
			before: host.Bootstrapping, meanwhile: letGo, want: host.Running, boots: 1,
		},
		"while bootstrapping, and the machine's process is killed: it failed": {
			before: host.Bootstrapping, meanwhile: killMachine, want: host.Failed, cause: "the machine ended while command 2 (line 4) ran", boots: 1,
		},
		"while running, and the machine's process is killed: it starts again": {
			before: host.Running, meanwhile: killMachine, want: host.Running, boots: 1,
		},
		"while running, and all processes are killed: it starts again": {
			before: host.Running, meanwhile: func(t *testing.T, f fixture) {
				if err := machine.EndProcesses(machine.Folder(filepath.Dir(f.root("one")))); err != nil {
					t.Fatal(err)
				}
			}, want: host.Running, boots: 1,
		},
		"before the machine started: it starts": {
			before: host.Running, meanwhile: func(t *testing.T, f fixture) {
				killMachine(t, f)
				forget(t, f)
			}, want: host.Running, boots: 2,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			f.create(t, "one", waits)
			f.until(t, "one", "waiting", func(s host.Status) bool { return s.Command == 2 })
			if test.before == host.Running {
				letGo(t, f)
			}
			before := f.becomes(t, "one", test.before)
			if err := f.Kill(); err != nil {
				t.Fatal(err)
			}
			test.meanwhile(t, f)
			if err := f.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			after := f.becomes(t, "one", test.want)
			if after.Port != before.Port || after.Cause != test.cause {
				t.Errorf("before %+v, after %+v", before, after)
			}
			if boots := f.lines(t, "one", "boots"); len(boots) != test.boots {
				t.Errorf("the first command ran %d times", len(boots))
			}
			if test.want == host.Running {
				f.serves(t, after.Port)
			}
			if err := f.DeleteMachine(t.Context(), "one"); err != nil {
				t.Fatal(err)
			}
			f.hasNoProcess(t, "one")
		})
	}
}

// letGo lets the waiting command succeed.
func letGo(t *testing.T, f fixture) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.root("one"), "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// killMachine kills only the machine's own process.
func killMachine(t *testing.T, f fixture) {
	t.Helper()
	folder := machine.Folder(filepath.Dir(f.root("one")))
	pid := folder.Process()
	if pid == 0 {
		t.Fatal("the machine's process does not run")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "waiting until the machine's process has ended", time.Minute, func(context.Context) error {
		if folder.Process() != 0 {
			return errors.New("it exists")
		}
		return nil
	})
}

// forget removes the machine's record and the files of its commands, as if it had never started.
func forget(t *testing.T, f fixture) {
	t.Helper()
	err := errors.Join(os.Remove(filepath.Join(filepath.Dir(f.root("one")), "state.json")), os.RemoveAll(filepath.Join(f.root("one"), "etc")))
	if err != nil {
		t.Fatal(err)
	}
}

func TestUnfinishedChangesOfAKilledHost_AreCompleted(t *testing.T) {
	f := start(t)
	f.create(t, "one", runs)
	f.create(t, "two", runs)
	f.becomes(t, "one", host.Running)
	f.becomes(t, "two", host.Running)
	if err := f.Kill(); err != nil {
		t.Fatal(err)
	}
	machines := filepath.Join(f.dir, "machines")
	err := errors.Join(
		os.WriteFile(filepath.Join(f.dir, "deleted", "one"), nil, 0o600),  // killed while it deleted one
		os.WriteFile(filepath.Join(f.dir, "deleted", "five"), nil, 0o600), // killed after it had moved five away
		os.Mkdir(filepath.Join(machines, ".new-three"), 0o700),            // killed while it created three
		os.Mkdir(filepath.Join(machines, ".removing-four"), 0o700),        // killed while it removed four
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "waiting for the deletion", time.Minute, func(ctx context.Context) error {
		all, err := f.Machines(ctx)
		if err == nil && (len(all) != 1 || all[0].ID != "two") {
			err = fmt.Errorf("machines %+v", all)
		}
		return err
	})
	f.hasNoProcess(t, "one")
	await.Until(t, "waiting for the removal of folders", time.Minute, func(context.Context) error {
		entries, err := os.ReadDir(machines)
		if err == nil && len(entries) != 1 {
			err = fmt.Errorf("folders %v", entries)
		}
		if marks, _ := os.ReadDir(filepath.Join(f.dir, "deleted")); err == nil && len(marks) != 0 {
			err = fmt.Errorf("marks %v", marks)
		}
		return err
	})
}

func TestEndpoint_IsHeldOverRestarts(t *testing.T) {
	f := start(t)
	hostName, port, err := f.ReserveEndpoint(t.Context(), "east")
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("%s:%d", hostName, port)
	isHeld := func(when string) {
		t.Helper()
		if other, err := net.Listen("tcp", address); err == nil {
			_ = other.Close()
			t.Errorf("%s: want the port to be held", when)
		}
	}
	isHeld("reserved")
	status, err := f.CreateMachine(t.Context(), "one", host.Machine{Endpoint: "east", BootstrapData: []byte(runs)})
	if err != nil || status.Port != port {
		t.Fatalf("status %+v, %v", status, err)
	}
	f.becomes(t, "one", host.Running)
	f.serves(t, port)
	if err := f.Kill(); err != nil {
		t.Fatal(err)
	}
	isHeld("host killed: the machine holds it")
	if err := f.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.FreeEndpoint(t.Context(), "east"); !errors.Is(err, host.ErrConflict) {
		t.Errorf("freeing a used endpoint: %v", err)
	}
	if err := f.DeleteMachine(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	isHeld("machine deleted: the host holds it")
	all, err := f.Endpoints(t.Context())
	if diff := cmp.Diff([]host.Endpoint{{ID: "east", Host: hostName, Port: port}}, all); err != nil || diff != "" {
		t.Errorf("error %v, endpoints (-want +got):\n%s", err, diff)
	}
	if err := f.FreeEndpoint(t.Context(), "east"); err != nil {
		t.Error(err)
	}
	other, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("listening on the freed port: %v", err)
	}
	_ = other.Close()
}

// TestPortTakenWhileTheHostWasDown_IsReported takes the ports of an endpoint and of a machine that has ended.
func TestPortTakenWhileTheHostWasDown_IsReported(t *testing.T) {
	f := start(t)
	_, port, err := f.ReserveEndpoint(t.Context(), "east")
	if err != nil {
		t.Fatal(err)
	}
	f.create(t, "one", runs)
	status := f.becomes(t, "one", host.Running)
	if err := f.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := machine.EndProcesses(machine.Folder(filepath.Dir(f.root("one")))); err != nil {
		t.Fatal(err)
	}
	var taken []net.Listener
	for _, number := range []int{port, status.Port} {
		other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", number))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = other.Close() })
		taken = append(taken, other)
	}
	if err := f.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.ReserveEndpoint(t.Context(), "east"); !errors.Is(err, host.ErrPortInUse) || !strings.Contains(err.Error(), fmt.Sprint(port)) {
		t.Errorf("reserving the endpoint again: %v", err)
	}
	f.until(t, "one", "reporting the port", func(s host.Status) bool {
		return s.State == host.Stopped && s.Cause == fmt.Sprintf("port in use: another process uses port %d of 127.0.0.1, which is reserved; end that process", status.Port)
	})
	for _, other := range taken {
		_ = other.Close()
	}
	f.becomes(t, "one", host.Running)
	f.serves(t, status.Port)
	if _, again, err := f.ReserveEndpoint(t.Context(), "east"); err != nil || again != port {
		t.Errorf("reserving the endpoint again: port %d, %v", again, err)
	}
}

// TestEscapingProcesses_EndWithTheMachine starts processes in ways that hide them from a simple kill.
func TestEscapingProcesses_EndWithTheMachine(t *testing.T) {
	tests := map[string]string{
		"ignores signals":                      "- stubborn & echo $! > pid\n",
		"leaves the process group":             "- setsid stubborn & echo $! > pid\n",
		"clears its environment":               "- env -i \"$(command -v stubborn)\" & echo $! > pid\n",
		"is a service in a shell":              "- service shell sh -c 'stubborn & echo $! > pid; wait'\n- [wait-for, pid]\n",
		"removes the machine's folder":         "- stubborn & echo $! > pid; wait-for stubborn-runs; cp pid \"$HOME/../../../pid\"; rm -r \"$HOME/../\"*; wait\n",
		"makes its folder impossible to enter": "- stubborn & echo $! > pid; mkdir -p a/b && chmod 0 a/b a\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			f.create(t, "one", data+text+"- [succeed]\n- [stubborn]\n")
			var pid int
			await.Until(t, "waiting for the process", time.Minute, func(context.Context) error {
				for _, file := range []string{filepath.Join(f.root("one"), "pid"), filepath.Join(f.dir, "pid")} {
					content, err := os.ReadFile(file)
					if err == nil {
						_, err = fmt.Sscan(string(content), &pid)
					}
					if err == nil {
						return nil
					}
				}
				return errors.New("it does not exist")
			})
			if hasEnded(pid) == nil {
				t.Fatal("want the process to run before the machine is deleted")
			}
			if err := f.DeleteMachine(t.Context(), "one"); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "waiting until the process has ended", time.Minute, func(context.Context) error { return hasEnded(pid) })
			if _, err := os.Stat(filepath.Dir(f.root("one"))); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the folder exists: %v", err)
			}
		})
	}
}

// hasEnded returns an error if the process exists. A zombie has ended.
func hasEnded(pid int) error {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // it does not exist if the process does not
	if len(content) == 0 || strings.Contains(string(content), ") Z ") {
		return nil
	}
	return fmt.Errorf("process %d exists: %s", pid, content)
}

func TestConcurrentRequests_CreateAndDeleteOnce(t *testing.T) {
	f := start(t)
	var all sync.WaitGroup
	for client := range 4 {
		for i := range 10 {
			all.Go(func() {
				id := fmt.Sprintf("m-%d", i)
				if _, err := f.CreateMachine(t.Context(), id, host.Machine{BootstrapData: []byte(runs), ExtraPorts: 1}); err != nil {
					t.Errorf("client %d: %v", client, err)
				}
			})
		}
	}
	all.Wait()
	ports := map[int]bool{}
	for i := range 10 {
		id := fmt.Sprintf("m-%d", i)
		status := f.becomes(t, id, host.Running)
		ports[status.Port], ports[status.ExtraPorts[0]] = true, true
		if boots := f.lines(t, id, "boots"); len(boots) != 1 {
			t.Errorf("machine %s: the first command ran %d times", id, len(boots))
		}
	}
	if len(ports) != 20 {
		t.Errorf("%d different ports", len(ports))
	}
	for range 4 {
		for i := range 10 {
			all.Go(func() {
				if err := f.DeleteMachine(t.Context(), fmt.Sprintf("m-%d", i)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if left, err := f.Machines(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestSecondHostInTheSameFolder_IsRejected(t *testing.T) {
	f := start(t)
	second := exec.Command(f.Executable(), f.dir)
	said, err := second.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "another machine host uses "+f.dir) {
		t.Errorf("output %s, error %v", said, err)
	}
	if _, err := f.Machines(t.Context()); err != nil {
		t.Errorf("the first host: %v", err)
	}
}

// TestHostWithoutFlag_LeavesMachinesBehind ends a host as an administrator does who restarts a hypervisor's daemon.
func TestHostWithoutFlag_LeavesMachinesBehind(t *testing.T) {
	f := start(t)
	if err := f.Kill(); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(f.Executable(), "-path", filepath.Dir(f.Executable()), f.dir)
	daemon.Stderr = os.Stderr
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "waiting for the host", time.Minute, func(ctx context.Context) error {
		_, err := f.Machines(ctx)
		return err
	})
	f.create(t, "one", runs)
	status := f.becomes(t, "one", host.Running)
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Wait(); err != nil {
		t.Errorf("the host ended with %v", err)
	}
	f.serves(t, status.Port)
	// The cleanup of the fixture ends the machine.
}

// TestCallerEnds_NothingIsLeft kills a process that has started a host with a machine.
func TestCallerEnds_NothingIsLeft(t *testing.T) {
	for name, killsHost := range map[string]string{"host lives": "no", "host was killed before": "yes"} {
		t.Run(name, func(t *testing.T) {
			base := links(t)
			dir := filepath.Join(base, "host")
			caller := exec.Command(filepath.Join(base, "bin", callerName), base, killsHost)
			out, err := caller.StdoutPipe()
			if err == nil {
				err = caller.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil || line != "ready\n" {
				t.Fatalf("the caller said %q, %v", line, err)
			}
			if len(processesWith(dir)) < 2 {
				t.Errorf("want the machine's process and its service, found %v", processesWith(dir))
			}
			_ = caller.Process.Kill() // it waits for this
			_ = caller.Wait()
			await.Until(t, "waiting until nothing is left", time.Minute, func(context.Context) error {
				if left := processesWith(dir); len(left) > 0 {
					return fmt.Errorf("processes %v exist", left)
				}
				folders, err := filepath.Glob(filepath.Join(dir, "machines", "*"))
				if err == nil && len(folders) > 0 {
					err = fmt.Errorf("folders %v exist", folders)
				}
				return err
			})
			if _, err := os.Stat(dir); killsHost == "no" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the host's folder: %v", err)
			}
		})
	}
}

const callerName = "caller"

// beCaller starts a host with a machine and waits to be killed.
func beCaller(args []string) error {
	base := args[0]
	ctx := context.Background()
	child, err := host.Start(ctx, optionsIn(base))
	if err != nil {
		return err
	}
	defer func() { _ = child.Close() }() // this process is killed before; the reference keeps the pipe open
	if _, err := child.CreateMachine(ctx, "one", host.Machine{BootstrapData: []byte(runs)}); err != nil {
		return err
	}
	for {
		status, err := child.Machine(ctx, "one")
		if err != nil {
			return err
		}
		if len(status.Services) == 1 && status.Services[0].PID != 0 {
			break
		}
		<-time.After(5 * time.Millisecond)
	}
	if args[1] == "yes" {
		if err := child.Kill(); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintln(os.Stdout, "ready")
	return forever()
}
