package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Serve handles requests until in is closed or cannot be read. Then it kills every process it has started, waits
// for each, and removes dataDir. It returns an error if the removal fails or a line cannot be read.
//
// Serve starts processes only on the calling goroutine and locks it to its thread: on Linux a child ends when the
// *thread* that forked it ends, so the thread has to live as long as the supervisor. Serve never unlocks it.
func Serve(in io.Reader, out io.Writer, dataDir string) error {
	runtime.LockOSThread()
	s := &server{out: json.NewEncoder(out), dataDir: dataDir, running: map[int64]*exec.Cmd{}}
	readErr := s.read(json.NewDecoder(in))
	s.killAll()
	return errors.Join(readErr, os.RemoveAll(dataDir))
}

type server struct {
	dataDir string
	waiting sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	out     *json.Encoder
	running map[int64]*exec.Cmd
}

func (s *server) read(in *json.Decoder) error {
	for {
		var req request
		if err := in.Decode(&req); errors.Is(err, io.EOF) {
			return nil // the caller closed the pipe or has ended
		} else if err != nil {
			return fmt.Errorf("reading a request: %w", err)
		}
		s.answer(s.handle(req))
	}
}

func (s *server) handle(req request) answer {
	var pid int
	var err error
	switch {
	case req.Start != nil:
		pid, err = s.start(req.ID, *req.Start)
	case req.Signal != nil:
		err = s.signal(*req.Signal)
	default:
		err = errors.New("the request has neither start nor signal")
	}
	if err != nil {
		return answer{ID: req.ID, Error: err.Error()}
	}
	return answer{ID: req.ID, PID: pid}
}

func (s *server) start(id int64, c Command) (int, error) {
	attributes, err := attributesOf(c)
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", c.Path, err)
	}
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, fmt.Errorf("opening the log of %s: %w", c.Path, err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy of the descriptor
	cmd := &exec.Cmd{Path: c.Path, Args: append([]string{c.Path}, c.Args...), Env: c.Env, Dir: c.Dir,
		Stdout: log, Stderr: log, SysProcAttr: attributes}
	if cmd.Dir == "" {
		cmd.Dir = s.dataDir
	}
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would inherit the environment
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting %s: %w", c.Path, err)
	}
	s.mu.Lock()
	s.running[id] = cmd
	s.mu.Unlock()
	s.waiting.Go(func() { s.wait(id, cmd) })
	return cmd.Process.Pid, nil
}

func (s *server) wait(id int64, cmd *exec.Cmd) {
	_ = cmd.Wait() // the process state is reported below
	s.mu.Lock()
	delete(s.running, id)
	s.mu.Unlock()
	s.answer(answer{Exit: &exit{Process: id, Status: statusOf(cmd.ProcessState)}})
}

func statusOf(state *os.ProcessState) Status {
	status := Status{Code: state.ExitCode(), Text: state.String()}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		status.Signal = int(ws.Signal())
	}
	return status
}

// signal sends a signal to a running process. For a process that has ended it does nothing, because the caller
// receives the message about the end anyway.
func (s *server) signal(req signalRequest) error {
	s.mu.Lock()
	cmd := s.running[req.Process]
	s.mu.Unlock()
	if cmd == nil {
		return nil
	}
	err := cmd.Process.Signal(syscall.Signal(req.Signal))
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

func (s *server) killAll() {
	s.mu.Lock()
	for _, cmd := range s.running {
		_ = cmd.Process.Kill() // fails only if the process has ended
	}
	s.mu.Unlock()
	s.waiting.Wait()
}

// answer drops an answer that cannot be written: the caller has ended, and the next read reports it.
func (s *server) answer(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(a)
}
