package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

func TestValidate_RejectsWrongOptions(t *testing.T) {
	tests := map[string]struct {
		options Options
		want    string
	}{
		"hub only: valid":            {},
		"several downstreams: valid": {options: Options{Downstreams: []string{"east", "west-2", "3"}}},
		"hub's name: invalid":        {Options{Downstreams: []string{"hub"}}, `invalid options: downstream "hub" has the hub's name`},
		"duplicate name: invalid":    {Options{Downstreams: []string{"a", "b", "a"}}, `invalid options: downstream "a" is listed twice`},
		"empty name: invalid":        {Options{Downstreams: []string{""}}, `invalid options: downstream "" is invalid: use 1 to 32 lower case letters, digits and inner hyphens`},
		"capitals":                   {Options{Downstreams: []string{"East"}}, `invalid options: downstream "East" is invalid: use 1 to 32 lower case letters, digits and inner hyphens`},
		"path in a name: invalid":    {Options{Downstreams: []string{"../x"}}, `invalid options: downstream "../x" is invalid: use 1 to 32 lower case letters, digits and inner hyphens`},
		"33 characters: invalid": {
			Options{Downstreams: []string{strings.Repeat("a", 33)}},
			`invalid options: downstream "` + strings.Repeat("a", 33) + `" is invalid: use 1 to 32 lower case letters, digits and inner hyphens`,
		},
		"32 characters: valid":   {options: Options{Downstreams: []string{strings.Repeat("a", 32)}}},
		"absolute path: valid":   {options: Options{Binaries: map[string]string{"fleetagent": "/bin/true"}}},
		"relative path: invalid": {Options{Binaries: map[string]string{"fleetagent": "bin/agent"}}, `invalid options: the path of fleetagent, "bin/agent", is not absolute`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := validate(test.options)
			if test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != test.want || !errors.Is(err, ErrOptions)) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

func TestTail_ReturnsTheLastLinesOfTheProcess(t *testing.T) {
	lines := func(from, to int) string {
		var text strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&text, "line %d\n", i)
		}
		return text.String()
	}
	tests := map[string]struct {
		log   string
		start int64
		want  string
	}{
		"empty log":                          {"", 0, ""},
		"few lines: all":                     {lines(1, 3), 0, "line 1\nline 2\nline 3"},
		"many lines: the last ones":          {lines(1, 100), 0, strings.TrimSpace(lines(86, 100))},
		"log of an earlier process: omitted": {lines(1, 100) + "ours\n", int64(len(lines(1, 100))), "ours"},
		"log was truncated: empty":           {"x\n", 100, ""},
		"one very long line: its end":        {strings.Repeat("x", 10000) + "end", 0, strings.Repeat("x", 8<<10-3) + "end"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &component{program: program{log: filepath.Join(t.TempDir(), "log")}, logStart: test.start}
			if err := os.WriteFile(c.log, []byte(test.log), 0o600); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, c.tail()); diff != "" {
				t.Errorf("tail (-want +got):\n%s", diff)
			}
		})
	}
	c := &component{program: program{log: "/no/such/log"}}
	if got := c.tail(); got != "open /no/such/log: no such file or directory" {
		t.Errorf("without a log: %q", got)
	}
}

func TestComponentFailure_QuotesItsLog(t *testing.T) {
	c := &component{program: program{name: "hub: kube-apiserver", log: filepath.Join(t.TempDir(), "log")}, process: &supervise.Process{}}
	if err := os.WriteFile(c.log, []byte("unknown flag: --x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := c.failure().Error(); got != "hub: kube-apiserver ended (); the last lines of its log:\nunknown flag: --x" {
		t.Errorf("error %s", got)
	}
	if !c.expected.Load() {
		t.Error("the end would be reported twice")
	}
}

func TestLogDir_IsCreatedIfMissing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	made, err := logDir("")
	if err != nil || filepath.Dir(made) != os.TempDir() {
		t.Errorf("no directory given: got %s, %v", made, err)
	}
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call finds an existing directory
		if got, err := logDir("some/where"); err != nil || got != filepath.Join(here, "some", "where") {
			t.Errorf("directory given: got %s, %v", got, err)
		}
	}
	file := filepath.Join(here, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := logDir(filepath.Join(file, "sub")); err == nil {
		t.Error("want an error for a directory that cannot be created")
	}
}

type run int

func (r run) Run() int { return int(r) }

type recorder struct{ fatal string }

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) { r.fatal = fmt.Sprintf(format, args...) }

func TestShared_StartsThePlaneOnlyIfNeeded(t *testing.T) {
	broken := errors.New("the start failed")
	tests := map[string]struct {
		tests   run
		asked   bool
		started error
		code    int
		fatal   string
	}{
		"no test needs the plane: it is not started":          {tests: 0, code: 0},
		"no test needs the plane, and one fails: exit code 1": {tests: 1, code: 1},
		"start fails: tests fail with the reason": {
			tests: 1, asked: true, started: broken, code: 1, fatal: "starting control planes: the start failed",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := Share(Options{Downstreams: []string{HubName}}) // options with which no plane can start
			s.out = &strings.Builder{}
			if test.asked {
				s.start = func() (*Plane, error) { return nil, test.started }
				r := &recorder{}
				s.Plane(r)
				if r.fatal != test.fatal {
					t.Errorf("got message %q", r.fatal)
				}
			}
			if code := s.Main(test.tests); code != test.code {
				t.Errorf("exit code %d", code)
			}
			if got := fmt.Sprint(s.out); got != "" {
				t.Errorf("got message %q", got)
			}
		})
	}
}

func TestSharedMain_StopsThePlane(t *testing.T) {
	unstoppable := errors.New("the stop failed")
	tests := map[string]struct {
		tests run
		stop  error
		code  int
		keeps bool
		says  string
	}{
		"success: logs are removed":                    {code: 0},
		"test failed: logs are kept":                   {tests: 1, code: 1, keeps: true, says: "logs of the control planes: LOGS\n"},
		"stop failed: exit code 1":                     {stop: unstoppable, code: 1, keeps: true, says: "logs of the control planes: LOGS\nthe stop failed\n"},
		"test and stop failed: exit code of the tests": {tests: 2, stop: unstoppable, code: 2, keeps: true, says: "logs of the control planes: LOGS\nthe stop failed\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := &strings.Builder{}
			s := Share(Options{})
			s.out = out
			logs := filepath.Join(t.TempDir(), "logs")
			if err := os.Mkdir(logs, 0o755); err != nil {
				t.Fatal(err)
			}
			s.plane = &Plane{LogDir: logs, stop: func() error { return test.stop }}
			if code := s.Main(test.tests); code != test.code {
				t.Errorf("exit code %d", code)
			}
			if diff := cmp.Diff(test.says, strings.ReplaceAll(out.String(), logs, "LOGS")); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			if _, err := os.Stat(logs); (err == nil) != test.keeps {
				t.Errorf("logs: %v", err)
			}
		})
	}
}
