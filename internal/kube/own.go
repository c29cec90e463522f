package kube

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/internal/version"
)

// RequestTimeout bounds one request to an API server. Watches are not requests in this sense.
const RequestTimeout = 15 * time.Second

// Own is how a process reaches the API server it belongs to.
type Own struct {
	// Config is tuned (see Tune), and answers are not compressed.
	Config *rest.Config
	// Raw is the kubeconfig with all files embedded, nil inside a cluster.
	Raw []byte
}

// LoadOwn finds the process's API server: the kubeconfig file named, else the cluster the process runs in,
// else the default kubeconfig ($KUBECONFIG, ~/.kube/config).
func LoadOwn(path string) (Own, error) {
	if path == "" {
		if cfg, err := rest.InClusterConfig(); err == nil {
			return Own{Config: near(cfg)}, nil
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	cfg, err := loader.ClientConfig()
	if err != nil {
		return Own{}, fmt.Errorf("neither in a cluster nor given a usable kubeconfig: %w", err)
	}
	merged, err := loader.RawConfig()
	if err != nil {
		return Own{}, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if err := api.FlattenConfig(&merged); err != nil {
		return Own{}, fmt.Errorf("reading the files the kubeconfig names: %w", err)
	}
	raw, err := clientcmd.Write(merged)
	if err != nil {
		return Own{}, fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	return Own{Config: near(cfg), Raw: raw}, nil
}

// near is Tune for a server that is close by: to compress long lists costs both sides more than to send them as they are.
func near(cfg *rest.Config) *rest.Config {
	cfg = Tune(cfg)
	cfg.DisableCompression = true
	return cfg
}

// Tune returns a copy of cfg without a client-side rate limit, since the API server has fair queuing, and with
// RequestTimeout unless it has a timeout already; it says who asks, unless it does so already, and which protocols it
// speaks: client-go gives a cfg that says nothing of TLS, for it trusts the system's roots, net/http's own transport,
// which never looks after a connection on which nothing comes. client-go counts a watch as one request, so its informers
// need Watching(cfg); lasso's caches tell the two apart themselves.
func Tune(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst, cfg.RateLimiter = -1, 0, nil
	if cfg.Timeout == 0 {
		cfg.Timeout = RequestTimeout
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = userAgent()
	}
	if len(cfg.NextProtos) == 0 {
		cfg.NextProtos = protocols()
	}
	return cfg
}

// protocols are those that client-go speaks: whoever has forbidden it HTTP/2 (DISABLE_HTTP2) must not be offered it.
func protocols() []string {
	if utilnet.SetTransportDefaults(&http.Transport{}).TLSNextProto == nil {
		return []string{"http/1.1"}
	}
	return []string{"h2", "http/1.1"}
}

// userAgent is what API servers write into their audit logs, and up to the "/" into the managedFields of objects.
func userAgent() string {
	return fmt.Sprintf("%s/%s (%s/%s)", filepath.Base(os.Args[0]), version.Version, runtime.GOOS, runtime.GOARCH)
}

// Watching returns a copy of cfg without a timeout, for the informers of client-go.
func Watching(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 0
	return cfg
}

// CA returns the certificates cfg trusts in PEM form, read from their file if they are in one; nil means the
// system's roots.
func CA(cfg *rest.Config) ([]byte, error) {
	if len(cfg.CAData) > 0 || cfg.CAFile == "" {
		return cfg.CAData, nil
	}
	pem, err := os.ReadFile(cfg.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's CA: %w", err)
	}
	return pem, nil
}
