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

	"github.com/fleet-hub/fleet/dev/plane/args"
	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/dev/plane/podrunner"
	"github.com/fleet-hub/fleet/dev/plane/ports"
	"github.com/fleet-hub/fleet/dev/plane/requests"
)

// startTimeout limits each step of a cluster's start. Three seconds are usual. A machine that compiles at the
// same time needs longer.
const startTimeout = 4 * time.Minute

// Cluster is one control plane: an API server with RBAC, a controller-manager, and a pod runner in place of
// nodes.
type Cluster struct {
	// Name is HubName or one of Options.Downstreams.
	Name string
	// URL is the API server's URL, https://127.0.0.1:<port>. Pause and Resume do not change it.
	URL string
	// CA is the cluster's own CA in PEM.
	CA []byte
	// Kubeconfig is a kubeconfig of the admin with token and CA. KubeconfigPath is a file with the same content;
	// Stop removes it.
	Kubeconfig     []byte
	KubeconfigPath string
	// LogDir is this cluster's directory in Plane.LogDir. It contains kube-apiserver.log,
	// kube-controller-manager.log, and <namespace>_<pod>.log for each pod that runs as a process.
	LogDir string
	// AuditLog is the path of the audit log, one JSON event per line. It is empty without Options.Audit.
	AuditLog string

	plane *Plane
	dir   string
	// auditLog is AuditLog, or the path of the log for recorded requests. auditPolicy is the policy's file in
	// dir.
	auditLog, auditPolicy string
	identity              pki.Identity
	client                kubernetes.Interface
	pods                  *podrunner.Runner

	// serverPort and controllersPort are nil before the cluster starts. They are held until the plane ends, so
	// that a restarted component finds its port free.
	serverPort, controllersPort *ports.Port

	mu         sync.Mutex // guards the fields below
	apiServer  *component
	stopPods   context.CancelFunc // nil if no pod runner is running
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
		return nil, fmt.Errorf("creating the directories of cluster %s: %w", name, err)
	}
	var err error
	c.identity, err = pki.New(c.dir, name, p.clock())
	c.CA = c.identity.CA
	return c, errors.Join(err, c.recordRequests())
}

// recordRequests adds an audit log of the controllers' requests to the hub, if requests are recorded and it has
// no audit log.
func (c *Cluster) recordRequests() error {
	if c.plane.recorded == "" || c.Name != HubName || c.auditLog != "" {
		return nil
	}
	c.auditLog, c.auditPolicy = filepath.Join(c.LogDir, "requests.json"), "requests-policy.yaml"
	return pki.Write(c.dir, c.auditPolicy, []byte(requests.Policy))
}

// Start starts a cluster of Options.Later; the plane has started the others. It starts the API server, runs the
// BeforeControllers hook, and starts the controller-manager. The pod runner starts as soon as pods can be created.
func (c *Cluster) Start(ctx context.Context) error {
	if err := c.runServer(ctx); err != nil {
		return err
	}
	if err := c.addRunner(); err != nil {
		return err
	}
	c.startRunner()
	if hook := c.plane.options.BeforeControllers; hook != nil {
		if err := hook(ctx, c); err != nil {
			return fmt.Errorf("running the BeforeControllers hook of %s: %w", c.Name, err)
		}
	}
	return c.startControllers(ctx)
}

// settle reserves the ports of the cluster's components and creates everything that depends on them.
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
		return fmt.Errorf("creating a client for cluster %s: %w", c.Name, err)
	}
	return nil
}

// access adds the cluster's name, URL and CA to an access.
func (c *Cluster) access(who pki.Access) pki.Access {
	who.Name, who.URL, who.CA = c.Name, c.URL, c.CA
	return who
}

// runServer starts the API server on its reserved port and waits until it is ready.
func (c *Cluster) runServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	flags := args.Server{Name: c.Name, Dir: c.dir, Port: c.serverPort.Number(), Audit: c.auditLog, Policy: c.auditPolicy}
	if extra := c.plane.options.APIServerArgs; extra != nil {
		flags.Extra = extra(c.Name)
	}
	server, err := c.plane.run(program{
		name: c.Name + ": kube-apiserver", path: filepath.Join(c.plane.programs, "kube-apiserver"),
		args: flags.Args(), log: filepath.Join(c.LogDir, "kube-apiserver.log"),
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

// startControllers starts the controller-manager and waits for the default ServiceAccount, which every pod needs.
// The ServiceAccount shows that the controllers work, not only that the process runs.
func (c *Cluster) startControllers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	flags := args.Controllers{Dir: c.dir, Port: c.controllersPort.Number(), StockLimits: c.plane.options.Stock}
	controller, err := c.plane.run(program{
		name: c.Name + ": kube-controller-manager", path: filepath.Join(c.plane.programs, "kube-controller-manager"),
		args: flags.Args(),
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
			return errors.New("ServiceAccount default/default does not exist yet")
		}
		return err
	})
}

// Config returns a new client configuration for the admin, without client-side rate limits.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{
		Host: c.URL, BearerToken: c.identity.Token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.CA},
	}
}

// Pause kills the API server. Connections are refused until Resume. Its address, its data and the pods that run
// as processes stay.
func (c *Cluster) Pause() error {
	c.stopRunner()
	c.mu.Lock()
	server := c.apiServer
	c.mu.Unlock()
	return server.kill()
}

// Resume starts the API server again, with the same address and data, and returns when it is ready.
func (c *Cluster) Resume(ctx context.Context) error {
	if err := c.runServer(ctx); err != nil {
		return fmt.Errorf("resuming cluster %s: %w", c.Name, err)
	}
	c.startRunner()
	return nil
}

// End ends all processes of a cluster of Options.Later. Its address and its data stay, and it can be started again.
func (c *Cluster) End() error {
	c.stopRunner()
	wait := c.pods.Close()
	wait()
	return errors.Join(c.endControllers(), c.Pause())
}

// releasePorts releases the ports of a cluster that has ended.
func (c *Cluster) releasePorts() {
	for _, port := range []*ports.Port{c.serverPort, c.controllersPort} {
		if port != nil {
			port.Release()
		}
	}
}
