package supervise

import (
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a supervisor: it serves requests until standard input is closed or a signal arrives. The caller
// cleans up the rest and then calls KillOwnGroup.
func Main(dataDir string) error {
	in, stop := io.Pipe()
	go func() {
		_, err := io.Copy(stop, os.Stdin)
		_ = stop.CloseWithError(err) // nil means end of file
	}()
	// A write to the pipe of a caller that has ended must return an error. It must not end this process, which
	// has to clean up. signal.Ignore would be inherited by the children.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		_ = stop.Close()
	}()
	return Serve(in, os.Stdout, dataDir)
}
