package framework

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is the path of this repository's module. A path of a package, instead of a folder, finds it from every
// folder of the module.
const module = "github.com/fleet-hub/fleet"

// goBuild copies one of the product's commands from Go's cache, and compiles it only if it is not there. go build
// would link it again for each package of tests, because it keeps no executable in the cache. go run does.
func goBuild(ctx context.Context, target, source string) error {
	build := exec.CommandContext(ctx, "go", "run", "-buildvcs=false", "-ldflags", "-s -w", "-exec", "cp", module+"/"+source, target)
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", source, err, output)
	}
	return readSources(ctx)
}

// readSources lists the folders of the product's code. Go's test cache then knows that the result of this test depends on them,
// and runs it again after a change: it does not see what a build has read.
func readSources(ctx context.Context) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("finding the sources: %w", err)
	}
	dir := strings.TrimSpace(string(root))
	for _, name := range []string{"cmd", "internal", "pkg", "charts", "go.mod", "go.sum"} {
		err := filepath.WalkDir(filepath.Join(dir, name), func(_ string, _ fs.DirEntry, err error) error { return err })
		if err != nil {
			return fmt.Errorf("listing the sources: %w", err)
		}
	}
	return nil
}

// BinariesIn returns the absolute paths of the executables in a directory that `make build` has filled.
func BinariesIn(folder string, names ...string) (map[string]string, error) {
	binaries := map[string]string{}
	for _, name := range names {
		file, err := filepath.Abs(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("executable %s does not exist: run make build first, or set --binaries", file)
		}
		binaries[name] = file
	}
	return binaries, nil
}

// Build builds the product's two binaries in a directory and returns their paths.
func Build(ctx context.Context, folder string) (map[string]string, error) {
	binaries := map[string]string{}
	for name, source := range map[string]string{"fleetcontroller": "cmd/controller", "fleetagent": "cmd/agent"} {
		binaries[name] = filepath.Join(folder, name)
		if err := goBuild(ctx, binaries[name], source); err != nil {
			return nil, err
		}
	}
	return binaries, nil
}
