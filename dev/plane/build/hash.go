package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// hash names the build: every file of the sources (but hidden files and tests), the flags, the Go
// version and the platform. 16 hexadecimal digits: enough to tell apart, short enough for a path.
func (r recipe) hash(root, goVersion string) (string, error) {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s %s %s %q %q\n", goVersion, runtime.GOOS, runtime.GOARCH, r.flags, r.aliases) // a hash takes every write
	for _, source := range r.sources {
		err := fs.WalkDir(os.DirFS(root), source, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case path != source && strings.HasPrefix(entry.Name(), "."):
				return skip(entry)
			case entry.IsDir(), strings.HasSuffix(path, "_test.go"):
				return nil
			}
			content, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(h, "%s %x\n", path, sha256.Sum256(content))
			return nil
		})
		if err != nil {
			return "", fmt.Errorf("hashing the sources of %s: %w", r.name, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// goVersion is the version of the toolchain that a build in dir would use.
func goVersion(ctx context.Context, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), buildEnv()...)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("asking for the Go version in %s: %w", dir, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// errNoRoot is returned where no checkout of the module can be found.
var errNoRoot = errors.New("the control planes are built from a checkout of this repository; run inside one")

// moduleRoot is the folder of this module's go.mod: where this file was compiled from, or, if the
// caller was built with -trimpath or elsewhere, what Go says about the working directory.
func moduleRoot(ctx context.Context) (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok {
		root := filepath.Join(filepath.Dir(file), "..", "..", "..")
		if isRoot(root) {
			return root, nil
		}
	}
	return rootOfWorkingFolder(ctx)
}

func rootOfWorkingFolder(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("asking where the module is: %w", err)
	}
	if root := filepath.Dir(strings.TrimSpace(string(out))); isRoot(root) {
		return root, nil
	}
	return "", errNoRoot
}

func isRoot(dir string) bool {
	return filepath.IsAbs(dir) && exists(filepath.Join(dir, "dev", "kube", "go.mod"))
}
