package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/dev/plane/podrunner"
	"github.com/fleet-hub/fleet/dev/plane/ports"
	"github.com/fleet-hub/fleet/dev/plane/requests"
)

// startTimeout bounds each step of a cluster's start. Three seconds are usual; a machine that
// builds something at the same time takes longer.
const startTimeout = 2 * time.Minute

// Cluster is one control plane: an API server with RBAC, a controller-manager, and a pod runner in
// place of nodes.
type Cluster struct {
	// Name is HubName or one of Options.Downstreams.
	Name string
	// URL is the API server's, https://127.0.0.1:<port>; it stays the same over Pause and Resume.
	URL string
	// CA is the cluster's own CA, PEM.
	CA []byte
	// Kubeconfig is an admin's, with token and CA inside; KubeconfigPath is a file with it, which
	// lasts as long as the plane.
	Kubeconfig     []byte
	KubeconfigPath string
	// LogDir is this cluster's folder in Plane.LogDir: kube-apiserver.log,
	// kube-controller-manager.log and <namespace>_<pod>.log for each pod that is a process.
	LogDir string
	// AuditLog is the path of the audit log, one JSON event per line; empty without Options.Audit.
	AuditLog string

	plane *Plane
	dir   string
	// auditLog is AuditLog, or the path of a log that is only recorded; auditPolicy is the policy's file in dir.
	auditLog, auditPolicy string
	identity              pki.Identity
	client                kubernetes.Interface
	pods                  *podrunner.Runner

	// serverPort and controllersPort are held from the start of the cluster to the end of the plane, so
	// that a component that is away for a while finds its port free when it comes back. Nil before.
	serverPort, controllersPort *ports.Port

	mu         sync.Mutex // guards what follows
	apiServer  *component
	stopPods   context.CancelFunc // nil while no runner runs
	podsEnded  chan struct{}
	controller *component
}

func newCluster(p *Plane, name string) (*Cluster, error) {
	c := &Cluster{Name: name, plane: p, dir: filepath.Join(p.dataDir, name), LogDir: filepath.Join(p.LogDir, name)}
	if p.options.Audit {
		c.AuditLog = filepath.Join(c.LogDir, "audit.json")
		c.auditLog, c.auditPolicy = c.AuditLog, pki.FileAudit
	}
	if err := errors.Join(os.MkdirAll(c.dir, 0o700), os.MkdirAll(c.LogDir, 0o755)); err != nil {
		return nil, fmt.Errorf("making the folders of %s: %w", name, err)
	}
	var err error
	c.identity, err = pki.New(c.dir, name, p.clock())
	c.CA = c.identity.CA
	return c, errors.Join(err, c.recordRequests())
}

// recordRequests gives a hub without an audit log one of the controllers' requests, if those are to be recorded.
func (c *Cluster) recordRequests() error {
	if c.plane.recorded == "" || c.Name != HubName || c.auditLog != "" {
		return nil
	}
	c.auditLog, c.auditPolicy = filepath.Join(c.LogDir, "requests.json"), "requests-policy.yaml"
	return pki.Write(c.dir, c.auditPolicy, []byte(requests.Policy))
}

// start brings up the API server, then runs the hook, then the controller-manager. The pod runner
// is there as soon as pods can be.
func (c *Cluster) start(ctx context.Context) error {
	if err := c.settle(); err != nil {
		return err
	}
	if err := c.runServer(ctx); err != nil {
		return err
	}
	if err := c.addRunner(); err != nil {
		return err
	}
	c.startRunner()
	if hook := c.plane.options.BeforeControllers; hook != nil {
		if err := hook(ctx, c); err != nil {
			return fmt.Errorf("%s: before its controllers start: %w", c.Name, err)
		}
	}
	return c.startControllers(ctx)
}

// settle fixes where the cluster's components will answer, and all that follows from it.
func (c *Cluster) settle() error {
	var err error
	if c.serverPort, err = ports.Hold(); err != nil {
		return err
	}
	if c.controllersPort, err = ports.Hold(); err != nil {
		return err
	}
	c.URL = "https://" + c.serverPort.Address()
	if c.Kubeconfig, err = c.access(pki.Access{Token: c.identity.Token}).Kubeconfig(); err != nil {
		return err
	}
	c.KubeconfigPath = filepath.Join(c.dir, pki.FileKubeconfig)
	if err := pki.Write(c.dir, pki.FileKubeconfig, c.Kubeconfig); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.Config()); err != nil {
		return fmt.Errorf("%s: making a client: %w", c.Name, err)
	}
	return nil
}

// access completes who it is by where this cluster is.
func (c *Cluster) access(who pki.Access) pki.Access {
	who.Name, who.URL, who.CA = c.Name, c.URL, c.CA
	return who
}

// runServer starts the API server's process on the port settled on, and waits until it is ready.
func (c *Cluster) runServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	args := serverArgs{name: c.Name, dir: c.dir, port: c.serverPort.Number(), audit: c.auditLog, policy: c.auditPolicy}
	if extra := c.plane.options.APIServerArgs; extra != nil {
		args.extra = extra(c.Name)
	}
	server, err := c.plane.run(program{
		name: c.Name + ": kube-apiserver", file: "kube-apiserver",
		args: apiServerArgs(args), log: filepath.Join(c.LogDir, "kube-apiserver.log"),
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.apiServer = server
	c.mu.Unlock()
	return c.plane.await(ctx, server, func(ctx context.Context) error {
		_, err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
}

// startControllers waits for the one thing every pod needs of the controller-manager: the default
// account of a namespace. It shows that its controllers work, not only that it runs.
func (c *Cluster) startControllers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	controller, err := c.plane.run(program{
		name: c.Name + ": kube-controller-manager", file: "kube-controller-manager",
		args: controllerManagerArgs(c.dir, c.controllersPort.Number(), c.plane.options.StockControllerLimits),
		log:  filepath.Join(c.LogDir, "kube-controller-manager.log"),
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.controller = controller
	c.mu.Unlock()
	return c.plane.await(ctx, controller, func(ctx context.Context) error {
		_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return errors.New("no account in namespace default yet")
		}
		return err
	})
}

// Config is the admin's access, a copy of its own, without client-side limits.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{
		Host: c.URL, BearerToken: c.identity.Token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.CA},
	}
}

// Pause kills the API server: whoever uses the cluster meets refused connections until Resume. Its
// address, its data, and the pods that are processes, stay.
func (c *Cluster) Pause() error {
	c.stopRunner()
	c.mu.Lock()
	server := c.apiServer
	c.mu.Unlock()
	return server.kill()
}

// Resume starts the API server again, at the same address with the same data, and returns when it
// is ready.
func (c *Cluster) Resume(ctx context.Context) error {
	if err := c.runServer(ctx); err != nil {
		return fmt.Errorf("resuming: %w", err)
	}
	c.startRunner()
	return nil
}

// releasePorts is for a cluster that has ended.
func (c *Cluster) releasePorts() {
	for _, port := range []*ports.Port{c.serverPort, c.controllersPort} {
		if port != nil {
			port.Release()
		}
	}
}
