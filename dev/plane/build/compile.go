package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

// compile runs go build. A slow build runs under a supervisor, so that go and its compilers end when the caller
// is killed.
func (r recipe) compile(ctx context.Context, root, work string) error {
	tool, err := exec.LookPath("go")
	if err != nil {
		return fmt.Errorf("finding the Go toolchain: %w", err)
	}
	args := append([]string{"build", "-buildvcs=false"}, r.flags...)
	args = append(args, "-o", filepath.Join(work, r.file))
	command := supervise.Command{
		Path: tool,
		Args: append(args, r.targets...),
		Env:  append(os.Environ(), buildEnv()...),
		Dir:  filepath.Join(root, r.sources[0]),
		Log:  filepath.Join(work, "build.log"),
	}
	if r.slow == "" {
		err = run(ctx, command)
	} else {
		err = runSupervised(ctx, command, work)
	}
	said, _ := os.ReadFile(command.Log) // only used to explain err
	if err != nil {
		return fmt.Errorf("building %s in %s: %w\n%s", r.name, command.Dir, err, said)
	}
	return nil
}

func run(ctx context.Context, c supervise.Command) error {
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	said, err := cmd.CombinedOutput()
	return errors.Join(err, os.WriteFile(c.Log, said, 0o644))
}

func runSupervised(ctx context.Context, c supervise.Command, work string) (err error) {
	binary, err := Supervisor(ctx, nil)
	if err != nil {
		return err
	}
	scratch := filepath.Join(work, "scratch")
	if err := os.Mkdir(scratch, 0o755); err != nil {
		return err
	}
	client, err := supervise.Launch(supervise.Options{Binary: binary, DataDir: scratch, Log: c.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	c.Env = append(c.Env, "GOTMPDIR="+scratch)
	process, err := client.Start(c)
	if err != nil {
		return err
	}
	select {
	case <-process.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if status := process.Status(); status.Code != 0 {
		return errors.New(status.Text)
	}
	return nil
}

// buildEnv makes the build independent of the caller's build settings. It keeps only the toolchain, the module
// proxy and the caches.
func buildEnv() []string {
	return []string{"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off"}
}
