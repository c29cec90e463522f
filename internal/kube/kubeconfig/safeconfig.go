package kubeconfig

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleet-hub/fleet/internal/kube"
)

// Errors for content that a user's kubeconfig must not have. The kubeconfig comes from a Secret that anyone with
// write access to a workspace can create, and is used inside the controller. It may define a server and a
// credential, but not a command to run or a file of the controller to read.
var (
	// ErrKubeconfigMalformed means that the text is not a kubeconfig, or that it has no server.
	ErrKubeconfigMalformed = errors.New("the kubeconfig is malformed; write one with kubectl config view --raw --flatten --minify")
	// ErrKubeconfigContext means that no context is selected, or that the selected one does not exist.
	ErrKubeconfigContext = errors.New("the kubeconfig selects no usable context; set current-context to a context with a cluster and a user")
	// ErrKubeconfigExec means that the user entry runs a command (exec).
	ErrKubeconfigExec = errors.New("the kubeconfig runs a command to log in (exec); use a token or a client certificate")
	// ErrKubeconfigAuthProvider means that the user entry uses an auth-provider plugin.
	ErrKubeconfigAuthProvider = errors.New("the kubeconfig logs in through an auth-provider; use a token or a client certificate")
	// ErrKubeconfigFile means that an entry refers to a file of the controller.
	ErrKubeconfigFile = errors.New("the kubeconfig points to a file; embed the data (kubectl config view --raw --flatten)")
	// ErrKubeconfigImpersonates means that the user entry impersonates another user.
	ErrKubeconfigImpersonates = errors.New("the kubeconfig acts as another user (as, as-uid, as-groups, as-user-extra); use a credential that has the rights itself")
	// ErrKubeconfigInsecure means that insecure-skip-tls-verify is set and the operator does not allow it.
	ErrKubeconfigInsecure = errors.New("the kubeconfig skips TLS verification; embed the server's CA instead")
)

// Safe converts a user's kubeconfig to a client configuration without rate limit and with RequestTimeout. It
// checks only the entries of the context in use. The error wraps one of the sentinels above and never contains a
// part of the kubeconfig.
func Safe(kubeconfig []byte) (*rest.Config, error) { return SafeOrInsecure(kubeconfig, false) }

// SafeOrInsecure is Safe, but it allows insecure-skip-tls-verify if insecure is true. The operator decides that.
func SafeOrInsecure(kubeconfig []byte, insecure bool) (*rest.Config, error) {
	loaded, err := Load(kubeconfig)
	if err != nil {
		return nil, ErrKubeconfigMalformed // the parser's error may quote its input
	}
	cluster, user, err := inUse(loaded)
	if err != nil {
		return nil, err
	}
	if err := checkCluster(cluster, insecure); err != nil {
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
		return nil, fmt.Errorf("%w: its server is not a URL", ErrKubeconfigMalformed)
	}
	return kube.Tune(cfg), nil
}

// contextName is the name of the only context in the resulting configuration.
const contextName = "default"

// only returns a kubeconfig with only these two entries.
func only(cluster *api.Cluster, user *api.AuthInfo) api.Config {
	cfg := *api.NewConfig()
	cfg.Clusters["cluster"] = cluster
	cfg.AuthInfos["user"] = user
	cfg.Contexts[contextName] = &api.Context{Cluster: "cluster", AuthInfo: "user"}
	cfg.CurrentContext = contextName
	return cfg
}

// inUse returns the entries of the current context, or of the only context if none is current.
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
		return nil, nil, fmt.Errorf("%w: the cluster of the context does not exist", ErrKubeconfigContext)
	}
	user, found := cfg.AuthInfos[current.AuthInfo]
	switch {
	case found && user != nil:
		return cluster, user, nil
	case current.AuthInfo == "":
		return cluster, api.NewAuthInfo(), nil // anonymous; the server decides what is allowed
	default:
		return nil, nil, fmt.Errorf("%w: the user of the context does not exist", ErrKubeconfigContext)
	}
}

func checkCluster(cluster *api.Cluster, insecure bool) error {
	switch {
	case cluster.Server == "":
		return fmt.Errorf("%w: it has no server", ErrKubeconfigMalformed)
	case cluster.CertificateAuthority != "" && len(cluster.CertificateAuthorityData) == 0:
		return fmt.Errorf("%w: certificate-authority", ErrKubeconfigFile)
	case cluster.InsecureSkipTLSVerify && !insecure:
		return ErrKubeconfigInsecure
	}
	cluster.CertificateAuthority = "" // the embedded data has priority; the file must not be read
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
