package supervise

import (
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main is a supervisor's whole life: it serves the requests on standard input until that is closed, or until
// somebody asks it to end. Its caller cleans up what is left, and ends with KillOwnGroup.
func Main(dataDir string) error {
	in, stop := io.Pipe()
	go func() {
		_, err := io.Copy(stop, os.Stdin)
		_ = stop.CloseWithError(err) // nil means end of file
	}()
	// A write to the pipe of a caller that is gone must be an error, not the end: there is still the
	// cleaning up to do. Not signal.Ignore, which the children would inherit.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		_ = stop.Close()
	}()
	return Serve(in, os.Stdout, dataDir)
}
