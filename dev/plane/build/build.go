// Package build builds the programs that control planes and nodes need. It builds each program once and keeps it
// in the user's cache directory, under a hash of all build inputs.
//
//	dev/kube ──────────────────────► kube/<hash>/{kube-apiserver, kube-controller-manager, etcd, …}
//	dev/capi ──────────────────────► capi/<hash>/{core, config}
//	dev/plane/{supervisor,supervise} ─► supervisor/<hash>/fleet-plane-supervisor
//	dev/images/pause ──────────────► pause/<hash>/pause
//	dev/machines ──────────────────► machinehost/<hash>/machinehost, podrunner/<hash>/podrunner
package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Version is the Kubernetes version that the control planes report. It equals the version in dev/kube/go.mod.
const Version = "v1.36.3"

// EnvKubernetes is the environment variable that selects another minor version of Kubernetes, such as 1.31.
const EnvKubernetes = "FLEET_KUBERNETES"

// others returns the Kubernetes versions that dev/kubeversions pins besides Version, by minor version. They have no
// programs for nodes, because the source code for those depends on the version.
func others() map[string]string {
	return map[string]string{"1.31": "v1.31.12", "1.37": "v1.37.1"}
}

// kubernetes returns the version that EnvKubernetes selects, Version if it is empty.
func kubernetes() (string, error) {
	selected := os.Getenv(EnvKubernetes) //nolint:forbidigo // for tests, not for the product
	if selected == "" || strings.HasPrefix(Version, "v"+selected+".") {
		return Version, nil
	}
	version, found := others()[selected]
	if !found {
		return "", fmt.Errorf("%s=%s: dev/kubeversions has no Kubernetes %s, only %s", EnvKubernetes, selected, selected,
			strings.Join(slices.Sorted(maps.Keys(others())), " and "))
	}
	return version, nil
}

// Minor returns the minor version of the Kubernetes that EnvKubernetes selects, 0 if it is unknown.
func Minor() int {
	version, _ := kubernetes() // Kube returns the error
	minor, _, _ := strings.Cut(strings.TrimPrefix(version, "v1."), ".")
	number, _ := strconv.Atoi(minor)
	return number
}

// CAPIVersion is the version of Cluster API in dev/capi/go.mod.
const CAPIVersion = "v1.14.2"

// Progress receives one line per step, without a line break. It may be nil.
type Progress func(format string, args ...any)

func (p Progress) say(format string, args ...any) {
	if p != nil {
		p(format, args...)
	}
}

// recipe describes how to build one program.
type recipe struct {
	name string // directory in the cache; also used in messages
	// sources are the directories to hash, relative to the module's root. go build runs in the first one.
	sources []string
	// targets are the package to build, or files, whose build constraints do not count. They are empty for the package
	// in the first source directory.
	targets []string
	file    string   // name of the executable
	aliases []string // symbolic links to it: a multi-call binary selects the program by the name it is called by
	flags   []string
	// copied is a directory of a module that the build puts next to the executable. The zero value copies nothing.
	copied moduleDir
	// version is the version of what is built, for messages of a slow build.
	version string
	// slow describes how long the first build takes. It is empty for a fast build.
	slow string
}

// kubeRecipe returns how to build version, the Kubernetes version of dev/kube/go.mod or one of the others.
func kubeRecipe(version string) recipe {
	major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	const pkg = "k8s.io/component-base/version."
	r := recipe{
		name:    "kube",
		sources: []string{"dev/kube"},
		file:    "kube",
		aliases: []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "hollow-node", "etcd"},
		// Helm's capability checks and kubectl fail with the default version v0.0.0-master+$Format.
		flags:   []string{"-trimpath", "-ldflags=-s -w -X " + pkg + "gitVersion=" + version + " -X " + pkg + "gitMajor=" + major + " -X " + pkg + "gitMinor=" + minor},
		version: version,
		slow:    "five to fifteen minutes on two cores, only the first time",
	}
	if version != Version {
		r.sources = append(r.sources, "dev/kubeversions")
		r.flags = append(r.flags, "-modfile=../kubeversions/"+major+"."+minor+".mod")
		r.targets = []string{"main.go", "node_other.go"}
	}
	return r
}

