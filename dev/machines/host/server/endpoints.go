package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/plane/ports"
)

func (s *Server) endpointFile(id string) string { return filepath.Join(s.endpoints(), id+".json") }

// reservedPort is the content of an endpoint's file.
type reservedPort struct {
	Port int `json:"port"`
}

// endpoint reads an endpoint. owners is the result of s.owners.
func (s *Server) endpoint(id string, owners map[string]string) (host.Endpoint, error) {
	content, err := os.ReadFile(s.endpointFile(id))
	if errors.Is(err, fs.ErrNotExist) {
		return host.Endpoint{}, fmt.Errorf("endpoint %s: %w", id, host.ErrNotFound)
	}
	var stored reservedPort
	if err == nil {
		err = json.Unmarshal(content, &stored)
	}
	if err != nil {
		return host.Endpoint{}, fmt.Errorf("reading endpoint %s: %w", id, err)
	}
	return host.Endpoint{ID: id, Host: address, Port: stored.Port, Machine: owners[id]}, nil
}

// owners maps the IDs of endpoints to the IDs of the machines that have them.
func (s *Server) owners() (map[string]string, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	owners := map[string]string{}
	for _, id := range ids {
		if spec, err := s.folder(id).Spec(); err == nil && spec.Endpoint != "" {
			owners[spec.Endpoint] = id
		}
	}
	return owners, nil
}

// find reads an endpoint and its owner.
func (s *Server) find(id string) (host.Endpoint, error) {
	owners, err := s.owners()
	if err != nil {
		return host.Endpoint{}, err
	}
	return s.endpoint(id, owners)
}

func (s *Server) endpointIDs() ([]string, error) {
	entries, err := os.ReadDir(s.endpoints())
	if err != nil {
		return nil, fmt.Errorf("listing endpoints: %w", err)
	}
	var ids []string
	for _, entry := range entries {
		if id, found := strings.CutSuffix(entry.Name(), ".json"); found && host.CheckID(id) == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (s *Server) listEndpoints() ([]host.Endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids, err := s.endpointIDs()
	if err != nil {
		return nil, err
	}
	owners, err := s.owners()
	all := make([]host.Endpoint, 0, len(ids))
	for _, id := range ids {
		endpoint, readErr := s.endpoint(id, owners)
		err = errors.Join(err, readErr)
		all = append(all, endpoint)
	}
	return all, err
}

// reserve reserves an endpoint, or returns the reserved one.
func (s *Server) reserve(id string) (host.Endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.find(id)
	if err == nil {
		return found, s.holdEndpoint(found)
	}
	if !errors.Is(err, host.ErrNotFound) {
		return found, err
	}
	ids, err := s.endpointIDs()
	if err != nil {
		return found, err
	}
	if len(ids) >= host.MaxEndpoints {
		return found, fmt.Errorf("%w: there are %d endpoints; delete some first", host.ErrFull, len(ids))
	}
	machines, err := s.ids()
	if err != nil {
		return found, err
	}
	port, err := holdFree(s.extraPorts(machines))
	if err != nil {
		return found, err
	}
	if err := storePort(s.endpointFile(id), port.Number()); err != nil {
		port.Release()
		return found, fmt.Errorf("reserving endpoint %s: %w", id, err)
	}
	s.ports[port.Number()] = port
	return host.Endpoint{ID: id, Host: address, Port: port.Number()}, nil
}

func storePort(path string, port int) error {
	content, err := json.Marshal(reservedPort{Port: port})
	if err == nil {
		err = os.WriteFile(path+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	return err
}

// free frees an endpoint.
func (s *Server) free(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.find(id)
	if errors.Is(err, host.ErrNotFound) {
		return nil
	}
	if err == nil && found.Machine != "" {
		err = fmt.Errorf("%w: machine %s has endpoint %s; delete the machine first", host.ErrConflict, found.Machine, id)
	}
	if err != nil {
		return err
	}
	if err := os.Remove(s.endpointFile(id)); err != nil {
		return fmt.Errorf("freeing endpoint %s: %w", id, err)
	}
	s.releasePort(found.Port)
	return nil
}

// freeEndpointPort returns the port of an endpoint that no machine has.
func (s *Server) freeEndpointPort(id string) (int, error) {
	found, err := s.find(id)
	if err == nil && found.Machine != "" {
		err = fmt.Errorf("%w: machine %s has endpoint %s", host.ErrConflict, found.Machine, id)
	}
	return found.Port, err
}

func (s *Server) holdEndpoint(e host.Endpoint) error {
	alive := e.Machine != "" && s.folder(e.Machine).Process() != 0
	if err := s.hold(e.Port, alive); err != nil {
		return fmt.Errorf("endpoint %s: %w", e.ID, err)
	}
	return nil
}

// hold holds a port that the host or an earlier one has reserved. A machine that is alive holds it, too.
func (s *Server) hold(number int, alive bool) error {
	if s.ports[number] != nil {
		return nil
	}
	port, err := ports.HoldNumber(number)
	if err != nil && alive {
		port, err = ports.Rejoin(number)
	}
	if err != nil {
		return fmt.Errorf("%w: another process uses port %d of %s, which is reserved; end that process", host.ErrPortInUse, number, address)
	}
	s.ports[number] = port
	return nil
}
