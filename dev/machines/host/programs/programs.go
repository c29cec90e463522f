// Package programs implements the multi-call executable of the machine host: it runs the program by whose name the process
// was called. Tests use it with their own executable.
//
//	machinehost [-path DIR] [-end-machines] DIR    the machine host
//	machine, service, await                        called by the host and by bootstrap data (package machine)
package programs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fleet-hub/fleet/dev/machines/host/machine"
	"github.com/fleet-hub/fleet/dev/machines/host/server"
)

// Host is the name of the machine host.
const Host = "machinehost"

// Run runs the program with this command line and returns its exit code. found is false if the name of args[0] is not
// one of the programs.
func Run(args []string) (code int, found bool) {
	known := map[string]func([]string) error{
		Host: runHost, server.ProgramMachine: runMachine, server.ProgramService: runService, server.ProgramAwait: runAwait,
	}
	run, found := known[filepath.Base(args[0])]
	if !found {
		return 0, false
	}
	switch err := run(args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 2, true
	case err != nil:
		_, _ = fmt.Fprintf(os.Stderr, "%s: %s\n", filepath.Base(args[0]), err)
		return 1, true
	default:
		return 0, true
	}
}

func newFlags(name, usage string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.Usage = func() {
		_, _ = fmt.Fprintln(flags.Output(), "usage:", usage)
		flags.PrintDefaults()
	}
	return flags
}

func runHost(args []string) (err error) {
	flags := newFlags(Host, Host+" [-path DIR:DIR] [-end-machines] DIR")
	path := flags.String("path", "", "folders with programs for machines, separated by colons")
	ends := flags.Bool("end-machines", false, "when this process is asked to end or standard input closes, end all machines and remove DIR")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return flag.ErrHelp
	}
	options := server.Options{Dir: flags.Arg(0), Path: filepath.SplitList(*path), Clock: time.Now, //nolint:forbidigo // this is where the clock is made
		Log: func(format string, args ...any) { _, _ = fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	if options.Executable, err = os.Executable(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *ends {
		options.Parent = os.Stdin
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // any end of it is the end of the parent
			stop()
		}()
	}
	host, err := server.Open(options)
	if err != nil {
		return err
	}
	err = host.Serve(ctx)
	if *ends {
		err = errors.Join(err, host.RemoveAll())
	}
	return err
}

func runMachine(args []string) error {
	if len(args) == 0 || len(args) > 2 {
		return errors.New("usage: machine FOLDER (started by the machine host)")
	}
	inheritedPorts()
	options := machine.Options{Folder: machine.Folder(args[0]), Clock: time.Now, Log: os.Stderr} //nolint:forbidigo // this is where the clock is made
	if len(args) == 2 && args[1] == server.FlagParent {
		options.Parent = os.Stdin
	}
	return machine.Run(options)
}

func runService(args []string) error {
	root, err := machineRoot()
	if err != nil {
		return err
	}
	if len(args) < 2 {
		return errors.New("usage: service NAME COMMAND ARGUMENT…")
	}
	return machine.AddService(root, args[0], args[1:])
}

// machineRoot returns the machine in whose bootstrap data this program was called.
func machineRoot() (string, error) {
	for _, variable := range os.Environ() {
		if root, found := strings.CutPrefix(variable, "MACHINE_ROOT="); found && root != "" {
			return root, nil
		}
	}
	return "", errors.New("MACHINE_ROOT is not set: call this command from the bootstrap data of a machine")
}

func runAwait(args []string) error {
	flags := newFlags(server.ProgramAwait, server.ProgramAwait+" [-ca FILE] [-timeout 2m] URL")
	ca := flags.String("ca", "", "file with the certificates to trust")
	atMost := flags.Duration("timeout", 2*time.Minute, "time after which the command fails")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return flag.ErrHelp
	}
	return machine.AwaitURL(context.Background(), flags.Arg(0), *ca, *atMost)
}
