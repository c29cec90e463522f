package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// ErrGone means that the supervisor and everything it has started have ended.
var ErrGone = errors.New("the supervisor has ended")

// Options configures a supervisor.
type Options struct {
	// Binary is the path of the supervisor's executable (dev/plane/supervisor).
	Binary string
	// DataDir is the supervisor's working directory. The supervisor removes it at its end.
	DataDir string
	// Log is the file for the supervisor's own errors.
	Log string
	// Files are open in the supervisor while it runs, from descriptor 3 on. They are mostly locks.
	Files []*os.File
}

// Client sends requests to one supervisor. Its methods may be called from any goroutine.
type Client struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	gone  chan struct{} // closed when the supervisor's output has ended

	writing  sync.Mutex // serializes requests; separate from mu, so that a full pipe does not block the reading of answers
	requests *json.Encoder

	mu        sync.Mutex // guards the fields below
	lastID    int64
	replies   map[int64]chan answer
	processes map[int64]*Process
}

// Process is a process that the supervisor has started.
type Process struct {
	// PID is for messages and tests. To signal the process use Signal, which never hits another process.
	PID int

	id     int64
	client *Client
	done   chan struct{}
	status Status
}

// Launch starts a supervisor in its own process group. Ctrl-C on a terminal does not reach it, so it can clean up
// after an interrupted caller.
func Launch(o Options) (*Client, error) {
	log, err := os.OpenFile(o.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the supervisor's log: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy of the descriptor
	cmd := exec.Command(o.Binary, o.DataDir)
	cmd.Stderr = log
	cmd.ExtraFiles = o.Files
	cmd.SysProcAttr = ownGroup()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("creating the supervisor's input pipe: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("creating the supervisor's output pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the supervisor: %w", err)
	}
	c := newClient(stdin, stdout)
	c.cmd = cmd
	return c, nil
}

// Local serves requests in this process, without a supervisor. The processes are children of this process and stay in its
// process group, so a signal to the group ends all of them. On Linux they also end when this process ends for any reason.
// Close ends them and removes dataDir.
func Local(dataDir string) *Client {
	requests, stdin := io.Pipe()
	stdout, answers := io.Pipe()
	c := newClient(stdin, stdout)
	go func() { _ = answers.CloseWithError(Serve(requests, answers, dataDir)) }() // the reader stops at any error
	return c
}

func newClient(stdin io.WriteCloser, stdout io.Reader) *Client {
	c := &Client{stdin: stdin, gone: make(chan struct{}), requests: json.NewEncoder(stdin),
		replies: map[int64]chan answer{}, processes: map[int64]*Process{}}
	go c.read(json.NewDecoder(stdout))
	return c
}

// Start starts a process and returns when it was forked.
func (c *Client) Start(command Command) (*Process, error) {
	p := &Process{client: c, done: make(chan struct{})}
	reply, err := c.ask(request{Start: &command}, p)
	if err != nil {
		return nil, err
	}
	p.PID = reply.PID
	return p, nil
}

// PID returns the supervisor's own process ID, for messages and tests. Without a supervisor it is this process.
func (c *Client) PID() int {
	if c.cmd == nil {
		return os.Getpid()
	}
	return c.cmd.Process.Pid
}

// Gone is closed when the supervisor has ended.
func (c *Client) Gone() <-chan struct{} { return c.gone }

// Close ends the supervisor and the processes it has started, removes its data directory, and returns when this
// is done.
func (c *Client) Close() error {
	if err := c.stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("closing the supervisor's pipe: %w", err)
	}
	<-c.gone
	if c.cmd == nil {
		return nil
	}
	_ = c.cmd.Wait() // the supervisor kills its own process group, so its exit state has no meaning
	return nil
}

// Signal sends sig to the process. It returns nil if the process has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	_, err := p.client.ask(request{Signal: &signalRequest{Process: p.id, Signal: int(sig)}}, nil)
	return err
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status returns how the process ended. Call it only after Done is closed.
func (p *Process) Status() Status { return p.status }

// ask sends a request and waits for its reply. It registers a process before it sends the request, because the
// message about the process' end may follow directly after the reply.
func (c *Client) ask(req request, starting *Process) (answer, error) {
	reply := make(chan answer, 1)
	c.mu.Lock()
	c.lastID++
	req.ID = c.lastID
	c.replies[req.ID] = reply
	if starting != nil {
		starting.id = req.ID
		c.processes[req.ID] = starting
	}
	c.mu.Unlock()
	c.writing.Lock()
	err := c.requests.Encode(req)
	c.writing.Unlock()
	if err != nil {
		return answer{}, c.forget(req.ID, fmt.Errorf("%w: %w", ErrGone, err))
	}
	select {
	case got := <-reply:
		if got.Error != "" {
			return answer{}, c.forget(req.ID, errors.New(got.Error))
		}
		return got, nil
	case <-c.gone:
		return answer{}, c.forget(req.ID, ErrGone)
	}
}

func (c *Client) forget(id int64, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.replies, id)
	delete(c.processes, id) // exists only for a start
	return err
}

func (c *Client) read(in *json.Decoder) {
	for {
		var a answer
		if err := in.Decode(&a); err != nil {
			break // after any read error there are no more answers
		}
		if a.Exit != nil {
			c.ended(a.Exit.Process, a.Exit.Status)
			continue
		}
		c.mu.Lock()
		reply := c.replies[a.ID]
		delete(c.replies, a.ID)
		c.mu.Unlock()
		if reply != nil {
			reply <- a
		}
	}
	close(c.gone)
	c.mu.Lock()
	left := make([]int64, 0, len(c.processes))
	for id := range c.processes {
		left = append(left, id)
	}
	c.mu.Unlock()
	for _, id := range left {
		c.ended(id, Status{Code: -1, Text: ErrGone.Error()})
	}
}

func (c *Client) ended(id int64, status Status) {
	c.mu.Lock()
	p := c.processes[id]
	delete(c.processes, id)
	c.mu.Unlock()
	if p == nil {
		return // the caller no longer waits for this start
	}
	p.status = status
	close(p.done)
}
