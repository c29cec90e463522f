package pods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/dev/plane/podrunner"
	"github.com/fleet-hub/fleet/dev/plane/ports"
	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

// Options configures a podrunner. Paths may be relative to the working directory.
type Options struct {
	// Kubeconfig is the path of an administrator's kubeconfig. Pods get a kubeconfig with the same server and CA, and with
	// a token of their ServiceAccount.
	Kubeconfig string
	// Dir is the directory of the pods' credentials and temporary files. Run empties it, and removes it at its end.
	Dir string
	// LogDir is the directory of the pods' logs. It is created if missing, and kept.
	LogDir string
	// Binaries maps a container's command, without its directory, to an executable: its absolute path, or its name on the
	// PATH. A pod whose executable does not exist reports it in its status.
	Binaries map[string]string
}

// errOptions means that an option is missing or invalid.
var errOptions = errors.New("invalid flags")

func (o Options) validate() error {
	for flag, value := range map[string]string{"kubeconfig": o.Kubeconfig, "dir": o.Dir, "log-dir": o.LogDir} {
		if value == "" {
			return fmt.Errorf("%w: --%s is required", errOptions, flag)
		}
	}
	for _, command := range sortedKeys(o.Binaries) {
		if path := o.Binaries[command]; path == "" || strings.ContainsRune(path, filepath.Separator) && !filepath.IsAbs(path) {
			return fmt.Errorf("%w: --binary: %s=%s is neither an absolute path nor a name on the PATH", errOptions, command, path)
		}
	}
	return nil
}

// Run runs the cluster's pods until ctx is done, and then kills their processes. It waits for an API server that does not
// answer.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if o.Dir, o.LogDir, err = directories(o); err != nil {
		return err
	}
	processes := supervise.Local(o.Dir)
	defer func() { err = errors.Join(err, processes.Close()) }()
	runner, err := newRunner(o, config, processes)
	if err != nil {
		return err
	}
	runner.Run(ctx)
	wait := runner.Close()
	err = processes.Close()
	wait() // short, because the processes have been killed
	return err
}

// executables resolves names on the PATH. A name that is not there stays, so that its pods report it.
func executables(binaries map[string]string) map[string]string {
	resolved := maps.Clone(binaries)
	for command, name := range binaries {
		if path, err := exec.LookPath(name); err == nil {
			resolved[command] = path
		}
	}
	return resolved
}

// directories empties Dir, creates both directories and returns their absolute paths: processes run in others.
func directories(o Options) (dir, logDir string, err error) {
	if dir, err = filepath.Abs(o.Dir); err != nil {
		return "", "", err
	}
	if logDir, err = filepath.Abs(o.LogDir); err != nil {
		return "", "", err
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700), os.MkdirAll(logDir, 0o755)); err != nil {
		return "", "", fmt.Errorf("creating the directories of the pods: %w", err)
	}
	return dir, logDir, nil
}

func newRunner(o Options, config *rest.Config, processes *supervise.Client) (*podrunner.Runner, error) {
	config.QPS = -1 // as for a kubelet on a machine of its own
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("reading the files of the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return podrunner.New(podrunner.Options{
		Client: client, Launch: processes.Start, Ports: ports.Free,
		Clock:    time.Now, //nolint:forbidigo // this is where the clock is made
		Binaries: executables(o.Binaries), LogDir: o.LogDir, DataDir: filepath.Join(o.Dir, "pods"),
		Say: func(format string, args ...any) { _, _ = fmt.Fprintf(os.Stderr, format+"\n", args...) },
		Kubeconfig: func(tokenFile, namespace string) ([]byte, error) {
			return pki.Access{Name: "default", URL: config.Host, CA: config.CAData, TokenFile: tokenFile, Namespace: namespace}.Kubeconfig()
		},
	})
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
