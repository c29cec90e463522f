package capi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// The core's ServiceAccount.
const (
	Namespace = "capi-system"
	Account   = "capi-manager"
)

// tokenLife is the lifetime of the core's token: longer than any control plane of tests and demos runs.
const tokenLife = 30 * 24 * time.Hour

// Options configures an installation. All fields are required.
type Options struct {
	// Config is the admin's client configuration. The cluster's controller-manager must be running.
	Config *rest.Config
	// Manifests is the directory with the kustomizations of the core, build.CAPIConfig.
	Manifests string
	// Dir gets the certificate, the token and the kubeconfig of the core. Install creates it.
	Dir string
	// Kubeconfig returns a kubeconfig that reads its token from a file.
	Kubeconfig func(tokenFile string) ([]byte, error)
	// Ports returns n free ports of 127.0.0.1.
	Ports func(n int) ([]int, error)
	Now   time.Time
}

// Core describes the process of an installed core.
type Core struct {
	// Kubeconfig is the path of the kubeconfig that the core uses.
	Kubeconfig string

	dir                          string
	webhooks, health, diagnostic int // ports
}

// Install applies the CRDs, rights and webhooks of the core and writes the files that its process needs. CAPI
// objects cannot be written until the process is ready.
func Install(ctx context.Context, o Options) (*Core, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of Cluster API: %w", err)
	}
	found, err := o.Ports(3)
	if err != nil {
		return nil, err
	}
	c := &Core{Kubeconfig: filepath.Join(o.Dir, pki.FileKubeconfig), dir: o.Dir, webhooks: found[0], health: found[1], diagnostic: found[2]}
	if err := c.applyManifests(ctx, o); err != nil {
		return nil, err
	}
	return c, c.writeKubeconfig(ctx, o)
}

func (c *Core) applyManifests(ctx context.Context, o Options) error {
	authority, err := pki.NewAuthority("cluster-api", o.Now)
	if err != nil {
		return fmt.Errorf("creating a CA for webhooks: %w", err)
	}
	serving, err := authority.Serving(o.Now)
	if err == nil {
		err = errors.Join(pki.Write(o.Dir, pki.FileServing, serving.Certificate), pki.Write(o.Dir, pki.FileServingKey, serving.Key))
	}
	if err != nil {
		return fmt.Errorf("creating the serving certificate of webhooks: %w", err)
	}
	rendered, err := render(filepath.Join(o.Manifests, "default"))
	if err != nil {
		return err
	}
	objects, err := adapt(rendered, "https://"+address(c.webhooks), authority.Certificate)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return fmt.Errorf("creating a client for Cluster API's manifests: %w", err)
	}
	return Apply(ctx, client, objects)
}

// writeKubeconfig writes a kubeconfig with a token of the core's ServiceAccount.
func (c *Core) writeKubeconfig(ctx context.Context, o Options) error {
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return fmt.Errorf("creating a client for Cluster API's account: %w", err)
	}
	life := int64(tokenLife / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life}}
	token, err := client.CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, Account, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("requesting a token for ServiceAccount %s/%s: %w", Namespace, Account, err)
	}
	const file = "token"
	kubeconfig, err := o.Kubeconfig(filepath.Join(o.Dir, file))
	return errors.Join(err, pki.Write(o.Dir, file, []byte(token.Status.Token)), pki.Write(o.Dir, pki.FileKubeconfig, kubeconfig))
}

// Args returns the flags of the core's process. The webhook server listens on all addresses of the machine,
// because no flag restricts it. Health and diagnostics are served on loopback.
func (c *Core) Args() []string {
	return []string{
		"--kubeconfig=" + c.Kubeconfig,
		"--leader-elect=false",
		"--webhook-port=" + strconv.Itoa(c.webhooks),
		"--webhook-cert-dir=" + c.dir, "--webhook-cert-name=" + pki.FileServing, "--webhook-key-name=" + pki.FileServingKey,
		"--health-addr=" + address(c.health),
		"--diagnostics-address=" + address(c.diagnostic), "--insecure-diagnostics", // without authentication, on loopback
		"--feature-gates=ClusterTopology=true", // ClusterClasses
	}
}

// Ready returns nil when the core serves its webhooks.
func (c *Core) Ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address(c.health)+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // only read from
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 1024)) // only explains the status
		return fmt.Errorf("/readyz answers %s: %s", response.Status, said)
	}
	return nil
}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
