package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// checkout creates a module like ours, with a small program in place of dev/kube.
func checkout(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	put(t, root, "dev/kube/go.mod", "module example.com/kube\n\ngo 1.26.0\n")
	put(t, root, "dev/kube/main.go", "package main\n\nvar Word = \"hello\"\n\nfunc main() { println(Word) }\n")
	return root
}

func put(t *testing.T, root, file, content string) {
	t.Helper()
	path := filepath.Join(root, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func program() recipe {
	return recipe{name: "program", sources: []string{"dev/kube"}, file: "program", aliases: []string{"alias"}, flags: []string{"-trimpath"}, version: "v1.36.3"}
}

// told collects progress lines.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (l *told) progress(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func TestHash_ChangesWithEveryBuildInput(t *testing.T) {
	tests := map[string]struct {
		change  func(t *testing.T, root string, r *recipe, version *string)
		differs bool
	}{
		"nothing": {func(*testing.T, string, *recipe, *string) {}, false},
		"source changes: new hash": {func(t *testing.T, root string, _ *recipe, _ *string) {
			put(t, root, "dev/kube/main.go", "package main\n")
		}, true},
		"source is added: new hash": {func(t *testing.T, root string, _ *recipe, _ *string) {
			put(t, root, "dev/kube/more.go", "package main\n")
		}, true},
		"source is added in a subdirectory: new hash": {func(t *testing.T, root string, _ *recipe, _ *string) {
			put(t, root, "dev/kube/sub/more.go", "package sub\n")
		}, true},
		"source is renamed: new hash": {func(t *testing.T, root string, _ *recipe, _ *string) {
			if err := os.Rename(filepath.Join(root, "dev/kube/main.go"), filepath.Join(root, "dev/kube/other.go")); err != nil {
				t.Fatal(err)
			}
		}, true},
		"version in go.mod changes: new hash": {func(t *testing.T, root string, _ *recipe, _ *string) {
			put(t, root, "dev/kube/go.mod", "module example.com/kube\n\ngo 1.26.1\n")
		}, true},
		"test is added: same hash": {func(t *testing.T, root string, _ *recipe, _ *string) {
			put(t, root, "dev/kube/main_test.go", "package main\n")
		}, false},
		"hidden file is added: same hash": {func(t *testing.T, root string, _ *recipe, _ *string) {
			put(t, root, "dev/kube/.DS_Store", "x")
			put(t, root, "dev/kube/.idea/x.go", "x")
		}, false},
		"other file changes: same hash": {func(t *testing.T, root string, _ *recipe, _ *string) {
			put(t, root, "dev/other/main.go", "package main\n")
		}, false},
		"flag is added: new hash":               {func(_ *testing.T, _ string, r *recipe, _ *string) { r.flags = append(r.flags, "-v") }, true},
		"alias is added: new hash":              {func(_ *testing.T, _ string, r *recipe, _ *string) { r.aliases = append(r.aliases, "other") }, true},
		"package is another module's: new hash": {func(_ *testing.T, _ string, r *recipe, _ *string) { r.targets = []string{"example.com/other"} }, true},
		"Go version changes: new hash":          {func(_ *testing.T, _ string, _ *recipe, version *string) { *version = "go1.99" }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root, r, version := checkout(t), program(), "go1.26.0"
			before, err := r.hash(root, version)
			if err != nil {
				t.Fatal(err)
			}
			test.change(t, root, &r, &version)
			after, err := r.hash(root, version)
			if err != nil {
				t.Fatal(err)
			}
			if (before != after) != test.differs || len(after) != 16 {
				t.Errorf("before %s, after %s", before, after)
			}
		})
	}
}

func TestHash_DoesNotDependOnTheDirectory(t *testing.T) {
	one, err := program().hash(checkout(t), "go1.26.0")
	if err != nil {
		t.Fatal(err)
	}
	two, err := program().hash(checkout(t), "go1.26.0")
	if err != nil || one != two {
		t.Errorf("two equal checkouts have hashes %s and %s, %v", one, two, err)
	}
	if _, err := program().hash(t.TempDir(), "go1.26.0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no sources: %v", err)
	}
}

