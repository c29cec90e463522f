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

// ErrMissing means that this machine has not what nodes need, and cannot get it.
var ErrMissing = errors.New("this machine cannot run nodes")

// need is a program and the Debian package it comes with.
type need struct{ program, pack string }

func needs() []need {
	return []need{
		{"containerd", "containerd"}, {"containerd-shim-runc-v2", "containerd"}, {"ctr", "containerd"}, {"runc", "runc"},
		{"iptables", "iptables"}, {"ip", "iproute2"}, {"nsenter", "util-linux"},
	}
}

// pluginPack has the CNI plugins.
const pluginPack = "containernetworking-plugins"

// pluginFolders are where distributions put them.
func pluginFolders() []string { return []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"} }

// Prerequisites checks that this machine can run nodes, installing Debian packages where they are missing, and
// returns the folder of the CNI plugins. The error wraps ErrMissing and says all that is missing.
func Prerequisites(ctx context.Context, progress func(format string, args ...any)) (plugins string, err error) {
	if os.Geteuid() != 0 {
		return "", fmt.Errorf("%w: namespaces and bridges need root; run it as root", ErrMissing)
	}
	if missing := missingPackages(); len(missing) > 0 {
		if err := install(ctx, missing, progress); err != nil {
			return "", err
		}
	}
	if missing := missingPackages(); len(missing) > 0 {
		return "", fmt.Errorf("%w: still missing after the installation: %s", ErrMissing, strings.Join(missing, " "))
	}
	return findPlugins(), nil
}

// missingPackages are those to install.
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

// findPlugins is the folder of the CNI plugins, or empty.
func findPlugins() string {
	for _, folder := range pluginFolders() {
		if exists(filepath.Join(folder, "bridge")) && exists(filepath.Join(folder, "host-local")) && exists(filepath.Join(folder, "portmap")) {
			return folder
		}
	}
	return ""
}

// install installs Debian packages, without the services that come with them.
func install(ctx context.Context, packages []string, progress func(format string, args ...any)) error {
	list := strings.Join(packages, " ")
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf("%w: missing %s, and there is no apt-get to install it: install the like of these Debian packages", ErrMissing, list)
	}
	progress("installing Debian packages: %s", list)
	policy, err := denyServices()
	if err != nil {
		return err
	}
	defer policy()
	if err := get(ctx, apt, packages); err != nil {
		return fmt.Errorf("%w: missing %s, and %w", ErrMissing, list, err)
	}
	return nil
}

// get installs with what is known of the packages already, and if that does not do, with what is new.
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

// run runs apt-get without questions.
func run(ctx context.Context, apt string, args []string) error {
	command := exec.CommandContext(ctx, apt, args...)
	command.Env = append(command.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s failed: %w\n%s", args[0], err, output)
	}
	return nil
}

// denyServices keeps packages from starting their services while they are installed: nodes have their own. A
// policy that is there is left as it is.
func denyServices() (undo func(), err error) {
	const file = "/usr/sbin/policy-rc.d"
	if exists(file) {
		return func() {}, nil
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
		return nil, fmt.Errorf("keeping services from being started: %w", err)
	}
	return func() { _ = os.Remove(file) }, nil
}
