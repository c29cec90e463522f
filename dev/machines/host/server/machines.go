package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/host/machine"
	"github.com/fleet-hub/fleet/dev/plane/ports"
)

// unfinished begins the names of folders that are not machines yet.
const unfinished = ".new-"

func (s *Server) folder(id string) machine.Folder {
	return machine.Folder(filepath.Join(s.machines(), id))
}

func (s *Server) deletedMark(id string) string {
	return filepath.Join(string(s.folder(id)), "deleted")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// ids returns the sorted IDs of all machines.
func (s *Server) ids() ([]string, error) {
	entries, err := os.ReadDir(s.machines())
	if err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	var ids []string
	for _, entry := range entries {
		if entry.IsDir() && host.CheckID(entry.Name()) == nil {
			ids = append(ids, entry.Name())
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// observe gathers everything about a machine. The caller holds s.mu.
func (s *Server) observe(id string) (observed, error) {
	folder := s.folder(id)
	if !exists(string(folder)) {
		return observed{}, fmt.Errorf("machine %s: %w", id, host.ErrNotFound)
	}
	o := observed{deleting: exists(s.deletedMark(id)), problem: s.problems[id]}
	o.alive = folder.Process() != 0
	var err, recordErr error
	o.spec, err = folder.Spec()
	o.record, recordErr = folder.Record()
	if o.deleting {
		o.spec.ID = id
		return o, nil // some files may be removed already
	}
	return o, errors.Join(err, recordErr)
}

func (s *Server) status(id string) (host.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.observe(id)
	return statusOf(o), err
}

func (s *Server) list() ([]host.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids, err := s.ids()
	all := make([]host.Status, 0, len(ids))
	for _, id := range ids {
		o, observeErr := s.observe(id)
		if observeErr != nil && !errors.Is(observeErr, host.ErrNotFound) {
			err = errors.Join(err, observeErr)
		}
		all = append(all, statusOf(o))
	}
	return all, err
}

// create creates a machine, or returns the status of the same one.
func (s *Server) create(id string, wanted host.Machine) (host.Status, error) {
	if err := check(wanted); err != nil {
		return host.Status{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if exists(s.deletedMark(id)) {
		if err := s.finishDeletion(id); err != nil {
			return host.Status{}, err
		}
	}
	if o, err := s.observe(id); err == nil {
		return statusOf(o), sameMachine(o.spec, wanted)
	} else if !errors.Is(err, host.ErrNotFound) {
		return host.Status{}, err
	}
	if err := s.add(id, wanted); err != nil {
		return host.Status{}, err
	}
	s.reconcileMachine(id)
	o, err := s.observe(id)
	return statusOf(o), err
}

func check(wanted host.Machine) error {
	switch {
	case len(wanted.BootstrapData) > host.MaxBootstrapData:
		return fmt.Errorf("%w: the bootstrap data has %d bytes; at most %d are accepted", host.ErrInvalid, len(wanted.BootstrapData), host.MaxBootstrapData)
	case wanted.ExtraPorts < 0 || wanted.ExtraPorts > host.MaxExtraPorts:
		return fmt.Errorf("%w: %d extra ports; 0 to %d are accepted", host.ErrInvalid, wanted.ExtraPorts, host.MaxExtraPorts)
	case wanted.Endpoint != "":
		return host.CheckID(wanted.Endpoint)
	default:
		return nil
	}
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func sameMachine(spec machine.Spec, wanted host.Machine) error {
	var differs []string
	if spec.DataHash != hashOf(wanted.BootstrapData) {
		differs = append(differs, "bootstrap data")
	}
	if spec.Endpoint != wanted.Endpoint {
		differs = append(differs, "endpoint")
	}
	if len(spec.ExtraPorts) != wanted.ExtraPorts {
		differs = append(differs, "extra ports")
	}
	if len(differs) > 0 {
		return fmt.Errorf("%w: machine %s exists with other %s; delete it first", host.ErrConflict, spec.ID, strings.Join(differs, ", "))
	}
	return nil
}

// add reserves the ports of a new machine and creates its folder.
func (s *Server) add(id string, wanted host.Machine) error {
	ids, err := s.ids()
	if err != nil {
		return err
	}
	if !hasRoomFor(len(ids), host.MaxMachines) {
		return fmt.Errorf("%w: there are %d machines; delete some first", host.ErrFull, len(ids))
	}
	spec := machine.Spec{ID: id, Endpoint: wanted.Endpoint, DataHash: hashOf(wanted.BootstrapData)}
	if wanted.Endpoint != "" {
		if spec.Port, err = s.freeEndpointPort(wanted.Endpoint); err != nil {
			return err
		}
	}
	held, err := s.reservePorts(&spec, wanted.ExtraPorts)
	if err == nil {
		err = s.createFolder(spec, wanted.BootstrapData)
	}
	if err != nil {
		s.releasePorts(held)
		return err
	}
	return nil
}

// reservePorts adds free ports to the spec and returns them.
func (s *Server) reservePorts(spec *machine.Spec, extra int) (held []int, err error) {
	missing := extra
	if spec.Port == 0 {
		missing++
	}
	for range missing {
		port, err := ports.Hold()
		if err != nil {
			return held, fmt.Errorf("%w: %w", host.ErrFull, err)
		}
		s.ports[port.Number()] = port
		held = append(held, port.Number())
	}
	spec.ExtraPorts = held
	if spec.Port == 0 {
		spec.Port, spec.ExtraPorts = held[0], held[1:]
	}
	return held, nil
}

func (s *Server) releasePorts(numbers []int) {
	for _, number := range numbers {
		if port := s.ports[number]; port != nil {
			port.Release()
			delete(s.ports, number)
		}
	}
}

// createFolder makes the machine exist: its folder appears with all its files.
func (s *Server) createFolder(spec machine.Spec, data []byte) error {
	work := filepath.Join(s.machines(), unfinished+spec.ID)
	err := os.RemoveAll(work)
	if err == nil {
		err = machine.Folder(work).Prepare(spec, data)
	}
	if err == nil {
		err = os.Rename(work, string(s.folder(spec.ID)))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("creating machine %s: %w", spec.ID, err), os.RemoveAll(work))
	}
	return nil
}

// removeUnfinished removes folders that an earlier host did not complete.
func (s *Server) removeUnfinished() error {
	found, err := filepath.Glob(filepath.Join(s.machines(), unfinished+"*"))
	for _, folder := range found {
		err = errors.Join(err, removeFolder(folder))
	}
	return err
}

// remove deletes a machine. If the host is killed meanwhile, its successor continues.
func (s *Server) remove(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !exists(string(s.folder(id))) {
		return nil
	}
	if err := os.WriteFile(s.deletedMark(id), nil, 0o600); err != nil {
		return fmt.Errorf("deleting machine %s: %w", id, err)
	}
	return s.finishDeletion(id)
}

// finishDeletion ends the machine's processes, removes its folder and frees its ports. The mark is removed last.
func (s *Server) finishDeletion(id string) error {
	folder := s.folder(id)
	spec, _ := folder.Spec() // a part of the folder may be removed; then the ports are free already
	if err := machine.EndProcesses(folder); err != nil {
		return fmt.Errorf("deleting machine %s: %w", id, err)
	}
	gone := filepath.Join(s.machines(), unfinished+id)
	if err := errors.Join(removeFolder(gone), os.Rename(string(folder), gone), removeFolder(gone)); err != nil {
		return fmt.Errorf("deleting machine %s: %w", id, err)
	}
	own := spec.ExtraPorts
	if spec.Endpoint == "" {
		own = append(slices.Clone(own), spec.Port)
	}
	s.releasePorts(own)
	delete(s.attempts, id)
	delete(s.problems, id)
	return nil
}

// removeFolder removes a folder, also if its content cannot be entered.
func removeFolder(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, openErr := os.OpenRoot(dir)
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	defer func() { _ = root.Close() }() // its content is removed
	_ = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			_ = root.Chmod(path, 0o700) // the second removal reports what is left
		}
		return nil
	})
	return os.RemoveAll(dir)
}