func TestProvide_BuildsOnceUntilSourcesChange(t *testing.T) {
	root, cache, said := checkout(t), t.TempDir(), &told{}
	r := program()
	r.slow = "a moment"
	dir, err := r.provide(t.Context(), root, cache, said.progress)
	if err != nil {
		t.Fatal(err)
	}
	says(t, filepath.Join(dir, "program"), "hello\n")
	says(t, filepath.Join(dir, "alias"), "hello\n")
	if len(said.lines) != 2 || said.lines[0] != "building program v1.36.3 from Go modules: a moment" || !strings.HasSuffix(said.lines[1], "; kept in "+dir) {
		t.Errorf("got progress %q", said.lines)
	}
	again, err := r.provide(t.Context(), root, cache, said.progress)
	if err != nil || again != dir || len(said.lines) != 2 {
		t.Errorf("second call: %s, %v, progress %q", again, err, said.lines)
	}
	put(t, root, "dev/kube/main.go", "package main\n\nfunc main() {}\n")
	other, err := r.provide(t.Context(), root, cache, said.progress)
	if err != nil || other == dir {
		t.Errorf("after a change: %s, %v", other, err)
	}
}

func says(t *testing.T, program, want string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program).CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("%s says %q, %v", program, out, err)
	}
}

func TestConcurrentProvide_BuildsOnce(t *testing.T) {
	root, cache := checkout(t), t.TempDir()
	r := program()
	r.slow = "a moment"
	said := &told{}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := r.provide(t.Context(), root, cache, said.progress); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	built := slices.DeleteFunc(said.lines, func(line string) bool { return !strings.HasPrefix(line, "building ") })
	if len(built) != 1 {
		t.Errorf("got progress %q", said.lines)
	}
}

func TestFailedBuild_LeavesNothing(t *testing.T) {
	tests := map[string]string{"a quick one": "", "a slow one, under a supervisor": "a moment"}
	for name, slow := range tests {
		t.Run(name, func(t *testing.T) {
			root, cache := checkout(t), t.TempDir()
			put(t, root, "dev/kube/main.go", "package main\n\nfunc main() { nonsense() }\n")
			r := program()
			r.slow = slow
			_, err := r.provide(t.Context(), root, cache, nil)
			if err == nil || !strings.Contains(err.Error(), "building program in "+filepath.Join(root, "dev", "kube")+": exit status 1") ||
				!strings.Contains(err.Error(), "undefined: nonsense") {
				t.Errorf("error %v", err)
			}
			left, err := filepath.Glob(filepath.Join(cache, "program", "*"))
			if err != nil || len(left) != 1 || !strings.HasSuffix(left[0], ".lock") {
				t.Errorf("left %q, %v", left, err)
			}
			put(t, root, "dev/kube/main.go", "package main\n\nfunc main() {}\n")
			if _, err := r.provide(t.Context(), root, cache, nil); err != nil {
				t.Errorf("after the source is fixed: %v", err)
			}
		})
	}
}

func TestCancelledBuild_ReturnsTheCause(t *testing.T) {
	root, cache := checkout(t), t.TempDir()
	r := program()
	r.slow = "a moment"
	ctx, cancel := context.WithCancel(t.Context())
	// The first progress line shows that the build has started. Then it is cancelled.
	_, err := r.provide(ctx, root, cache, func(string, ...any) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestLock_WaitsForItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path, func() { t.Error("the lock is free, want no wait") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waited := 0
	if _, err := lock(ctx, path, func() { waited++; cancel() }); !errors.Is(err, context.Canceled) || waited != 1 {
		t.Errorf("while the lock is held: %v, waiting called %d times", err, waited)
	}
	got := make(chan error, 1)
	waits := make(chan struct{})
	go func() {
		second, err := lock(t.Context(), path, func() { close(waits) })
		if err == nil {
			second()
		}
		got <- err
	}()
	<-waits
	unlock()
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the lock was not released")
	}
	if _, err := lock(t.Context(), filepath.Join(path, "no", "such"), nil); err == nil {
		t.Error("want an error for a file that cannot be created")
	}
}

func TestRecipes_MatchThisRepository(t *testing.T) {
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pins := map[string]string{"kube/go.mod": "k8s.io/kubernetes " + Version, "capi/go.mod": "sigs.k8s.io/cluster-api " + CAPIVersion}
	for minor, version := range others() {
		pins["kubeversions/"+minor+".mod"] = "k8s.io/kubernetes " + version
	}
	for file, required := range pins {
		mod, err := os.ReadFile(filepath.Join(root, "dev", file))
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(required) + `( // indirect)?$`).Match(mod) {
			t.Errorf("dev/%s does not require %s, which messages and binaries name", file, required)
		}
	}
	want := "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
	if diff := cmp.Diff([]string{"-trimpath", want}, kubeRecipe(Version).flags); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	for _, r := range []recipe{kubeRecipe(Version), capiRecipe(), supervisorRecipe(), machineHostRecipe(), machineProviderRecipe(), podRunnerRecipe()} {
		if _, err := r.hash(root, "go"); err != nil {
			t.Error(err)
		}
	}
}

