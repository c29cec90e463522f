package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/framework/await"
)

// The test binary is also the supervisor and the programs that it starts, selected by the name it is called by.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "supervisor":
		if err := Serve(os.Stdin, os.Stdout, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		KillOwnGroup()
		os.Exit(0)
	case "echo":
		fmt.Fprintln(os.Stdout, "arguments", os.Args[1:], "environment", os.Environ())
		dir, err := os.Getwd()
		fmt.Fprintln(os.Stderr, "folder", dir, err)
		os.Exit(0)
	case "fail":
		os.Exit(3)
	case "wait":
		signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR1) // otherwise Go reports the endless wait as a deadlock
		fmt.Fprintln(os.Stdout, "waiting")
		select {}
	case "polite":
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		fmt.Fprintln(os.Stdout, "waiting")
		<-asked
		fmt.Fprintln(os.Stdout, "bye")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// called creates a symbolic link to the test binary.
func called(t *testing.T, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	return link
}

func TestIsolatedProcess_HasItsOwnNamespaces(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("namespaces need root on Linux")
	}
	f := launch(t)
	p := f.start(t, Command{Path: "/bin/sh", Args: []string{"-c", "echo $$; hostname of-its-own"}, Env: []string{"PATH=/usr/bin:/bin"}, Isolated: true})
	<-p.Done()
	f.says(t, "1\n")
	if name, err := os.Hostname(); err != nil || name == "of-its-own" {
		t.Errorf("the host's name changed to %q, %v", name, err)
	}
}

func TestFiles_StayOpenWhileTheSupervisorRuns(t *testing.T) {
	held, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "data")
	client, err := Launch(Options{Binary: called(t, "supervisor"), DataDir: data, Log: filepath.Join(t.TempDir(), "log"), Files: []*os.File{hold}})
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Close(); err != nil {
		t.Fatal(err)
	}
	if err := held.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := held.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("want the file to be locked, got %v", err)
	}
	if err := errors.Join(client.Close(), held.SetReadDeadline(time.Time{})); err != nil {
		t.Fatal(err)
	}
	if _, err := held.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("want the file to be unlocked, got %v", err)
	}
}

type fixture struct {
	client *Client
	data   string
	log    string
}