func capiRecipe() recipe {
	const module = "sigs.k8s.io/cluster-api"
	return recipe{
		name:    "capi",
		sources: []string{"dev/capi"},
		targets: []string{module + "/core"},
		file:    CAPICore,
		flags:   []string{"-trimpath", "-ldflags=-s -w"},
		copied:  moduleDir{module: module, dir: "core/config", to: CAPIConfig},
		version: CAPIVersion,
		slow:    "two to four minutes on two cores, only the first time",
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

// Kube returns the directory of the control plane's executables, and builds them if they are not in the cache.
// Several processes may call it at once: one builds, the others wait.
func Kube(ctx context.Context, progress Progress) (string, error) {
	version, err := kubernetes()
	if err != nil {
		return "", err
	}
	return provide(ctx, kubeRecipe(version), progress)
}

// Names in the directory that CAPI returns.
const (
	// CAPICore is the executable with the controllers and webhooks of Cluster API.
	CAPICore = "core"
	// CAPIConfig is the directory with the kustomizations of its CRDs, rights and webhooks.
	CAPIConfig = "config"
)

// CAPI returns the directory with CAPICore and CAPIConfig, and builds them if they are not in the cache. As with
// Kube, one of several processes builds.
func CAPI(ctx context.Context, progress Progress) (string, error) {
	return provide(ctx, capiRecipe(), progress)
}

// Supervisor returns the path of the supervisor's executable, and builds it if needed.
func Supervisor(ctx context.Context, progress Progress) (string, error) {
	r := supervisorRecipe()
	dir, err := provide(ctx, r, progress)
	return filepath.Join(dir, r.file), err
}

func machineHostRecipe() recipe {
	return recipe{
		name: "machinehost",
		sources: []string{"dev/machines/cmd/machinehost", "dev/machines/host", "dev/machines/cloudconfig", "dev/plane/build", "dev/plane/ports",
			"dev/plane/supervise", "go.mod"},
		file:  "machinehost",
		flags: []string{"-trimpath", "-ldflags=-s -w"},
	}
}

// MachineHost returns the path of the machine host's executable (dev/machines/host), and builds it if needed.
func MachineHost(ctx context.Context, progress Progress) (string, error) {
	r := machineHostRecipe()
	dir, err := provide(ctx, r, progress)
	return filepath.Join(dir, r.file), err
}

func machineProviderRecipe() recipe {
	return recipe{
		name: "machineprovider",
		sources: []string{"dev/machines/cmd/machineprovider", "dev/machines", "dev/plane/args", "dev/plane/build", "dev/plane/pki",
			"dev/plane/podrunner", "dev/plane/ports", "dev/plane/supervise", "internal/config", "internal/cut", "internal/kube", "internal/logging",
			"internal/protocol/names", "internal/reconcile", "internal/version", "internal/yamlbound", "pkg/apis", "go.mod"},
		file:  "machineprovider",
		flags: []string{"-trimpath", "-ldflags=-s -w"},
	}
}

// MachineProvider returns the path of the machine provider's executable (dev/machines/provider), and builds it if needed.
func MachineProvider(ctx context.Context, progress Progress) (string, error) {
	r := machineProviderRecipe()
	dir, err := provide(ctx, r, progress)
	return filepath.Join(dir, r.file), err
}

func podRunnerRecipe() recipe {
	return recipe{
		name: "podrunner",
		sources: []string{"dev/machines/cmd/podrunner", "dev/machines/pods", "dev/plane/pki", "dev/plane/podrunner", "dev/plane/ports",
			"dev/plane/supervise", "go.mod"},
		file:  "podrunner",
		flags: []string{"-trimpath", "-ldflags=-s -w"},
	}
}

// PodRunner returns the directory of the program that runs the pods of a lab machine's cluster (dev/machines/pods), and
// builds it if needed.
func PodRunner(ctx context.Context, progress Progress) (string, error) {
	return provide(ctx, podRunnerRecipe(), progress)
}

func pauseRecipe() recipe {
	return recipe{name: "pause", sources: []string{"dev/images/pause"}, file: "pause", flags: []string{"-trimpath", "-ldflags=-s -w"}}
}

// Pause returns the path of the program that holds a pod's namespaces on nodes with real pods, and builds it if
// needed.
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
		return "", fmt.Errorf("finding the user's cache directory: %w", err)
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
		return "", fmt.Errorf("creating the cache directory: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(parent, hash+".lock"), func() {
		progress.say("waiting for another process that builds %s", r.name)
	})
	if err != nil {
		return "", fmt.Errorf("waiting for the build of %s: %w", r.name, err)
	}
	defer unlock()
	if exists(dir) {
		return dir, nil // built by the process that held the lock
	}
	return dir, r.build(ctx, root, dir, progress)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// build builds in another directory and renames it at the end, so that the final directory is always complete.
func (r recipe) build(ctx context.Context, root, dir string, progress Progress) error {
	work := dir + ".new"
	if err := errors.Join(os.RemoveAll(work), os.MkdirAll(work, 0o755)); err != nil {
		return fmt.Errorf("creating a build directory for %s: %w", r.name, err)
	}
	defer func() { _ = os.RemoveAll(work) }() // removes the leftovers of a failed build
	if r.slow != "" {
		progress.say("building %s %s from Go modules: %s", r.name, r.version, r.slow)
	}
	stop := r.tick(progress)
	err := r.compile(ctx, root, work)
	took := stop()
	if err == nil {
		err = r.copied.copyTo(ctx, filepath.Join(root, r.sources[0]), work)
	}
	if err != nil {
		return err
	}
	for _, alias := range r.aliases {
		if err := os.Symlink(r.file, filepath.Join(work, alias)); err != nil {
			return fmt.Errorf("linking %s: %w", alias, err)
		}
	}
	if err := os.Rename(work, dir); err != nil {
		return fmt.Errorf("moving the build of %s to the cache: %w", r.name, err)
	}
	if r.slow != "" {
		progress.say("built %s in %s; kept in %s", r.name, took.Round(time.Second), dir)
	}
	return nil
}

// tick reports every half minute that a slow build is still running. The returned function ends the reports and
// returns the duration.
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
	return time.Now() //nolint:forbidigo // only to report how long a build takes
}

// Run builds the control plane and the supervisor if needed, and prints where they are. make calls it before the
// tests, so that the first build does not count against their time limit.
func Run(ctx context.Context, out io.Writer) error {
	progress := Progress(func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, format+"\n", args...) // a failed write cannot be reported
	})
	if _, err := Supervisor(ctx, progress); err != nil {
		return err
	}
	if _, err := Kube(ctx, progress); err != nil {
		return err
	}
	_, err := CAPI(ctx, progress)
	return err
}
