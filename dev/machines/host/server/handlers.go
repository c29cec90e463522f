package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/host/machine"
)

// mostBody limits a request: bootstrap data in base64, and room for the rest.
const mostBody = host.MaxBootstrapData*4/3 + 64<<10

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /machines", func(w http.ResponseWriter, _ *http.Request) { answer(w)(s.list()) })
	mux.HandleFunc("GET /machines/{id}", withID(func(w http.ResponseWriter, _ *http.Request, id string) { answer(w)(s.status(id)) }))
	mux.HandleFunc("PUT /machines/{id}", withID(s.putMachine))
	mux.HandleFunc("DELETE /machines/{id}", withID(func(w http.ResponseWriter, _ *http.Request, id string) { answer(w)(struct{}{}, s.remove(id)) }))
	mux.HandleFunc("GET /machines/{id}/log", withID(s.getLog))
	mux.HandleFunc("GET /endpoints", func(w http.ResponseWriter, _ *http.Request) { answer(w)(s.listEndpoints()) })
	mux.HandleFunc("PUT /endpoints/{id}", withID(func(w http.ResponseWriter, _ *http.Request, id string) { answer(w)(s.reserve(id)) }))
	mux.HandleFunc("DELETE /endpoints/{id}", withID(func(w http.ResponseWriter, _ *http.Request, id string) { answer(w)(struct{}{}, s.free(id)) }))
	return mux
}

// withID rejects requests whose ID is invalid.
func withID(handle func(w http.ResponseWriter, r *http.Request, id string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		if err := host.CheckID(id); err != nil {
			host.WriteError(w, err)
			return
		}
		handle(w, r, id)
	}
}

// answer returns a function that answers with a value in JSON or with an error.
func answer(w http.ResponseWriter) func(value any, err error) {
	return func(value any, err error) {
		if err != nil {
			host.WriteError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value) // a client that has gone does not read it
	}
}

func (s *Server) putMachine(w http.ResponseWriter, r *http.Request, id string) {
	wanted, err := decodeMachine(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil {
		host.WriteError(w, err)
		return
	}
	answer(w)(s.create(id, wanted))
}

func decodeMachine(body io.Reader) (host.Machine, error) {
	var wanted host.Machine
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&wanted)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("the request contains more than one object")
		}
	}
	if err != nil {
		return host.Machine{}, fmt.Errorf("%w: reading the wanted machine: %w", host.ErrInvalid, err)
	}
	return wanted, nil
}

func (s *Server) getLog(w http.ResponseWriter, _ *http.Request, id string) {
	folder := s.folder(id)
	if !exists(string(folder)) {
		host.WriteError(w, fmt.Errorf("machine %s: %w", id, host.ErrNotFound))
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(logOf(folder)) // a client that has gone does not read it
}

// logOf returns the ends of all logs of a machine, each with a heading. Each log has the same share of host.MaxLog.
func logOf(folder machine.Folder) []byte {
	entries, err := os.ReadDir(folder.Logs())
	if err != nil {
		return nil // the machine is being deleted
	}
	var out bytes.Buffer
	share := host.MaxLog / max(1, len(entries))
	for _, entry := range entries {
		name, isLog := strings.CutSuffix(entry.Name(), ".log")
		heading := "==> " + name + " <==\n"
		if isLog && share > len(heading)+1 {
			out.WriteString(heading)
			out.Write(machine.Tail(filepath.Join(folder.Logs(), entry.Name()), 0, int64(share-len(heading)-1)))
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}
