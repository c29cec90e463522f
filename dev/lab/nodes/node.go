//go:build linux

package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/dev/lab/inside"
	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/dev/plane/supervise"
)

const (
	// startTimeout limits a node's start. A few seconds are usual.
	startTimeout = 3 * time.Minute
	// pollEvery is the interval between two readiness checks of a starting node.
	pollEvery = 50 * time.Millisecond
)

// Node is a one-node cluster.
type Node struct {
	// Name is the name of the node and of the cluster.
	Name string
	// Address is the node's address on the lab's network, URL the URL of its API server there.
	Address, URL string
	// CA is the cluster's own CA in PEM.
	CA []byte
	// Kubeconfig is a kubeconfig of the admin. KubeconfigPath is a file with the same content; Stop removes it.
	Kubeconfig     []byte
	KubeconfigPath string
	// LogDir has one log per component; node.log is the log of the node's first process.
	LogDir string

	lab    *Lab
	spec   inside.Spec
	token  string
	client kubernetes.Interface

	mu      sync.Mutex // guards the fields below
	process *supervise.Process
}

// start sets up the network and starts all nodes in parallel.
func (l *Lab) start(ctx context.Context) error {
	if err := l.place.makeBridge(); err != nil {
		return err
	}
	for i, name := range l.options.Names {
		n, err := l.newNode(name, l.place.address(firstNode+i))
		if err != nil {
			return err
		}
		l.Nodes = append(l.Nodes, n)
	}
	starting, ctx := errgroup.WithContext(ctx)
	for _, n := range l.Nodes {
		starting.Go(func() error { return n.turnOn(ctx) })
	}
	return starting.Wait()
}

// newNode creates a node's directories and keys.
func (l *Lab) newNode(name, address string) (*Node, error) {
	n := &Node{Name: name, Address: address, LogDir: filepath.Join(l.LogDir, name), lab: l}
	dir := filepath.Join(l.dir, "nodes", name)
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.MkdirAll(n.LogDir, 0o755)); err != nil {
		return nil, fmt.Errorf("creating the directories of node %s: %w", name, err)
	}
	identity, err := pki.New(dir, name, l.clock(), net.ParseIP(address))
	if err != nil {
		return nil, err
	}
	n.CA, n.token = identity.CA, identity.Token
	n.spec = inside.Spec{
		Name: name, Address: address + "/24", Gateway: l.place.gateway(), Dir: dir, LogDir: n.LogDir,
		Programs: l.programs, Plugins: l.plugins, CgroupRoot: l.place.cgroup(name), Snapshotter: snapshotter(dir),
		Pause: PauseImage, Archives: append([]string{l.pause}, l.options.Archives...),
	}
	n.URL = n.spec.URL()
	if n.Kubeconfig, err = (pki.Access{Name: name, URL: n.URL, CA: n.CA, Token: n.token}).Kubeconfig(); err != nil {
		return nil, err
	}
	n.KubeconfigPath = filepath.Join(dir, pki.FileKubeconfig)
	if err := pki.Write(dir, pki.FileKubeconfig, n.Kubeconfig); err != nil {
		return nil, err
	}
	if n.client, err = kubernetes.NewForConfig(n.Config()); err != nil {
		return nil, fmt.Errorf("creating a client for node %s: %w", name, err)
	}
	return n, nil
}

// snapshotter returns containerd's snapshotter: overlayfs, unless the directory is itself on an overlay, as in a
// container.
func snapshotter(dir string) string {
	const overlay = 0x794c7630
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err == nil && stat.Type == overlay {
		return "native"
	}
	return "overlayfs"
}

// Config returns a new client configuration for the admin, without client-side rate limits.
func (n *Node) Config() *rest.Config {
	return &rest.Config{Host: n.URL, BearerToken: n.token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: n.CA}}
}

// turnOn starts the node and waits until it is ready for pods.
func (n *Node) turnOn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := createCgroups(cgroupMount, n.spec.CgroupRoot); err != nil {
		return err
	}
	file, err := n.spec.Save()
	if err != nil {
		return err
	}
	role := filepath.Join(n.spec.Dir, roleNode)
	if !exists(role) {
		if role, err = callMe(n.spec.Dir, roleNode); err != nil {
			return err
		}
	}
	log := filepath.Join(n.LogDir, "node.log")
	logged := size(log)
	process, err := n.lab.supervisor.Start(supervise.Command{Path: role, Args: []string{file}, Log: log, Dir: n.spec.Dir, Isolated: true,
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}})
	if err != nil {
		return fmt.Errorf("starting node %s: %w", n.Name, err)
	}
	n.mu.Lock()
	n.process = process
	n.mu.Unlock()
	if err := n.lab.place.plug(n.Name, process.PID); err != nil {
		return fmt.Errorf("connecting node %s with the network: %w", n.Name, err)
	}
	if err := n.await(ctx, process); err != nil {
		return fmt.Errorf("node %s did not become ready: %w; the last lines of %s:\n%s", n.Name, err, log, supervise.Tail(log, logged))
	}
	go n.watch(process, log)
	return nil
}

func size(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// await waits until pods can run on the node.
func (n *Node) await(ctx context.Context, process *supervise.Process) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	since := n.lab.clock()
	for {
		err := n.ready(ctx, since)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-process.Done():
			return errors.New(process.Status().Text)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// ready returns nil if pods can be created: the node has reported Ready since it was started, and namespace
// default has its ServiceAccount.
func (n *Node) ready(ctx context.Context, since time.Time) error {
	node, err := n.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		fresh := !condition.LastHeartbeatTime.Time.Before(since.Truncate(time.Second))
		if condition.Type == corev1.NodeReady && (condition.Status != corev1.ConditionTrue || !fresh) {
			return errors.New("the node is not ready: " + condition.Message)
		}
	}
	_, err = n.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errors.New("ServiceAccount default/default does not exist yet")
	}
	return err
}

// watch reports an unexpected end of the node.
func (n *Node) watch(process *supervise.Process, log string) {
	select {
	case <-process.Done():
	case <-n.lab.supervisor.Gone():
		return
	}
	n.mu.Lock()
	wanted := n.process != process || n.lab.stopping.Load()
	n.mu.Unlock()
	if !wanted {
		n.lab.options.Progress("%s went off (%s); its log: %s", n.Name, process.Status().Text, log)
	}
}

// Restart kills all processes of the node at once, as a power failure does, and starts it again with the same
// data. It returns when the node is ready; its pods may still be starting. Network cuts are removed.
func (n *Node) Restart(ctx context.Context) error {
	if err := n.Off(); err != nil {
		return err
	}
	return n.turnOn(ctx)
}

// Off kills all processes of the node.
func (n *Node) Off() error {
	n.mu.Lock()
	process := n.process
	n.process = nil
	n.mu.Unlock()
	if process == nil {
		return nil // the node is off already
	}
	if err := process.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("turning %s off: %w", n.Name, err)
	}
	<-process.Done()
	// Cgroups do not survive a power failure. Kubelet would search remaining ones for containers that no longer
	// exist.
	return errors.Join(n.lab.place.unplug(n.Name), removeCgroups(cgroupMount, n.spec.CgroupRoot))
}

// pid returns the PID of the node's first process.
func (n *Node) pid() (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return 0, fmt.Errorf("%s is off", n.Name)
	}
	return n.process.PID, nil
}

// Up reports whether the node is running.
func (n *Node) Up() bool {
	n.mu.Lock()
	process := n.process
	n.mu.Unlock()
	if process == nil {
		return false
	}
	select {
	case <-process.Done():
		return false
	default:
		return true
	}
}
