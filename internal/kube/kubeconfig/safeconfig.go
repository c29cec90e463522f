package kubeconfig

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/internal/kube"
)

// Sentinels of what a kubeconfig from a user must not contain. It comes from a Secret that whoever may
// edit a workspace can write, and is used inside the controller: it may say where to go and with which
// key, but not what to run or which of the controller's files to read.
var (
	// ErrKubeconfigMalformed means the bytes are no kubeconfig, or name no server.
	ErrKubeconfigMalformed = errors.New("the kubeconfig is malformed; write one with kubectl config view --raw --flatten --minify")
	// ErrKubeconfigContext means it is not said which context to use, or one that is missing is named.
	ErrKubeconfigContext = errors.New("the kubeconfig does not say which context to use; set current-context to one that is complete")
	// ErrKubeconfigExec means the user entry runs a command (exec); use a token instead.
	ErrKubeconfigExec = errors.New("the kubeconfig runs a command to log in (exec); use a token or a client certificate")
	// ErrKubeconfigAuthProvider means the user entry names an auth-provider plugin; use a token instead.
	ErrKubeconfigAuthProvider = errors.New("the kubeconfig logs in through an auth-provider; use a token or a client certificate")
	// ErrKubeconfigFile means an entry points to a file of the controller; embed its data instead.
	ErrKubeconfigFile = errors.New("the kubeconfig points to a file; embed the data (kubectl config view --raw --flatten)")
	// ErrKubeconfigImpersonates means the user entry acts as another user; use a credential of that user instead.
	ErrKubeconfigImpersonates = errors.New("the kubeconfig acts as another user (as, as-uid, as-groups, as-user-extra); use a credential that has the rights itself")
	// ErrKubeconfigInsecure means insecure-skip-tls-verify is set and the operator does not allow it.
	ErrKubeconfigInsecure = errors.New("the kubeconfig skips TLS verification; embed the server's CA instead")
)

// SafeOption relaxes Safe.
type SafeOption func(*safeOptions)

type safeOptions struct{ allowInsecure bool }

// AllowInsecure permits insecure-skip-tls-verify if allowed is true: an operator's choice, off by default.
func AllowInsecure(allowed bool) SafeOption {
	return func(o *safeOptions) { o.allowInsecure = allowed }
}

// Safe turns a user's kubeconfig into a client configuration with our rate limit (none) and timeout
// (RequestTimeout). Only the context in use is looked at; what other entries hold does no harm. The error is
// one of the sentinels above, wrapped, and never contains a part of the kubeconfig.
func Safe(kubeconfig []byte, opts ...SafeOption) (*rest.Config, error) {
	var o safeOptions
	for _, opt := range opts {
		opt(&o)
	}
	loaded, err := Load(kubeconfig)
	if err != nil {
		return nil, ErrKubeconfigMalformed // the parser's error may quote what it read
	}
	cluster, user, err := inUse(loaded)
	if err != nil {
		return nil, err
	}
	if err := checkCluster(cluster, o); err != nil {
		return nil, err
	}
	if err := checkUser(user); err != nil {
		return nil, err
	}
	cfg, err := clientcmd.NewNonInteractiveClientConfig(only(cluster, user), contextName, nil, nil).ClientConfig()
	if err != nil {
		return nil, ErrKubeconfigMalformed
	}
	if _, _, err := rest.DefaultServerUrlFor(cfg); err != nil {
		return nil, fmt.Errorf("%w: its server is no URL", ErrKubeconfigMalformed)
	}
	return kube.Tune(cfg), nil
}

// contextName names the one context of the configuration we build.
const contextName = "default"

// only is a kubeconfig with nothing but these two entries.
func only(cluster *api.Cluster, user *api.AuthInfo) api.Config {
	cfg := *api.NewConfig()
	cfg.Clusters["cluster"] = cluster
	cfg.AuthInfos["user"] = user
	cfg.Contexts[contextName] = &api.Context{Cluster: "cluster", AuthInfo: "user"}
	cfg.CurrentContext = contextName
	return cfg
}

// inUse finds the entries of the current context, or of the only one where none is current.
func inUse(cfg *api.Config) (*api.Cluster, *api.AuthInfo, error) {
	name := cfg.CurrentContext
	if name == "" && len(cfg.Contexts) == 1 {
		for only := range cfg.Contexts {
			name = only
		}
	}
	current, found := cfg.Contexts[name]
	if !found || current == nil {
		return nil, nil, ErrKubeconfigContext
	}
	cluster, found := cfg.Clusters[current.Cluster]
	if !found || cluster == nil {
		return nil, nil, fmt.Errorf("%w: its cluster is not in it", ErrKubeconfigContext)
	}
	user, found := cfg.AuthInfos[current.AuthInfo]
	switch {
	case found && user != nil:
		return cluster, user, nil
	case current.AuthInfo == "":
		return cluster, api.NewAuthInfo(), nil // anonymous; the server decides what that is worth
	default:
		return nil, nil, fmt.Errorf("%w: its user is not in it", ErrKubeconfigContext)
	}
}

func checkCluster(cluster *api.Cluster, o safeOptions) error {
	switch {
	case cluster.Server == "":
		return fmt.Errorf("%w: it names no server", ErrKubeconfigMalformed)
	case cluster.CertificateAuthority != "" && len(cluster.CertificateAuthorityData) == 0:
		return fmt.Errorf("%w: certificate-authority", ErrKubeconfigFile)
	case cluster.InsecureSkipTLSVerify && !o.allowInsecure:
		return ErrKubeconfigInsecure
	}
	cluster.CertificateAuthority = "" // the data beside it wins; the path must not be looked at
	return nil
}

func checkUser(user *api.AuthInfo) error {
	switch {
	case user.Exec != nil:
		return ErrKubeconfigExec
	case user.AuthProvider != nil:
		return ErrKubeconfigAuthProvider
	case user.Impersonate != "", user.ImpersonateUID != "", len(user.ImpersonateGroups) > 0, len(user.ImpersonateUserExtra) > 0:
		return ErrKubeconfigImpersonates
	case user.TokenFile != "":
		return fmt.Errorf("%w: tokenFile", ErrKubeconfigFile)
	case user.ClientCertificate != "":
		return fmt.Errorf("%w: client-certificate", ErrKubeconfigFile)
	case user.ClientKey != "":
		return fmt.Errorf("%w: client-key", ErrKubeconfigFile)
	}
	return nil
}
