//go:build linux

package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/fleet-hub/fleet/dev/lab/nodes"
)

// Server serves the requests for one lab.
type Server struct {
	// Lab is the lab, Seconds the time it took to start.
	Lab     *nodes.Lab
	Seconds float64
}

// goodbye is how long the last response may take to be sent when the server shuts down.
const goodbye = 5 * time.Second

// Serve handles requests until a client requests the lab's end, the lab has ended, or ctx ends. Then it stops the
// lab. It calls listening as soon as clients can connect.
func (s *Server) Serve(ctx context.Context, dir string, listening func()) error {
	socket := socketIn(dir)
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Join(fmt.Errorf("removing a stale socket: %w", err), s.Lab.Stop())
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return errors.Join(fmt.Errorf("listening for commands: %w", err), s.Lab.Stop())
	}
	asked := make(chan struct{}, 1)
	server := &http.Server{Handler: s.handler(asked), ReadHeaderTimeout: goodbye}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	listening()
	select {
	case <-asked:
	case <-s.Lab.Gone():
	case <-ctx.Done():
	case err := <-ended:
		return errors.Join(err, s.Lab.Stop())
	}
	err = s.Lab.Stop()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	return errors.Join(err, server.Shutdown(last))
}

// act performs an action on nodes. The request's path names the nodes.
type act func(r *http.Request) error

func (s *Server) handler(asked chan<- struct{}) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { reply(w, StatusOf(s.Lab, s.Seconds), nil) })
	for pattern, do := range map[string]act{
		"POST /nodes/{node}/restart":      s.restart,
		"POST /nodes/{node}/import":       s.importArchive,
		"POST /nodes/{node}/cut/{other}":  func(r *http.Request) error { return s.line(r, (*nodes.Node).Cut) },
		"POST /nodes/{node}/heal/{other}": func(r *http.Request) error { return s.line(r, (*nodes.Node).Heal) },
		"POST /down": func(*http.Request) error {
			select {
			case asked <- struct{}{}:
			default: // the stop is requested already
			}
			return s.Lab.Stop()
		},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			err := do(r)
			reply(w, StatusOf(s.Lab, s.Seconds), err)
		})
	}
	return mux
}

func reply(w http.ResponseWriter, status Status, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(status) // the client has disconnected
}

// node returns the node that the path wildcard names.
func (s *Server) node(r *http.Request, wildcard string) (*nodes.Node, error) {
	name := r.PathValue(wildcard)
	if n := s.Lab.Node(name); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("the lab has no node %q", name)
}

func (s *Server) restart(r *http.Request) error {
	n, err := s.node(r, "node")
	if err != nil {
		return err
	}
	return n.Restart(context.WithoutCancel(r.Context())) // a node must not stay half restarted when the client disconnects
}

func (s *Server) importArchive(r *http.Request) error {
	n, err := s.node(r, "node")
	if err != nil {
		return err
	}
	return n.Import(r.URL.Query().Get("archive"))
}

func (s *Server) line(r *http.Request, do func(n, other *nodes.Node) error) error {
	n, err := s.node(r, "node")
	if err != nil {
		return err
	}
	other, err := s.node(r, "other")
	if err != nil {
		return err
	}
	return do(n, other)
}
