package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/host/machine"
)

// open returns a host whose machines fail to start, because there is no executable.
func open(t *testing.T) *Server {
	t.Helper()
	s, err := Open(Options{Dir: t.TempDir(), Executable: "/no/such/program", Clock: time.Now, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.release)
	return s
}

func send(s *Server, method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestInvalidRequests_AreRejected(t *testing.T) {
	s := open(t)
	long := strings.Repeat("x", 129)
	tests := map[string]struct {
		method, path, body string
		code               int
		want               string
	}{
		"ID with upper case":       {"PUT", "/machines/A", "{}", 400, `ID \"A\"`},
		"ID with a slash":          {"PUT", "/machines/a%2fb", "{}", 400, `ID \"a/b\"`},
		"ID leaves the folder":     {"DELETE", "/machines/..%2f..", "", 400, `ID \"../..\"`},
		"ID is hidden":             {"GET", "/machines/.new-a", "", 400, `ID \".new-a\"`},
		"ID is too long":           {"PUT", "/machines/" + long, "{}", 400, "invalid request: ID"},
		"ID of an endpoint":        {"PUT", "/endpoints/..%2fx", "", 400, `ID \"../x\"`},
		"ID of a log":              {"GET", "/machines/..%2f..%2fetc/log", "", 400, `ID \"../../etc\"`},
		"not JSON":                 {"PUT", "/machines/a", "x", 400, "reading the wanted machine"},
		"no body":                  {"PUT", "/machines/a", "", 400, "EOF"},
		"unknown field":            {"PUT", "/machines/a", `{"image":"x"}`, 400, `unknown field \"image\"`},
		"two objects":              {"PUT", "/machines/a", `{}{}`, 400, "more than one object"},
		"extra ports below zero":   {"PUT", "/machines/a", `{"extraPorts":-1}`, 400, "-1 extra ports; 0 to 8 are accepted"},
		"too many extra ports":     {"PUT", "/machines/a", `{"extraPorts":9}`, 400, "9 extra ports; 0 to 8 are accepted"},
		"too much bootstrap data":  {"PUT", "/machines/a", `{"bootstrapData":"` + strings.Repeat("AAAA", (host.MaxBootstrapData+3)/3) + `"}`, 400, "at most 1048576 are accepted"},
		"body without an end":      {"PUT", "/machines/a", `{"bootstrapData":"` + strings.Repeat("A", 2<<20), 400, "request body too large"},
		"endpoint with invalid ID": {"PUT", "/machines/a", `{"endpoint":"../x"}`, 400, `ID \"../x\"`},
		"endpoint does not exist":  {"PUT", "/machines/a", `{"endpoint":"x"}`, 404, "endpoint x: not found"},
		"machine does not exist":   {"GET", "/machines/a", "", 404, "machine a: not found"},
		"log of no machine":        {"GET", "/machines/a/log", "", 404, "machine a: not found"},
		"deletion of no machine":   {"DELETE", "/machines/a", "", 200, "{}"},
		"deletion of no endpoint":  {"DELETE", "/endpoints/a", "", 200, "{}"},
		"unknown path":             {"GET", "/", "", 404, "404 page not found"},
		"unknown method":           {"POST", "/machines/a", "", 405, "Method Not Allowed"},
		"no machines: empty list":  {"GET", "/machines", "", 200, "[]"},
		"no endpoints: empty list": {"GET", "/endpoints", "", 200, "[]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if code, body := send(s, test.method, test.path, test.body); code != test.code || !strings.Contains(body, test.want) {
				t.Errorf("status %d, body %.300s", code, body)
			}
		})
	}
	if entries, err := os.ReadDir(s.machines()); err != nil || len(entries) != 0 {
		t.Errorf("rejected requests have created %v, %v", entries, err)
	}
}

func TestMachineThatCannotStart_IsPendingWithTheCause(t *testing.T) {
	s := open(t)
	code, body := send(s, http.MethodPut, "/machines/a", `{"bootstrapData":"eA=="}`)
	if code != 200 || !strings.Contains(body, `"state":"Pending"`) || !strings.Contains(body, "starting the machine: ") {
		t.Errorf("status %d, body %s", code, body)
	}
	if code, body := send(s, http.MethodDelete, "/machines/a", ""); code != 200 {
		t.Errorf("deletion: status %d, body %s", code, body)
	}
	if entries, err := os.ReadDir(s.machines()); err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}

