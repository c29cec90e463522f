package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/dev/plane/podrunner"
	"github.com/fleet-hub/fleet/dev/plane/ports"
)

// ErrNoCluster means that the plane has no cluster with this name.
var ErrNoCluster = errors.New("no such cluster")

func (c *Cluster) addRunner() error {
	o := c.plane.options
	var hold func(*corev1.Pod) bool
	if o.Hold != nil {
		hold = func(pod *corev1.Pod) bool { return o.Hold(c.Name, pod) }
	}
	var err error
	c.pods, err = podrunner.New(podrunner.Options{
		Client: c.client, Launch: c.plane.supervisor.Start, Ports: ports.Free, Clock: c.plane.clock, Say: o.Progress,
		Binaries: o.Binaries, Hold: hold, Env: o.ProcessEnv, LogDir: c.LogDir, DataDir: filepath.Join(c.dir, "pods"),
		Kubeconfig: func(tokenFile, namespace string) ([]byte, error) {
			return c.access(pki.Access{TokenFile: tokenFile, Namespace: namespace}).Kubeconfig()
		},
	})
	return err
}

// startRunner starts the pod runner's watch. The watch does not depend on the context of Start: Pause, Resume and
// Stop control it.
func (c *Cluster) startRunner() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	c.mu.Lock()
	c.stopPods, c.podsEnded = cancel, ended
	c.mu.Unlock()
	go func() {
		defer close(ended)
		c.pods.Run(ctx)
	}()
}

// stopRunner ends the watch, but not the processes.
func (c *Cluster) stopRunner() {
	c.mu.Lock()
	stop, ended := c.stopPods, c.podsEnded
	c.stopPods = nil
	c.mu.Unlock()
	if stop == nil {
		return
	}
	stop()
	<-ended
}

// KillPod kills the process of a pod with SIGKILL and returns when it has ended. The pod runner starts another
// one. The error wraps podrunner.ErrNoProcess if no process was running.
func (p *Plane) KillPod(ctx context.Context, cluster, namespace, pod string) error {
	c := p.Cluster(cluster)
	if c == nil {
		return fmt.Errorf("%w: %s", ErrNoCluster, cluster)
	}
	return c.pods.Kill(ctx, namespace, pod)
}

// PodPIDs returns the IDs of the running processes of a pod, for measurements. It returns none if no process is
// running.
func (p *Plane) PodPIDs(cluster, namespace, pod string) ([]int, error) {
	c := p.Cluster(cluster)
	if c == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoCluster, cluster)
	}
	return c.pods.PIDs(namespace, pod), nil
}

// APIServerPID returns the process ID of the cluster's API server, for measurements, or 0 if it is not running.
func (c *Cluster) APIServerPID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiServer == nil {
		return 0
	}
	return c.apiServer.process.PID
}

// PodLog returns what the process of a pod has written so far, including earlier restarts.
func (p *Plane) PodLog(cluster, namespace, pod string) ([]byte, error) {
	c := p.Cluster(cluster)
	if c == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoCluster, cluster)
	}
	return os.ReadFile(filepath.Join(c.LogDir, podrunner.LogFile(namespace, pod)))
}
