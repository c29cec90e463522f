// Package build makes the programs that control planes and nodes need, once, and keeps them in the user's
// cache folder under a hash of all that goes into them.
//
//	dev/kube ──────────────────────► kube/<hash>/{kube-apiserver, kube-controller-manager, etcd, …}
//	dev/plane/{supervisor,supervise} ─► supervisor/<hash>/fleet-plane-supervisor
//	dev/images/pause ──────────────► pause/<hash>/pause
package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Version is the Kubernetes version the control planes report: the one dev/kube/go.mod names.
const Version = "v1.36.3"

// Progress receives one line of what is being done, without a line break. It may be nil.
type Progress func(format string, args ...any)

func (p Progress) say(format string, args ...any) {
	if p != nil {
		p(format, args...)
	}
}

// recipe is one program: what goes into it, and how `go build` makes it.
type recipe struct {
	name string // folder in the cache, and what messages call it
	// sources are the folders hashed, relative to the module's root; the first is where `go build` runs.
	sources []string
	file    string   // name of the executable
	aliases []string // symbolic links to it: a multi-call binary looks at the name it is called by
	flags   []string
	// slow says how long it takes the first time; empty where that needs no explanation.
	slow string
}

func kubeRecipe() recipe {
	major, minor, _ := strings.Cut(strings.TrimPrefix(Version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	const pkg = "k8s.io/component-base/version."
	return recipe{
		name:    "kube",
		sources: []string{"dev/kube"},
		file:    "kube",
		aliases: []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "etcd"},
		// Without the version Helm's capability checks and kubectl choke on v0.0.0-master+$Format.
		flags: []string{"-trimpath", "-ldflags=-s -w -X " + pkg + "gitVersion=" + Version + " -X " + pkg + "gitMajor=" + major + " -X " + pkg + "gitMinor=" + minor},
		slow:  "about five minutes on two cores, the first time only",
	}
}

func supervisorRecipe() recipe {
	return recipe{
		name:    "supervisor",
		sources: []string{"dev/plane/supervisor", "dev/plane/supervise"},
		file:    "fleet-plane-supervisor",
		flags:   []string{"-trimpath"},
	}
}

// Kube returns the folder with the control plane's executables, building them where the cache has
// none. It can be called by several processes at once: one builds, the others wait.
func Kube(ctx context.Context, progress Progress) (string, error) {
	return provide(ctx, kubeRecipe(), progress)
}

// Supervisor returns the path of the supervisor's executable, likewise.
func Supervisor(ctx context.Context, progress Progress) (string, error) {
	r := supervisorRecipe()
	dir, err := provide(ctx, r, progress)
	return filepath.Join(dir, r.file), err
}

func pauseRecipe() recipe {
	return recipe{name: "pause", sources: []string{"dev/images/pause"}, file: "pause", flags: []string{"-trimpath", "-ldflags=-s -w"}}
}

// Pause returns the path of the program that holds a pod's namespaces, for nodes with real pods, likewise.
func Pause(ctx context.Context, progress Progress) (string, error) {
	r := pauseRecipe()
	dir, err := provide(ctx, r, progress)
	return filepath.Join(dir, r.file), err
}

func provide(ctx context.Context, r recipe, progress Progress) (string, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache folder: %w", err)
	}
	return r.provide(ctx, root, filepath.Join(cache, "fleet-hub"), progress)
}

func (r recipe) provide(ctx context.Context, root, cache string, progress Progress) (string, error) {
	version, err := goVersion(ctx, filepath.Join(root, r.sources[0]))
	if err != nil {
		return "", err
	}
	hash, err := r.hash(root, version)
	if err != nil {
		return "", err
	}
	parent := filepath.Join(cache, r.name)
	dir := filepath.Join(parent, hash)
	if exists(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(parent, hash+".lock"), func() {
		progress.say("waiting for another process that builds %s", r.name)
	})
	if err != nil {
		return "", fmt.Errorf("waiting for the build of %s: %w", r.name, err)
	}
	defer unlock()
	if exists(dir) {
		return dir, nil // built by the one we waited for
	}
	return dir, r.build(ctx, root, dir, progress)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// build makes the folder under another name and renames it, so that a folder of that name is always whole.
func (r recipe) build(ctx context.Context, root, dir string, progress Progress) error {
	work := dir + ".new"
	if err := errors.Join(os.RemoveAll(work), os.MkdirAll(work, 0o755)); err != nil {
		return fmt.Errorf("making a folder to build %s in: %w", r.name, err)
	}
	defer func() { _ = os.RemoveAll(work) }() // gone by its new name, or the leftovers of a failure
	if r.slow != "" {
		progress.say("building %s %s from Go modules: %s", r.name, Version, r.slow)
	}
	stop := r.tick(progress)
	err := r.compile(ctx, root, work)
	took := stop()
	if err != nil {
		return err
	}
	for _, alias := range r.aliases {
		if err := os.Symlink(r.file, filepath.Join(work, alias)); err != nil {
			return fmt.Errorf("naming %s: %w", alias, err)
		}
	}
	if err := os.Rename(work, dir); err != nil {
		return fmt.Errorf("moving the build of %s into place: %w", r.name, err)
	}
	if r.slow != "" {
		progress.say("built %s in %s; kept in %s", r.name, took.Round(time.Second), dir)
	}
	return nil
}

// tick says every half minute that a slow build goes on. The func it returns ends that and returns
// how long it took.
func (r recipe) tick(progress Progress) func() time.Duration {
	start := now()
	if r.slow == "" {
		return func() time.Duration { return now().Sub(start) }
	}
	ticker := time.NewTicker(30 * time.Second)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				progress.say("still building %s: %s", r.name, now().Sub(start).Round(time.Second))
			case <-done:
				return
			}
		}
	}()
	return func() time.Duration {
		ticker.Stop()
		close(done)
		return now().Sub(start)
	}
}

func now() time.Time {
	return time.Now() //nolint:forbidigo // how long a build takes is told to a person, nothing is decided by it
}

// Run builds or finds both programs and says where they are: what `make` calls before tests whose
// own time limit would not cover the first build.
func Run(ctx context.Context, out io.Writer) error {
	progress := Progress(func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, format+"\n", args...) // nowhere to say that nothing can be said
	})
	if _, err := Supervisor(ctx, progress); err != nil {
		return err
	}
	_, err := Kube(ctx, progress)
	return err
}
