package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// moduleDir is a directory of a module that a source directory requires.
type moduleDir struct {
	module string // module path
	dir    string // slash-separated path in the module
	to     string // name of the copy
}

// copyTo copies the directory to work. from is the source directory whose go.mod selects the module's version. The
// copy makes the build independent of Go's module cache, which can be cleaned at any time.
func (m moduleDir) copyTo(ctx context.Context, from, work string) error {
	if m == (moduleDir{}) {
		return nil
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", m.module)
	cmd.Dir = from
	cmd.Env = append(os.Environ(), buildEnv()...)
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("finding module %s: %w", m.module, err)
	}
	source := filepath.Join(strings.TrimSpace(string(out)), filepath.FromSlash(m.dir))
	if err := os.CopyFS(filepath.Join(work, m.to), os.DirFS(source)); err != nil {
		return fmt.Errorf("copying %s of module %s: %w", m.dir, m.module, err)
	}
	return nil
}
