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

// RequestTimeout limits one request to an API server. It does not apply to watches.
const RequestTimeout = 15 * time.Second

// Own describes how a process reaches its own API server.
type Own struct {
	// Config is tuned (see Tune) and turns off compression.
	Config *rest.Config
	// Raw is the kubeconfig with all files embedded. It is nil inside a cluster.
	Raw []byte
}

// LoadOwn finds the process's API server: from the given kubeconfig file, or the cluster the process runs in, or
// the default kubeconfig ($KUBECONFIG, ~/.kube/config).
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
		return Own{}, fmt.Errorf("finding the API server: not running in a cluster, and no usable kubeconfig: %w", err)
	}
	merged, err := loader.RawConfig()
	if err != nil {
		return Own{}, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if err := api.FlattenConfig(&merged); err != nil {
		return Own{}, fmt.Errorf("reading the files that the kubeconfig references: %w", err)
	}
	raw, err := clientcmd.Write(merged)
	if err != nil {
		return Own{}, fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	return Own{Config: near(cfg), Raw: raw}, nil
}

// near is Tune for a server in the same network: compressing long lists costs both sides more than sending them
// uncompressed. It limits the pause that a server may ask for to what API servers ask for.
func near(cfg *rest.Config) *rest.Config {
	cfg = RetryWithin(Tune(cfg), 30*time.Second)
	cfg.DisableCompression = true
	return cfg
}

// Tune returns a copy of cfg without client-side rate limit, because the API server has fair queuing. Unless
// already set, it sets RequestTimeout, the user agent and the protocols. The protocols matter because client-go
// uses net/http's default transport for a cfg without TLS settings (system roots), and that transport never
// checks idle connections. client-go counts a watch as one request, so its informers need Watching(cfg). lasso's
// caches handle that themselves.
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

// protocols returns the protocols of client-go. If HTTP/2 is turned off for it (DISABLE_HTTP2), HTTP/2 must not
// be offered.
func protocols() []string {
	if utilnet.SetTransportDefaults(&http.Transport{}).TLSNextProto == nil {
		return []string{"http/1.1"}
	}
	return []string{"h2", "http/1.1"}
}

// userAgent returns the text that API servers write to audit logs and, up to the "/", to managedFields.
func userAgent() string {
	return fmt.Sprintf("%s/%s (%s/%s)", filepath.Base(os.Args[0]), version.Version, runtime.GOOS, runtime.GOARCH)
}

// Watching returns a copy of cfg without a timeout, for clients that watch. Contexts limit their single requests.
func Watching(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 0
	return cfg
}

// CA returns the PEM certificates that cfg trusts, from the data or from the file. Nil means the system's roots.
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
