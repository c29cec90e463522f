package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// serve returns a client of a server on a Unix socket.
func serve(t *testing.T, handle http.HandlerFunc) *Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "mh-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handle}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return NewClient(socket)
}

func TestErrors_KeepTheirMeaningOverTheSocket(t *testing.T) {
	tests := map[string]struct {
		answer func(w http.ResponseWriter)
		is     error
		want   string
	}{
		"not found":  {func(w http.ResponseWriter) { WriteError(w, fmt.Errorf("machine a: %w", ErrNotFound)) }, ErrNotFound, "machine a: not found"},
		"conflict":   {func(w http.ResponseWriter) { WriteError(w, ErrConflict) }, ErrConflict, "conflict"},
		"invalid":    {func(w http.ResponseWriter) { WriteError(w, ErrInvalid) }, ErrInvalid, "invalid request"},
		"full":       {func(w http.ResponseWriter) { WriteError(w, ErrFull) }, ErrFull, "the machine host is full"},
		"port":       {func(w http.ResponseWriter) { WriteError(w, ErrPortInUse) }, ErrPortInUse, "port in use"},
		"other":      {func(w http.ResponseWriter) { WriteError(w, errors.New("disk full")) }, nil, "disk full"},
		"no JSON":    {func(w http.ResponseWriter) { http.Error(w, "<html>", http.StatusBadGateway) }, nil, "the answer has status 502: <html>"},
		"wrong JSON": {func(w http.ResponseWriter) { _, _ = fmt.Fprint(w, "[") }, nil, "decoding the answer: unexpected end of JSON input"},
		"endless": {func(w http.ResponseWriter) {
			for range 17 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		}, nil, "the answer has more than 16777216 bytes"},
		"closed connection": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, ErrUnavailable, "the machine host does not answer"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) { test.answer(w) })
			_, err := client.Machine(t.Context(), "a")
			if err == nil || !strings.HasPrefix(err.Error(), "sending GET /machines/a to the machine host: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v", err)
			}
			for _, each := range []error{ErrNotFound, ErrConflict, ErrInvalid, ErrFull, ErrPortInUse, ErrUnavailable} {
				if want := errors.Is(test.is, each); errors.Is(err, each) != want {
					t.Errorf("error %v is %q: want %t", err, each, want)
				}
			}
		})
	}
}

func TestRequests_HaveTheirMethodPathAndBody(t *testing.T) {
	tests := map[string]struct {
		send func(ctx context.Context, c *Client) error
		want string
	}{
		"create": {func(ctx context.Context, c *Client) error {
			_, err := c.CreateMachine(ctx, "a", Machine{Endpoint: "e", ExtraPorts: 1, BootstrapData: []byte("x")})
			return err
		}, `PUT /machines/a {"endpoint":"e","extraPorts":1,"bootstrapData":"eA=="}`},
		"get":     {func(ctx context.Context, c *Client) error { _, err := c.Machine(ctx, "a"); return err }, "GET /machines/a null"},
		"delete":  {func(ctx context.Context, c *Client) error { return c.DeleteMachine(ctx, "a") }, "DELETE /machines/a null"},
		"log":     {func(ctx context.Context, c *Client) error { _, err := c.Log(ctx, "a"); return err }, "GET /machines/a/log null"},
		"reserve": {func(ctx context.Context, c *Client) error { _, _, err := c.ReserveEndpoint(ctx, "e"); return err }, "PUT /endpoints/e null"},
		"free":    {func(ctx context.Context, c *Client) error { return c.FreeEndpoint(ctx, "e") }, "DELETE /endpoints/e null"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got string
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				var body json.RawMessage = []byte("null")
				_ = json.NewDecoder(r.Body).Decode(&body) // no body is null
				got = fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body)
				_, _ = fmt.Fprint(w, "{}")
			})
			if err := test.send(t.Context(), client); err != nil || got != test.want {
				t.Errorf("sent %s, error %v", got, err)
			}
		})
	}
}

func TestInvalidID_IsNotSent(t *testing.T) {
	client := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	for _, id := range []string{"", "A", "a/b", "../a", ".a", "a.", "-a", strings.Repeat("a", 129), "a\x00", "a?b", "ä"} {
		_, err := client.CreateMachine(t.Context(), id, Machine{})
		_, logErr := client.Log(t.Context(), id)
		_, getErr := client.Machine(t.Context(), id)
		for _, err := range []error{err, logErr, getErr, client.DeleteMachine(t.Context(), id), client.FreeEndpoint(t.Context(), id)} {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("ID %q: %v", id, err)
			}
		}
	}
	for _, id := range []string{"a", "0", "a-b.c", strings.Repeat("a", 128), "6f1c1ab0-0d9c-4dbb-8d2c-0b6d6d0b7a11"} {
		if err := CheckID(id); err != nil {
			t.Error(err)
		}
	}
}

func TestMissingHost_IsUnavailable(t *testing.T) {
	client := NewClient(filepath.Join(t.TempDir(), "none"))
	if _, err := client.Machines(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Machines(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
}
