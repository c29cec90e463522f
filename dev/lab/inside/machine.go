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

// become sets up the node's mounts and host name in its own namespaces. The host is not changed.
func (s Spec) become() error {
	// MS_PRIVATE first: no mount may propagate to the host. MS_SHARED second: kubelet expects mounts to propagate
	// inside the node.
	for _, propagation := range []uintptr{syscall.MS_PRIVATE, syscall.MS_SHARED} {
		if err := syscall.Mount("none", "/", "", syscall.MS_REC|propagation, ""); err != nil {
			return fmt.Errorf("setting how mounts propagate: %w", err)
		}
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	// /run is empty after each start, as after a reboot. /var/run is a link to it.
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mounting /run: %w", err)
	}
	// These directories keep their content when the node restarts. They hide the host's directories.
	for target, source := range map[string]string{"/var/lib": s.in("lib"), "/var/log": filepath.Join(s.LogDir, "var")} {
		if err := os.MkdirAll(source, 0o755); err != nil {
			return fmt.Errorf("creating %s: %w", source, err)
		}
		if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", target, err)
		}
	}
	if err := syscall.Sethostname([]byte(s.Name)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	return nil
}

// cable is the name of the node's network device. The host moves the device into the node's namespace.
const cable = "eth0"

// plugEvery is the interval between two checks for the network device.
const plugEvery = 10 * time.Millisecond

// connect waits for the network device and configures the node's address and routes.
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
		return fmt.Errorf("enabling IP forwarding: %w", err)
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

// answers returns nil if a process listens on the Unix socket.
func answers(ctx context.Context, socket string) error {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	return connection.Close()
}
