package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fleet-hub/fleet/dev/machines/host/machine"
)

const (
	// firstPause is the pause between two starts of a machine whose process ends. It doubles up to longestPause. A
	// process that has run for steady resets it.
	firstPause   = 250 * time.Millisecond
	longestPause = 30 * time.Second
	steady       = 10 * time.Second
)

// reconcile compares all folders with the processes.
func (s *Server) reconcile() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids, err := s.ids()
	if err != nil {
		s.options.Log("%s", err)
		return
	}
	for _, id := range ids {
		s.reconcileMachine(id)
	}
	s.continueDeletions()
	if err := s.holdEndpoints(); err != nil {
		s.options.Log("%s", err)
	}
}

// reconcileMachine does what one machine needs. The caller holds s.mu.
func (s *Server) reconcileMachine(id string) {
	o, err := s.observe(id)
	if err == nil {
		switch decide(o) {
		case start:
			err = s.startIfDue(o)
		case nothing:
			err = s.holdPort(o)
		}
	}
	s.note(id, err)
}

// note remembers and logs a problem of a machine when it changes.
func (s *Server) note(id string, err error) {
	if err == nil {
		delete(s.problems, id)
		return
	}
	if text := err.Error(); s.problems[id] != text {
		s.problems[id] = text
		s.options.Log("machine %s: %s", id, text)
	}
}

func (s *Server) continueDeletions() {
	marked, err := idsIn(s.deleted())
	if err != nil {
		s.options.Log("%s", err)
	}
	for _, id := range marked {
		go s.logDeletion(id)
	}
}

// logDeletion continues a deletion that an earlier host or request has begun. Without success, the next
// reconciliation tries again.
func (s *Server) logDeletion(id string) {
	if err := s.finishDeletion(id); err != nil {
		s.options.Log("%s", err)
	}
}

func (s *Server) holdEndpoints() error {
	ids, err := s.endpointIDs()
	if err != nil {
		return err
	}
	owners, err := s.owners()
	if err != nil {
		return err
	}
	for _, id := range ids {
		endpoint, err := s.endpoint(id, owners)
		if err == nil {
			err = s.holdEndpoint(endpoint)
		}
		s.note("endpoint/"+id, err)
	}
	return nil
}

// holdPort holds the machine's port. A machine that never runs needs none.
func (s *Server) holdPort(o observed) error {
	if o.spec.Port == 0 || o.broken != "" {
		return nil
	}
	return s.hold(o.spec.Port, o.alive)
}

// startIfDue starts a machine, unless it has just started or its pause is not over.
func (s *Server) startIfDue(o observed) error {
	now, last := s.options.Clock(), s.attempts[o.spec.ID]
	switch {
	case last.running:
		return nil
	case now.Sub(last.began) < last.pause && last.how != "":
		return fmt.Errorf("the machine's process ended (%s); its log says why", last.how)
	case now.Sub(last.began) < last.pause:
		return nil
	}
	next := attempt{began: now, pause: min(max(2*last.pause, firstPause), longestPause)}
	if now.Sub(last.began) >= steady+last.pause {
		next.pause = firstPause
	}
	s.attempts[o.spec.ID] = next
	if err := s.holdPort(o); err != nil {
		return err
	}
	// Programs of a machine whose process was killed may have survived it.
	if err := machine.EndProcesses(s.folder(o.spec.ID)); err != nil {
		return err
	}
	return s.spawn(o.spec)
}

// spawn starts the machine's process in a session and group of its own. It survives this process.
func (s *Server) spawn(spec machine.Spec) error {
	folder := s.folder(spec.ID)
	log, err := os.OpenFile(folder.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the machine's log: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy of the descriptor
	program := filepath.Join(s.bin(), ProgramMachine)
	cmd := &exec.Cmd{Path: program, Args: []string{program, string(folder)}, Env: s.environment(spec), Dir: folder.Root(),
		Stdout: log, Stderr: log, SysProcAttr: ownSession()}
	if s.options.Parent != nil {
		cmd.Stdin = s.options.Parent
		cmd.Args = append(cmd.Args, FlagParent)
	}
	cmd.ExtraFiles = s.ports[spec.Port].Files()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the machine: %w", err)
	}
	s.setAttempt(spec.ID, true, "")
	go func() {
		_ = cmd.Wait() // the state says how it ended
		s.mu.Lock()
		s.setAttempt(spec.ID, false, cmd.ProcessState.String())
		s.mu.Unlock()
		select {
		case s.changed <- struct{}{}:
		default: // a change is waiting already
		}
	}()
	return nil
}

// FlagParent is the second argument of a machine whose standard input is the pipe Options.Parent.
const FlagParent = "--end-with-stdin"

func (s *Server) setAttempt(id string, running bool, how string) {
	if last, found := s.attempts[id]; found {
		last.running, last.how = running, how
		s.attempts[id] = last
	}
}

// environment is the complete environment of a machine.
func (s *Server) environment(spec machine.Spec) []string {
	root := s.folder(spec.ID).Root()
	path := append([]string{s.bin()}, s.options.Path...)
	path = append(path, "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")
	env := []string{
		"MACHINE_ROOT=" + root, "MACHINE_ID=" + spec.ID, "MACHINE_ADDRESS=" + address, "MACHINE_PORT=" + strconv.Itoa(spec.Port),
		"HOME=" + root, "TMPDIR=" + filepath.Join(root, "tmp"), "PATH=" + strings.Join(path, ":"),
	}
	for i, port := range spec.ExtraPorts {
		env = append(env, fmt.Sprintf("MACHINE_PORT_%d=%d", i+1, port))
	}
	return env
}
