// Package supervise starts processes that cannot outlive the one who asked for them.
//
// A small child process, the supervisor, does the forking. It holds a pipe to its caller: when the
// pipe closes, because the caller stopped it, ended, panicked or was killed, the supervisor kills
// what it started and removes the data folder.
//
//	Client ─ JSON lines over stdin/stdout ─► Serve ─► processes
//	   └── pipe closes ──────────────────────────────► all killed, data folder removed
package supervise

// request is one line from the caller. Exactly one of its pointers is set.
type request struct {
	// ID is chosen by the caller; a started process is known by the ID of the request that started it.
	ID     int64          `json:"id"`
	Start  *Command       `json:"start,omitempty"`
	Signal *signalRequest `json:"signal,omitempty"`
}

type signalRequest struct {
	Process int64 `json:"process"`
	Signal  int   `json:"signal"`
}

// Command is a process to start. It inherits nothing from the supervisor: no environment, no standard input.
type Command struct {
	// Path is the absolute path of the executable.
	Path string `json:"path"`
	// Args are the arguments after argv[0], which is Path.
	Args []string `json:"args,omitempty"`
	// Env is the whole environment, KEY=value.
	Env []string `json:"env,omitempty"`
	// Dir is the working directory; empty means the data folder.
	Dir string `json:"dir,omitempty"`
	// Log is the file both outputs are appended to; it is created where missing.
	Log string `json:"log"`
	// Isolated gives the process network, mount, PID, IPC and host name namespaces of its own, which end with it and
	// take all that runs in them along. It sees the caller's mounts until it changes that. Linux, and root, only.
	Isolated bool `json:"isolated,omitempty"`
}

// answer is one line from the supervisor: the reply to a request, or, with Exit set, the news that
// a process has ended.
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

// Status is how a process ended.
type Status struct {
	// Code is the exit code, or -1 when a signal ended the process.
	Code int `json:"code"`
	// Signal is the number of the signal that ended the process, else 0.
	Signal int `json:"signal,omitempty"`
	// Text says the same in words, as os.ProcessState does: "exit status 2", "signal: killed".
	Text string `json:"text"`
}