func TestEnvKubernetes_SelectsTheVersion(t *testing.T) {
	for selected, minor := range map[string]int{"": 36, "1.31": 31, "1.36": 36, "1.37": 37} {
		t.Setenv(EnvKubernetes, selected)
		version, err := kubernetes()
		if err != nil || Minor() != minor || !strings.HasPrefix(version, fmt.Sprintf("v1.%d.", minor)) {
			t.Errorf("%s=%s: minor %d of %s, %v", EnvKubernetes, selected, Minor(), version, err)
		}
	}
	want := []string{"-trimpath", "-modfile=../kubeversions/1.31.mod"}
	flags := kubeRecipe(others()["1.31"]).flags
	if diff := cmp.Diff(want, slices.DeleteFunc(flags, func(flag string) bool { return strings.Contains(flag, "gitMinor=31") })); diff != "" {
		t.Errorf("flags of 1.31 (-want +got):\n%s", diff)
	}
	t.Setenv(EnvKubernetes, "1.30")
	if _, err := Kube(t.Context(), nil); err == nil || err.Error() != "FLEET_KUBERNETES=1.30: dev/kubeversions has no Kubernetes 1.30, only 1.31 and 1.37" {
		t.Errorf("got error %v", err)
	}
}

// A program that is not built again after a change of a package that it imports would be an old one.
func TestSources_ContainEveryPackageOfTheProgram(t *testing.T) {
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []recipe{machineHostRecipe(), machineProviderRecipe(), podRunnerRecipe()} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.ImportPath}}{{end}}{{end}}", "./"+r.sources[0])
		list.Dir = root
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, pkg := range strings.Fields(string(out)) {
			dir := strings.TrimPrefix(pkg, "github.com/fleet-hub/fleet/")
			if !slices.ContainsFunc(r.sources, func(source string) bool { return dir == source || strings.HasPrefix(dir, source+"/") }) {
				t.Errorf("the sources of %s do not contain %s", r.name, dir)
			}
		}
	}
}

func TestModuleRoot_IsFoundFromTheWorkingDirectory(t *testing.T) {
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{root: true, filepath.Join(root, "internal"): false, "": false, t.TempDir(): false} {
		if got := isRoot(dir); got != want {
			t.Errorf("%q is a root: %t", dir, got)
		}
	}
	got, err := rootOfWorkingFolder(t.Context())
	if err != nil || got != root {
		t.Errorf("from the working directory: %q, %v", got, err)
	}
	t.Chdir(t.TempDir())
	if got, err := rootOfWorkingFolder(t.Context()); !errors.Is(err, errNoRoot) {
		t.Errorf("outside of a checkout: %q, %v", got, err)
	}
}

func TestRunWithFullCache_PrintsNothing(t *testing.T) {
	var out strings.Builder
	if err := Run(t.Context(), &out); err != nil { // other tests of the repository need these builds anyway
		t.Fatal(err)
	}
	out.Reset()
	if err := Run(t.Context(), &out); err != nil || out.String() != "" {
		t.Errorf("got output %q, %v", &out, err)
	}
}
