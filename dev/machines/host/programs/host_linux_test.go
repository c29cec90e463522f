package programs_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/host/machine"
	"github.com/fleet-hub/fleet/dev/machines/host/programs"
	"github.com/fleet-hub/fleet/e2e/framework/await"
)

// The test binary is the machine host, its programs, and the programs of bootstrap data, selected by the name it is
// called by.
func TestMain(m *testing.M) {
	if code, found := programs.Run(os.Args); found {
		os.Exit(code)
	}
	if run, found := bootstrapPrograms()[filepath.Base(os.Args[0])]; found {
		if err := run(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// bootstrapPrograms are what the tests' bootstrap data runs instead of a shell.
func bootstrapPrograms() map[string]func(args []string) error {
	return map[string]func([]string) error{
		// succeed writes the success file, as the last command has to.
		"succeed": func([]string) error {
			if err := os.MkdirAll(filepath.Dir(machine.SuccessFile), 0o755); err != nil {
				return err
			}
			return os.WriteFile(machine.SuccessFile, nil, 0o644)
		},
		// count appends a line to a file, so that a test sees how often it ran.
		"count": func(args []string) error {
			file, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(file, os.Getpid())
			return errors.Join(err, file.Close())
		},
		"fail": func(args []string) error { return errors.New(strings.Join(args, " ")) },
		// wait-for waits until a file exists.
		"wait-for": func(args []string) error {
			for {
				if _, err := os.Stat(args[0]); err == nil {
					return nil
				}
				<-time.After(5 * time.Millisecond)
			}
		},
		// listen serves the machine's port until it is killed.
		"listen": func([]string) error { return listen() },
		"environment": func([]string) error {
			dir, err := os.Getwd()
			fmt.Fprintf(os.Stdout, "working directory %s\n%s\n", dir, strings.Join(os.Environ(), "\n"))
			return err
		},
		callerName: beCaller,
		// stubborn ignores what can be ignored. It writes the file stubborn-runs first, if it can.
		"stubborn": func([]string) error {
			signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, os.Interrupt)
			_ = os.WriteFile("stubborn-runs", nil, 0o600)
			return forever()
		},
	}
}

// forever waits until the process is killed. The runtime would end a process whose goroutines all wait for each other.
func forever() error {
	<-time.After(time.Hour)
	return errors.New("not killed within an hour")
}

func listen() error {
	var address string
	for _, variable := range os.Environ() {
		if port, found := strings.CutPrefix(variable, "MACHINE_PORT="); found {
			address = "127.0.0.1:" + port
		}
	}
	listener, err := sharedListener(address)
	if err != nil {
		return err
	}
	return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "served") }))
}

// fixture is a machine host that runs as a child process.
type fixture struct {
	*host.Child
	dir  string
	base string
}

// links returns a new folder with the folder bin, in which the test binary has the names of all programs.
func links(t *testing.T) (base string) {
	t.Helper()
	base, err := os.MkdirTemp("", "mh-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(base, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	names := append(slices.Collect(maps.Keys(bootstrapPrograms())), programs.Host)
	for _, name := range names {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return base
}

func optionsIn(base string) host.StartOptions {
	bin := filepath.Join(base, "bin")
	return host.StartOptions{Dir: filepath.Join(base, "host"), Executable: filepath.Join(bin, programs.Host), Path: []string{bin}, Log: filepath.Join(base, "log")}
}

// start starts a host. When the test ends, it checks that nothing is left.
func start(t *testing.T) fixture {
	t.Helper()
	base := links(t)
	child, err := host.Start(t.Context(), optionsIn(base))
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{Child: child, dir: filepath.Join(base, "host"), base: base}
	t.Cleanup(func() {
		if err := child.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(f.dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the host's folder still exists: %v", err)
		}
		if left := processesWith(f.dir); len(left) > 0 {
			t.Errorf("processes %v still exist", left)
		}
	})
	return f
}

// Executable is the path of the host's program.
func (f fixture) Executable() string { return filepath.Join(f.base, "bin", programs.Host) }

// processesWith returns the processes whose command line or environment contains a text.
func processesWith(text string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environment, err := os.ReadFile(file)
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err == nil && filepath.Dir(file) != fmt.Sprintf("/proc/%d", os.Getpid()) && (strings.Contains(string(environment), text) || strings.Contains(string(command), text)) {
			found = append(found, filepath.Dir(file)+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

const data = "#cloud-config\nruncmd:\n"

// runs is bootstrap data that serves the machine's port.
const runs = data + "- [count, boots]\n- [service, web, listen]\n- [succeed]\n"

func (f fixture) create(t *testing.T, id, text string) host.Status {
	t.Helper()
	status, err := f.CreateMachine(t.Context(), id, host.Machine{BootstrapData: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// becomes waits for a state.
func (f fixture) becomes(t *testing.T, id string, want host.State) host.Status {
	t.Helper()
	var status host.Status
	f.until(t, id, string(want), func(s host.Status) bool { status = s; return s.State == want })
	return status
}

func (f fixture) until(t *testing.T, id, what string, check func(host.Status) bool) {
	t.Helper()
	await.Until(t, "waiting until machine "+id+" is "+what, time.Minute, func(ctx context.Context) error {
		status, err := f.Machine(ctx, id)
		if err == nil && !check(status) {
			err = fmt.Errorf("status %+v", status)
		}
		return err
	})
}

func (f fixture) root(id string) string {
	return machine.Folder(filepath.Join(f.dir, "machines", id)).Root()
}

// lines returns the lines of a file below the machine's root.
func (f fixture) lines(t *testing.T, id, name string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(f.root(id), name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Fields(string(content))
}

func (f fixture) serves(t *testing.T, port int) {
	t.Helper()
	await.Until(t, "waiting for the service", time.Minute, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d", port), nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
}

func TestMachine_RunsItsBootstrapDataOnce(t *testing.T) {
	f := start(t)
	created := f.create(t, "one", runs)
	if created.Address != "127.0.0.1" || created.Port == 0 {
		t.Errorf("status %+v", created)
	}
	status := f.becomes(t, "one", host.Running)
	f.serves(t, status.Port)
	if again := f.create(t, "one", runs); again.Port != created.Port || !again.Bootstrapped {
		t.Errorf("creating it again: %+v", again)
	}
	if _, err := f.CreateMachine(t.Context(), "one", host.Machine{BootstrapData: []byte(data)}); !errors.Is(err, host.ErrConflict) {
		t.Errorf("creating it with other data: %v", err)
	}
	if boots := f.lines(t, "one", "boots"); len(boots) != 1 {
		t.Errorf("the first command ran %d times", len(boots))
	}
	for range 2 {
		if err := f.DeleteMachine(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Machine(t.Context(), "one"); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("after deletion: %v", err)
	}
	if left := processesWith(f.root("one")); len(left) > 0 {
		t.Errorf("after deletion processes %v exist", left)
	}
}

func TestKilledHost_MachinesRunOn(t *testing.T) {
	f := start(t)
	f.create(t, "one", runs)
	before := f.becomes(t, "one", host.Running)
	f.until(t, "one", "serving", func(s host.Status) bool { return len(s.Services) == 1 && s.Services[0].PID != 0 })
	f.serves(t, before.Port)
	if err := f.Kill(); err != nil {
		t.Fatal(err)
	}
	f.serves(t, before.Port)
	if err := f.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := f.becomes(t, "one", host.Running)
	if after.Port != before.Port || after.Services[0].Restarts != 0 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