func launch(t *testing.T) fixture {
	t.Helper()
	f := fixture{data: filepath.Join(t.TempDir(), "data"), log: filepath.Join(t.TempDir(), "log")}
	if err := os.Mkdir(f.data, 0o755); err != nil {
		t.Fatal(err)
	}
	client, err := Launch(Options{Binary: called(t, "supervisor"), DataDir: f.data, Log: filepath.Join(t.TempDir(), "supervisor.log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	f.client = client
	return f
}

func (f fixture) start(t *testing.T, c Command) *Process {
	t.Helper()
	if c.Log == "" {
		c.Log = f.log
	}
	p, err := f.client.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// says waits until the log has the wanted content.
func (f fixture) says(t *testing.T, want string) {
	t.Helper()
	var got []byte
	eventually(t, func() error {
		var err error
		if got, err = os.ReadFile(f.log); err != nil {
			return err
		}
		if string(got) != want {
			return fmt.Errorf("log:\n%s", cmp.Diff(want, string(got)))
		}
		return nil
	})
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	await.Until(t, "waiting", 2*time.Minute, func(context.Context) error { return check() })
}

func ended(t *testing.T, p *Process) Status {
	t.Helper()
	select {
	case <-p.Done():
		return p.Status()
	case <-time.After(2 * time.Minute):
		t.Fatalf("process %d did not end", p.PID)
		return Status{}
	}
}

// gone returns an error if the process exists.
func gone(pid int) error {
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("process %d exists: %s", pid, fmt.Sprint(err))
	}
	return nil
}

func TestStartedProcess_InheritsNothing(t *testing.T) {
	f := launch(t)
	path := called(t, "echo")
	if got := ended(t, f.start(t, Command{Path: path, Args: []string{"a", "b c"}, Env: []string{"X=1"}})); got != (Status{Text: "exit status 0"}) {
		t.Errorf("ended with %+v", got)
	}
	want := "arguments [a b c] environment [X=1]\nfolder " + f.data + " <nil>\n"
	f.says(t, want)

	dir := t.TempDir()
	ended(t, f.start(t, Command{Path: path, Dir: dir}))
	f.says(t, want+"arguments [] environment []\nfolder "+dir+" <nil>\n")
}

func TestStatus_DescribesHowTheProcessEnded(t *testing.T) {
	tests := map[string]struct {
		program string
		signal  syscall.Signal
		want    Status
	}{
		"exit code":                 {program: "fail", want: Status{Code: 3, Text: "exit status 3"}},
		"killed":                    {program: "wait", signal: syscall.SIGKILL, want: Status{Code: -1, Signal: 9, Text: "signal: killed"}},
		"SIGTERM without a handler": {program: "wait", signal: syscall.SIGTERM, want: Status{Code: -1, Signal: 15, Text: "signal: terminated"}},
		"SIGTERM with a handler":    {program: "polite", signal: syscall.SIGTERM, want: Status{Text: "exit status 0"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := launch(t)
			p := f.start(t, Command{Path: called(t, test.program)})
			if test.signal != 0 {
				f.says(t, "waiting\n")
				if err := p.Signal(test.signal); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(test.want, ended(t, p)); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if err := gone(p.PID); err != nil {
				t.Error(err)
			}
			if err := p.Signal(syscall.SIGKILL); err != nil {
				t.Errorf("signalling a process that has ended: %v", err)
			}
		})
	}
}

func TestFailedStart_ReturnsTheCause(t *testing.T) {
	f := launch(t)
	tests := map[string]struct {
		command Command
		want    string
	}{
		"missing program": {command: Command{Path: "/no/such/program", Log: f.log}, want: "starting /no/such/program: fork/exec /no/such/program: no such file or directory"},
		"missing directory of the log": {
			command: Command{Path: "/bin/true", Log: "/no/such/log"},
			want:    "opening the log of /bin/true: open /no/such/log: no such file or directory",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := f.client.Start(test.command)
			if err == nil || err.Error() != test.want {
				t.Errorf("process %v, error %v, want %s", p, err, test.want)
			}
		})
	}
	if got := ended(t, f.start(t, Command{Path: called(t, "fail")})); got.Code != 3 {
		t.Errorf("a start after failed starts returns %+v", got)
	}
}

func TestClose_EndsEverything(t *testing.T) {
	f := launch(t)
	var all []*Process
	for range 5 {
		all = append(all, f.start(t, Command{Path: called(t, "wait")}))
	}
	if err := os.WriteFile(filepath.Join(f.data, "some"), []byte("thing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second Close has no effect
		if err := f.client.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range all {
		if got := ended(t, p); got.Signal != int(syscall.SIGKILL) {
			t.Errorf("ended with %+v", got)
		}
		if err := gone(p.PID); err != nil {
			t.Error(err)
		}
	}
	if err := gone(f.client.PID()); err != nil {
		t.Errorf("the supervisor still exists: %v", err)
	}
	if _, err := os.Stat(f.data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the data directory still exists: %v", err)
	}
	if _, err := f.client.Start(Command{Path: "/bin/true", Log: f.log}); !errors.Is(err, ErrGone) {
		t.Errorf("starting a process after Close: %v", err)
	}
	if err := all[0].Signal(syscall.SIGTERM); !errors.Is(err, ErrGone) {
		t.Errorf("sending a signal after Close: %v", err)
	}
}

func TestKilledSupervisor_EndsItsProcesses(t *testing.T) {
	f := launch(t)
	p := f.start(t, Command{Path: called(t, "wait")})
	f.says(t, "waiting\n")
	if err := syscall.Kill(f.client.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-f.client.Gone()
	if diff := cmp.Diff(Status{Code: -1, Text: ErrGone.Error()}, ended(t, p)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	eventually(t, func() error { return gone(p.PID) })
}

func TestLocal_EndsItsProcessesAtClose(t *testing.T) {
	f := fixture{data: filepath.Join(t.TempDir(), "data"), log: filepath.Join(t.TempDir(), "log")}
	if err := os.Mkdir(f.data, 0o755); err != nil {
		t.Fatal(err)
	}
	f.client = Local(f.data)
	p := f.start(t, Command{Path: called(t, "wait")})
	f.says(t, "waiting\n")
	group, err := syscall.Getpgid(p.PID)
	if err != nil || group != syscall.Getpgrp() || f.client.PID() != os.Getpid() {
		t.Errorf("process group %d, %v, supervisor %d; want those of the caller", group, err, f.client.PID())
	}
	for range 2 { // a second Close has no effect
		if err := f.client.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(Status{Code: -1, Signal: 9, Text: "signal: killed"}, ended(t, p)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(f.data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("data directory: %v", err)
	}
}

func TestFailedLaunch_ReturnsTheCause(t *testing.T) {
	tests := map[string]struct {
		options Options
		want    string
	}{
		"missing program": {
			options: Options{Binary: "/no/such/supervisor", Log: filepath.Join(t.TempDir(), "log")},
			want:    "starting the supervisor: fork/exec /no/such/supervisor: no such file or directory",
		},
		"missing directory of the log": {
			options: Options{Binary: "/bin/true", Log: "/no/such/log"},
			want:    "opening the supervisor's log: open /no/such/log: no such file or directory",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := Launch(test.options); err == nil || err.Error() != test.want {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

func TestServe_AnswersEachRequest(t *testing.T) {
	tests := map[string]struct{ in, out, err string }{
		"no request: no answer":                  {},
		"empty request: error":                   {in: `{"id":7}`, out: `{"id":7,"error":"the request has neither start nor signal"}` + "\n"},
		"signal to an unknown process: no error": {in: `{"id":8,"signal":{"process":3,"signal":9}}`, out: `{"id":8}` + "\n"},
		"invalid line: Serve ends":               {in: `{"id":1}{]`, out: `{"id":1,"error":"the request has neither start nor signal"}` + "\n", err: "reading a request: invalid character ']' looking for beginning of object key string"},
		"failed start: error":                    {in: `{"id":2,"start":{"path":"/no/such","log":"/no/such/log"}}`, out: `{"id":2,"error":"opening the log of /no/such: open /no/such/log: no such file or directory"}` + "\n"},
		"incomplete line: Serve ends":            {in: `{"id":`, err: "reading a request: unexpected EOF"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err := Serve(strings.NewReader(test.in), &out, dir)
			if got := fmt.Sprint(err); test.err != "" && got != test.err || test.err == "" && err != nil {
				t.Errorf("error %v, want %s", err, test.err)
			}
			if diff := cmp.Diff(test.out, out.String()); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the data directory still exists: %v", err)
			}
		})
	}
}

// TestClient_IgnoresUnexpectedAnswers sends an answer to a start that was given up, and a message about an
// unknown process.
func TestClient_IgnoresUnexpectedAnswers(t *testing.T) {
	fromClient, requests := io.Pipe()
	answers, toClient := io.Pipe()
	c := newClient(requests, answers)
	go func() { // a supervisor that sends unexpected answers
		_, _ = io.WriteString(toClient, `{"id":99,"pid":5}`+"\n"+`{"exit":{"process":42,"code":0,"text":"exit status 0"}}`+"\n")
		_, _ = fromClient.Read(make([]byte, 1<<10))
		_, _ = io.WriteString(toClient, `{"id":1,"pid":5}`+"\n"+`{"exit":{"process":1,"code":4,"text":"exit status 4"}}`+"\n")
		_ = toClient.Close()
	}()
	p, err := c.Start(Command{Path: "/some/thing"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Status{Code: 4, Text: "exit status 4"}, ended(t, p)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if p.PID != 5 {
		t.Errorf("PID %d", p.PID)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
