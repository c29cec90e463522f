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

// Folders that are not machines yet or no longer. An ID does not begin with a dot.
const (
	unfinished = ".new-"
	removing   = ".removing-"
)

func (s *Server) folder(id string) machine.Folder {
	return machine.Folder(filepath.Join(s.machines(), id))
}

// deletedMark is outside of the machine's folder, which the machine's commands can change.
func (s *Server) deletedMark(id string) string { return filepath.Join(s.deleted(), id) }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// ids returns the sorted IDs of all machines.
func (s *Server) ids() ([]string, error) { return idsIn(s.machines()) }

// idsIn returns the sorted names of a folder that are IDs.
func idsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	var ids []string
	for _, entry := range entries {
		if host.CheckID(entry.Name()) == nil {
			ids = append(ids, entry.Name())
		}
	}
	return ids, nil
}

// observe gathers everything about a machine. The caller holds s.mu.
func (s *Server) observe(id string) (observed, error) {
	folder := s.folder(id)
	if !exists(string(folder)) {
		return observed{}, fmt.Errorf("machine %s: %w", id, host.ErrNotFound)
	}
	o := observed{deleting: exists(s.deletedMark(id)), problem: s.problems[id], alive: folder.Process() != 0}
	var err, recordErr error
	o.spec, err = folder.Spec()
	o.record, recordErr = folder.Record()
	o.spec.ID = id
	if err = errors.Join(err, recordErr); err != nil {
		o.broken = err.Error()
	}
	return o, nil
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
		if o, err := s.observe(id); err == nil { // it exists: the lock is held
			all = append(all, statusOf(o))
		}
	}
	return all, err
}

// create creates a machine, or returns the status of the same one.
func (s *Server) create(id string, wanted host.Machine) (host.Status, error) {
	if err := check(wanted); err != nil {
		return host.Status{}, err
	}
	if exists(s.deletedMark(id)) {
		if err := s.finishDeletion(id); err != nil {
			return host.Status{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
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
	if len(ids) >= host.MaxMachines {
		return fmt.Errorf("%w: there are %d machines; delete some first", host.ErrFull, len(ids))
	}
	spec := machine.Spec{ID: id, Endpoint: wanted.Endpoint, DataHash: hashOf(wanted.BootstrapData)}
	if wanted.Endpoint != "" {
		if spec.Port, err = s.freeEndpointPort(wanted.Endpoint); err != nil {
			return err
		}
	}
	taken := s.extraPorts(ids)
	if spec.ExtraPorts, err = freePorts(taken, wanted.ExtraPorts); err != nil {
		return err
	}
	var held *ports.Port
	if spec.Port == 0 {
		if held, err = holdFree(append(taken, spec.ExtraPorts...)); err != nil {
			return err
		}
		spec.Port = held.Number()
	}
	err = s.createFolder(spec, wanted.BootstrapData)
	switch {
	case held == nil:
	case err != nil:
		held.Release()
	default:
		s.ports[spec.Port] = held
	}
	return err
}

// extraPorts returns the extra ports of machines.
func (s *Server) extraPorts(ids []string) []int {
	var taken []int
	for _, id := range ids {
		spec, _ := s.folder(id).Spec() // a machine whose files cannot be read runs no program
		taken = append(taken, spec.ExtraPorts...)
	}
	return taken
}

// freePorts returns free ports that are not taken.
func freePorts(taken []int, count int) ([]int, error) {
	if count == 0 {
		return nil, nil
	}
	free, err := ports.Free(count + len(taken))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", host.ErrFull, err)
	}
	return slices.DeleteFunc(free, func(number int) bool { return slices.Contains(taken, number) })[:count], nil
}

// holdFree holds a free port that is not taken.
func holdFree(taken []int) (*ports.Port, error) {
	for {
		port, err := ports.Hold()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", host.ErrFull, err)
		}
		if !slices.Contains(taken, port.Number()) {
			return port, nil
		}
		defer port.Release() // held until another one is found, so that each is tried once
	}
}

func (s *Server) releasePort(number int) {
	if port := s.ports[number]; port != nil {
		port.Release()
		delete(s.ports, number)
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

// removeUnfinished removes folders that an earlier host did not complete or remove.
func (s *Server) removeUnfinished() error {
	found, err := filepath.Glob(filepath.Join(s.machines(), ".*"))
	for _, folder := range found {
		err = errors.Join(err, removeFolder(folder))
	}
	return err
}

// remove deletes a machine. If the host is killed meanwhile, its successor continues. It also ends processes of a
// machine that has removed its own folder.
func (s *Server) remove(id string) error {
	if err := s.markDeleted(id); err != nil {
		return fmt.Errorf("deleting machine %s: %w", id, err)
	}
	return s.finishDeletion(id)
}

func (s *Server) markDeleted(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return os.WriteFile(s.deletedMark(id), nil, 0o600)
}

// finishDeletion ends the processes of a marked machine, removes its folder and frees its port. Concurrent calls for one
// machine do it once. The caller does not hold s.mu, because processes may need some time to end.
func (s *Server) finishDeletion(id string) error {
	_, err, _ := s.deletions.Do(id, func() (any, error) { return nil, s.deleteMarked(id) })
	if err != nil {
		return fmt.Errorf("deleting machine %s: %w", id, err)
	}
	return nil
}

func (s *Server) deleteMarked(id string) error {
	if !exists(s.deletedMark(id)) {
		return nil // an earlier call has deleted it
	}
	if err := machine.EndProcesses(s.folder(id)); err != nil {
		return err
	}
	removed := filepath.Join(s.machines(), removing+id)
	if err := errors.Join(removeFolder(removed), s.moveAway(id, removed)); err != nil {
		return err
	}
	return removeFolder(removed)
}

// moveAway makes a marked machine disappear and then removes the mark, so that it can be created again.
func (s *Server) moveAway(id, removed string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	spec, specErr := s.folder(id).Spec()
	if err := os.Rename(string(s.folder(id)), removed); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if specErr == nil && spec.Endpoint == "" {
		s.releasePort(spec.Port)
	}
	delete(s.attempts, id)
	delete(s.problems, id)
	return os.Remove(s.deletedMark(id))
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