func TestEndpoint_BelongsToOneMachine(t *testing.T) {
	s := open(t)
	_, first := send(s, http.MethodPut, "/endpoints/e", "")
	if _, again := send(s, http.MethodPut, "/endpoints/e", ""); first != again || !strings.Contains(first, `"host":"127.0.0.1"`) {
		t.Errorf("reserving it again: %s, %s", first, again)
	}
	reserved, err := s.find("e")
	if err != nil {
		t.Fatal(err)
	}
	if code, body := send(s, http.MethodPut, "/machines/a", `{"endpoint":"e","extraPorts":2}`); code != 200 || !strings.Contains(body, fmt.Sprintf(`"port":%d`, reserved.Port)) {
		t.Errorf("status %d, body %s", code, body)
	}
	if code, body := send(s, http.MethodPut, "/machines/b", `{"endpoint":"e"}`); code != 409 || !strings.Contains(body, "machine a has endpoint e") {
		t.Errorf("second machine: status %d, body %s", code, body)
	}
	if code, body := send(s, http.MethodDelete, "/endpoints/e", ""); code != 409 || !strings.Contains(body, "delete the machine first") {
		t.Errorf("freeing a used endpoint: status %d, body %s", code, body)
	}
	send(s, http.MethodDelete, "/machines/a", "")
	if s.ports[reserved.Port] == nil {
		t.Error("want the port to be held until the endpoint is freed")
	}
	if code, body := send(s, http.MethodDelete, "/endpoints/e", ""); code != 200 || s.ports[reserved.Port] != nil {
		t.Errorf("freeing it: status %d, body %s, ports %v", code, body, s.ports)
	}
}

func TestOtherWishes_AreAConflict(t *testing.T) {
	s := open(t)
	send(s, http.MethodPut, "/endpoints/e", "")
	send(s, http.MethodPut, "/machines/a", `{"bootstrapData":"eA=="}`)
	tests := map[string]struct{ body, want string }{
		"other data":            {`{"bootstrapData":"eQ=="}`, "machine a exists with other bootstrap data; delete it first"},
		"endpoint":              {`{"bootstrapData":"eA==","endpoint":"e"}`, "machine a exists with other endpoint; delete it first"},
		"ports":                 {`{"bootstrapData":"eA==","extraPorts":1}`, "machine a exists with other extra ports; delete it first"},
		"all":                   {`{"endpoint":"e","extraPorts":1}`, "machine a exists with other bootstrap data, endpoint, extra ports; delete it first"},
		"the same: no conflict": {`{"bootstrapData":"eA=="}`, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, body := send(s, http.MethodPut, "/machines/a", test.body)
			if test.want == "" && code != 200 || test.want != "" && (code != 409 || !strings.Contains(body, test.want)) {
				t.Errorf("status %d, body %s", code, body)
			}
		})
	}
}

func TestFullHost_RejectsMore(t *testing.T) {
	s := open(t)
	for i := range host.MaxMachines {
		if err := os.Mkdir(filepath.Join(s.machines(), fmt.Sprintf("m-%d", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.create("one-more", host.Machine{}); !errors.Is(err, host.ErrFull) {
		t.Errorf("creating a machine: %v", err)
	}
	for i := range host.MaxEndpoints {
		if err := storePort(s.endpointFile(fmt.Sprintf("e-%d", i)), 1+i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.reserve("one-more"); !errors.Is(err, host.ErrFull) {
		t.Errorf("reserving an endpoint: %v", err)
	}
}

// TestBrokenMachine_HidesNoOther lists machines of which one has lost its files.
func TestBrokenMachine_HidesNoOther(t *testing.T) {
	s := open(t)
	send(s, http.MethodPut, "/machines/a", `{}`)
	send(s, http.MethodPut, "/machines/b", `{}`)
	if err := os.WriteFile(filepath.Join(string(s.folder("a")), "machine.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := s.list()
	if err != nil || len(all) != 2 || all[0].State != host.Failed || all[1].State != host.Pending {
		t.Errorf("got %+v, %v", all, err)
	}
	if code, body := send(s, http.MethodDelete, "/machines/a", ""); code != 200 {
		t.Errorf("deletion: status %d, body %s", code, body)
	}
}

func TestLongPathOfTheSocket_IsRejected(t *testing.T) {
	_, err := listen(t.Context(), SocketIn("/"+strings.Repeat("x", 100)))
	if err == nil || !strings.Contains(err.Error(), "choose a shorter folder") {
		t.Errorf("error %v", err)
	}
}

func TestLog_HasAShareOfEveryLog(t *testing.T) {
	folder := machine.Folder(t.TempDir())
	if err := os.MkdirAll(folder.Logs(), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(folder.Logs(), name+".log"), []byte(strings.Repeat(name, host.MaxLog)+"end"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(folder.Logs(), "etc.log")); err != nil {
		t.Fatal(err)
	}
	got := string(logOf(folder))
	if len(got) > host.MaxLog || len(got) < host.MaxLog/2 || strings.Count(got, "end\n") != 2 || !strings.HasPrefix(got, "==> a <==\naaa") {
		t.Errorf("%d bytes: %.40s…", len(got), got)
	}
}

func FuzzDecodeMachine(f *testing.F) {
	for _, seed := range []string{`{"bootstrapData":"eA==","endpoint":"e","extraPorts":2}`, `{}`, `{}{}`, `null`, `[]`, `{"bootstrapData":"?"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		wanted, err := decodeMachine(strings.NewReader(body))
		if err == nil {
			err = check(wanted)
		}
		if err != nil && !errors.Is(err, host.ErrInvalid) {
			t.Errorf("error %v", err)
		}
		if err == nil && (wanted.ExtraPorts < 0 || wanted.ExtraPorts > host.MaxExtraPorts || wanted.Endpoint != "" && host.CheckID(wanted.Endpoint) != nil) {
			t.Errorf("accepted %+v", wanted)
		}
	})
}
