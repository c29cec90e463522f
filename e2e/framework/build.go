package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// goBuild compiles one of the product's commands as `make build` does.
func goBuild(ctx context.Context, target, source string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", target, "./"+source)
	build.Dir = root
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", source, err, output)
	}
	return nil
}

// moduleRoot returns the directory of this repository. It is a parent of this source file.
func moduleRoot() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", errors.New("the source directory of this binary is unknown: build it without -trimpath")
	}
	root := filepath.Join(filepath.Dir(file), "..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return "", fmt.Errorf("finding this repository: %w", err)
	}
	return root, nil
}
