//go:build linux

package inside

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// become makes the namespaces a machine: mounts and a host name of its own. Nothing of it is seen outside.
func (s Spec) become() error {
	// First nothing may reach the host's mounts any more; then what is in here may share among itself, as kubelet
	// expects of a machine.
	for _, propagation := range []uintptr{syscall.MS_PRIVATE, syscall.MS_SHARED} {
		if err := syscall.Mount("none", "/", "", syscall.MS_REC|propagation, ""); err != nil {
			return fmt.Errorf("setting how mounts propagate: %w", err)
		}
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	// What a machine forgets when it is turned off. /var/run is the same folder everywhere.
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mounting /run: %w", err)
	}
	// What it keeps. Whatever else of the host is in these folders is of no use here.
	for target, source := range map[string]string{"/var/lib": s.in("lib"), "/var/log": filepath.Join(s.LogDir, "var")} {
		if err := os.MkdirAll(source, 0o755); err != nil {
			return fmt.Errorf("making %s: %w", source, err)
		}
		if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", target, err)
		}
	}
	if err := syscall.Sethostname([]byte(s.Name)); err != nil {
		return fmt.Errorf("naming the host: %w", err)
	}
	return nil
}

// cable is the node's one network device. The host puts it in.
const cable = "eth0"

// plugEvery is how often the node looks whether the cable is in.
const plugEvery = 10 * time.Millisecond

// connect waits for the cable and gives it the node's address.
func (s Spec) connect(ctx context.Context, run func(context.Context, ...string) error) error {
	if err := plugged(ctx); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "address", "add", s.Address, "dev", cable},
		{"ip", "link", "set", cable, "up"},
		{"ip", "route", "add", "default", "via", s.Gateway},
	} {
		if err := run(ctx, command...); err != nil {
			return err
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("turning forwarding on: %w", err)
	}
	return nil
}

func plugged(ctx context.Context) error {
	ticker := time.NewTicker(plugEvery)
	defer ticker.Stop()
	for {
		_, err := net.InterfaceByName(cable)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", cable, errors.Join(err, context.Cause(ctx)))
		}
	}
}

// answers says whether something listens on a Unix socket.
func answers(ctx context.Context, socket string) error {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	return connection.Close()
}
