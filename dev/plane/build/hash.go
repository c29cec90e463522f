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

// hash returns a hash of all build inputs: every file of the sources except hidden files and tests, the flags, the Go
// version and the platform. It has 16 hexadecimal digits: unique enough, and short enough for a path.
func (r recipe) hash(root, goVersion string) (string, error) {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s %s %s %q %q\n", goVersion, runtime.GOOS, runtime.GOARCH, r.flags, r.aliases) // writing to a hash never fails
	if len(r.targets) > 0 {
		_, _ = fmt.Fprintf(h, "%s %q\n", strings.Join(r.targets, " "), r.copied)
	}
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

// goVersion returns the version of the Go toolchain that a build in dir uses.
func goVersion(ctx context.Context, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), buildEnv()...)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running go env in %s: %w", dir, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// errNoRoot means that no checkout of the module was found.
var errNoRoot = errors.New("no checkout of this repository found: run the command inside one, because the control planes are built from source")

// moduleRoot returns the directory of this module's go.mod. It is the one from which this file was compiled. If
// the caller was built with -trimpath or on another machine, it is the module of the working directory.
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
		return "", fmt.Errorf("running go env GOMOD: %w", err)
	}
	if root := filepath.Dir(strings.TrimSpace(string(out))); isRoot(root) {
		return root, nil
	}
	return "", errNoRoot
}

func isRoot(dir string) bool {
	return filepath.IsAbs(dir) && exists(filepath.Join(dir, "dev", "kube", "go.mod"))
}
