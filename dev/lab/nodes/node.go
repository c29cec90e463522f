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
	// startTimeout bounds a node's start; some seconds are usual.
	startTimeout = 3 * time.Minute
	// pollEvery is how often a node that starts is asked whether it is ready.
	pollEvery = 50 * time.Millisecond
)

// Node is a cluster of one node.
type Node struct {
	// Name of node and cluster.
	Name string
	// Address is the node's on the lab's network, URL its API server's there.
	Address, URL string
	// CA is the cluster's own CA, PEM.
	CA []byte
	// Kubeconfig is an admin's; KubeconfigPath is a file with it, which lasts as long as the lab.
	Kubeconfig     []byte
	KubeconfigPath string
	// LogDir has a log of each component; node.log is the node's own.
	LogDir string

	lab    *Lab
	spec   inside.Spec
	token  string
	client kubernetes.Interface

	mu      sync.Mutex // guards what follows
	process *supervise.Process
}

// start brings up the network and all nodes, in parallel.
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

// newNode makes a node's folders and keys.
func (l *Lab) newNode(name, address string) (*Node, error) {
	n := &Node{Name: name, Address: address, LogDir: filepath.Join(l.LogDir, name), lab: l}
	dir := filepath.Join(l.dir, "nodes", name)
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.MkdirAll(n.LogDir, 0o755)); err != nil {
		return nil, fmt.Errorf("making the folders of %s: %w", name, err)
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
		return nil, fmt.Errorf("%s: making a client: %w", name, err)
	}
	return n, nil
}

// snapshotter is how images are laid over one another: by overlays, unless the folder is on one itself, as in a
// container.
func snapshotter(dir string) string {
	const overlay = 0x794c7630
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err == nil && stat.Type == overlay {
		return "native"
	}
	return "overlayfs"
}

// Config is the admin's access, a copy of its own, without client-side limits.
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
		return fmt.Errorf("%s: %w", n.Name, err)
	}
	n.mu.Lock()
	n.process = process
	n.mu.Unlock()
	if err := n.lab.place.plug(n.Name, process.PID); err != nil {
		return fmt.Errorf("%s: plugging it in: %w", n.Name, err)
	}
	if err := n.await(ctx, process); err != nil {
		return fmt.Errorf("%s did not come up: %w; the last lines of %s:\n%s", n.Name, err, log, supervise.Tail(log, logged))
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

// ready says what is missing for pods: a node that has said so since it was turned on, and the account that they
// all have.
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
		return errors.New("no account in namespace default yet")
	}
	return err
}

// watch tells of an end that nobody wanted.
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

// Restart turns the node off as a power failure does, all its processes at once, and on again with the same data.
// It returns when the node is ready; its pods are on their way. Cuts of its network are forgotten.
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
		return nil // it is off
	}
	if err := process.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("turning %s off: %w", n.Name, err)
	}
	<-process.Done()
	// Cgroups do not outlive a power failure; kubelet would look into each for containers that are not there.
	return errors.Join(n.lab.place.unplug(n.Name), removeCgroups(cgroupMount, n.spec.CgroupRoot))
}

// pid is that of the node's first process.
func (n *Node) pid() (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return 0, fmt.Errorf("%s is off", n.Name)
	}
	return n.process.PID, nil
}

// Up says whether the node runs.
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
