package provider

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleet-hub/fleet/dev/machines/host"
	"github.com/fleet-hub/fleet/dev/machines/labcluster"
	"github.com/fleet-hub/fleet/dev/machines/labconfig"
	"github.com/fleet-hub/fleet/dev/machines/labcontrolplane"
	"github.com/fleet-hub/fleet/dev/machines/labmachine"
	"github.com/fleet-hub/fleet/dev/machines/manager"
	"github.com/fleet-hub/fleet/internal/logging"
)

// Program is the name of the executable that runs the provider.
const Program = "machineprovider"

// options are the command line.
type options struct {
	kubeconfig, socket, ready string
}

// Run runs the program with this command line, logs to out, and returns its exit code. found is false if args[0] is
// another program. Tests run it with their own executable.
func Run(args []string, out io.Writer) (code int, found bool) {
	if filepath.Base(args[0]) != Program {
		return 0, false
	}
	o, err := parse(args[1:], out)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = run(ctx, o, out)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 2, true
	case err != nil:
		_, _ = fmt.Fprintf(out, "%s: %v\n", Program, err) // a failed write cannot be reported
		return 1, true
	}
	return 0, true
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet(Program, flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`path` of the management cluster's kubeconfig")
	flags.StringVar(&o.socket, "host", "", "`path` of the machine host's socket")
	flags.StringVar(&o.ready, "ready-file", "", "`path` of a file to create when the controllers run")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.kubeconfig == "":
		return o, errors.New("--kubeconfig is missing: set it to the path of a kubeconfig")
	case o.socket == "":
		return o, errors.New("--host is missing: set it to the socket of a machine host")
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return o, nil
}

// run works until ctx ends.
func run(ctx context.Context, o options, out io.Writer) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	lines := logging.Options{Writer: out}
	log := logging.New(lines)
	logging.Bridge(log, lines)
	m, err := manager.New(unlimited(config), log, time.Now) //nolint:forbidigo // this is where the clock is made
	if err != nil {
		return err
	}
	if err := register(ctx, m, o.socket); err != nil {
		return err
	}
	if err := m.Start(ctx); err != nil {
		return err
	}
	log.Info("controllers started")
	if o.ready != "" {
		if err := os.WriteFile(o.ready, nil, 0o600); err != nil {
			return fmt.Errorf("creating the ready file: %w", err)
		}
	}
	<-ctx.Done()
	return nil
}

// register adds the controllers of all kinds.
func register(ctx context.Context, m *manager.Context, socket string) error {
	client := host.NewClient(socket)
	for _, add := range []func() error{
		func() error { return labcluster.Register(ctx, m, client) },
		func() error { return labconfig.Register(ctx, m) },
		func() error { return labcontrolplane.Register(ctx, m) },
		func() error { return labmachine.Register(ctx, m, labmachine.Options{Host: client, Socket: socket}) },
	} {
		if err := add(); err != nil {
			return fmt.Errorf("registering controllers: %w", err)
		}
	}
	return nil
}

// unlimited removes the client's rate limit, which would delay clusters that start at once. The API server has its own.
func unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.UserAgent = Program
	return config
}
