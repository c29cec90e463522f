//go:build linux

package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrMissing means that this machine lacks a requirement of the nodes, and that it could not be installed.
var ErrMissing = errors.New("this machine cannot run nodes")

// need names a program and the Debian package that contains it.
type need struct{ program, pack string }

func needs() []need {
	return []need{
		{"containerd", "containerd"}, {"containerd-shim-runc-v2", "containerd"}, {"ctr", "containerd"}, {"runc", "runc"},
		{"iptables", "iptables"}, {"ip", "iproute2"}, {"nsenter", "util-linux"},
	}
}

// pluginPack is the Debian package of the CNI plugins.
const pluginPack = "containernetworking-plugins"

// pluginFolders returns the directories in which distributions install them.
func pluginFolders() []string { return []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"} }

// Prerequisites checks that this machine can run nodes, installs missing Debian packages, and returns the
// directory of the CNI plugins. The error wraps ErrMissing and lists everything that is missing.
func Prerequisites(ctx context.Context, progress func(format string, args ...any)) (plugins string, err error) {
	if os.Geteuid() != 0 {
		return "", fmt.Errorf("%w: namespaces and bridges need root: run the command as root", ErrMissing)
	}
	if missing := missingPackages(); len(missing) > 0 {
		if err := install(ctx, missing, progress); err != nil {
			return "", err
		}
	}
	if missing := missingPackages(); len(missing) > 0 {
		return "", fmt.Errorf("%w: packages still missing after the installation: %s", ErrMissing, strings.Join(missing, " "))
	}
	return findPlugins(), nil
}

// missingPackages returns the packages to install.
func missingPackages() []string {
	var missing []string
	seen := map[string]bool{}
	for _, n := range needs() {
		if _, err := exec.LookPath(n.program); err != nil && !seen[n.pack] {
			seen[n.pack] = true
			missing = append(missing, n.pack)
		}
	}
	if findPlugins() == "" {
		missing = append(missing, pluginPack)
	}
	return missing
}

// findPlugins returns the directory of the CNI plugins, or an empty string.
func findPlugins() string {
	for _, folder := range pluginFolders() {
		if exists(filepath.Join(folder, "bridge")) && exists(filepath.Join(folder, "host-local")) && exists(filepath.Join(folder, "portmap")) {
			return folder
		}
	}
	return ""
}

// install installs Debian packages, but does not start their services.
func install(ctx context.Context, packages []string, progress func(format string, args ...any)) error {
	list := strings.Join(packages, " ")
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf("%w: missing Debian packages %s, and apt-get does not exist: install the corresponding packages of this distribution", ErrMissing, list)
	}
	progress("installing Debian packages: %s", list)
	policy, err := denyServices()
	if err != nil {
		return err
	}
	defer policy()
	if err := get(ctx, apt, packages); err != nil {
		return fmt.Errorf("%w: installing the missing packages %s: %w", ErrMissing, list, err)
	}
	return nil
}

// get installs packages with the current package lists. If that fails, it updates the lists and tries again.
func get(ctx context.Context, apt string, packages []string) error {
	installing := append([]string{"install", "-qq", "--yes", "--no-install-recommends"}, packages...)
	if run(ctx, apt, installing) == nil {
		return nil
	}
	if err := run(ctx, apt, []string{"update", "-qq"}); err != nil {
		return err
	}
	return run(ctx, apt, installing)
}

// run runs apt-get without interactive questions.
func run(ctx context.Context, apt string, args []string) error {
	command := exec.CommandContext(ctx, apt, args...)
	command.Env = append(command.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s failed: %w\n%s", args[0], err, output)
	}
	return nil
}

// denyServices prevents packages from starting their services during the installation: nodes start their own. An
// existing policy is kept.
func denyServices() (undo func(), err error) {
	const file = "/usr/sbin/policy-rc.d"
	if exists(file) {
		return func() {}, nil
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
		return nil, fmt.Errorf("preventing services from starting: %w", err)
	}
	return func() { _ = os.Remove(file) }, nil
}
