// Package supervise starts processes that end when their caller ends.
//
// A small child process, the supervisor, starts the processes. It holds a pipe to its caller. The pipe closes when the
// caller stops the supervisor, ends, panics or is killed. Then the supervisor kills what it has started and removes
// the data directory.
//
//	Client ─ JSON lines over stdin/stdout ─► Serve ─► processes
//	   └── pipe closes ──────────────────────────────► all killed, data directory removed
package supervise

// request is one line from the caller. Exactly one of its pointers is set.
type request struct {
	// ID is chosen by the caller. The ID of a start request also identifies the started process.
	ID     int64          `json:"id"`
	Start  *Command       `json:"start,omitempty"`
	Signal *signalRequest `json:"signal,omitempty"`
}

type signalRequest struct {
	Process int64 `json:"process"`
	Signal  int   `json:"signal"`
}

// Command describes a process to start. It inherits nothing from the supervisor: no environment and no standard
// input.
type Command struct {
	// Path is the absolute path of the executable.
	Path string `json:"path"`
	// Args are the arguments after argv[0], which is Path.
	Args []string `json:"args,omitempty"`
	// Env is the complete environment, as KEY=value.
	Env []string `json:"env,omitempty"`
	// Dir is the working directory. Empty means the data directory.
	Dir string `json:"dir,omitempty"`
	// Log is the file to which standard output and standard error are appended. It is created if missing.
	Log string `json:"log"`
	// Isolated gives the process its own network, mount, PID, IPC and UTS namespaces. They end with it, and so
	// does everything that runs in them. The process sees the caller's mounts until it changes them. Isolated
	// requires Linux and root.
	Isolated bool `json:"isolated,omitempty"`
}

// answer is one line from the supervisor: the reply to a request, or, if Exit is set, the message that a process
// has ended.
type answer struct {
	ID    int64  `json:"id,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Error string `json:"error,omitempty"`
	Exit  *exit  `json:"exit,omitempty"`
}

type exit struct {
	Process int64 `json:"process"`
	Status
}

// Status describes how a process ended.
type Status struct {
	// Code is the exit code, or -1 if a signal ended the process.
	Code int `json:"code"`
	// Signal is the number of the signal that ended the process, or 0.
	Signal int `json:"signal,omitempty"`
	// Text describes the same in words, as os.ProcessState does: "exit status 2", "signal: killed".
	Text string `json:"text"`
}
