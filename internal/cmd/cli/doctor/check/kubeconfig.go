package check

import (
	"errors"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleet-hub/fleet/internal/cmd/cli/remedy"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
	clusterrules "github.com/fleet-hub/fleet/internal/rules/clusters"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

// Kubeconfig is what the checks know about a Secret that a Cluster names.
type Kubeconfig struct {
	// Exists means that the Secret exists and has the key of kubeconfigs.
	Exists bool
	// Err is why the hub refuses the kubeconfig. It contains nothing of it.
	Err error
	// Expires is when its client certificate or token expires. The zero time means never, or that this is not known.
	Expires time.Time
	// Allowed is the list of workspaces that may use the Secret, besides its own.
	Allowed string
	// URL and CA override the hub's address for the Cluster, if they are not empty.
	URL string
	CA  []byte
}

// ServiceHost returns a reader of the address of the hub's API server within its own cluster. No check needs it: if it cannot
// be read, target stays empty.
func ServiceHost(target *string, hub kubernetes.Interface) Reader {
	read := Read(hub.CoreV1().Services(metav1.NamespaceDefault), "kubernetes", func(service *corev1.Service) {
		if service != nil {
			*target = service.Spec.ClusterIP
		}
	})
	return NewReader("hub: Service kubernetes", "get", "", "services", metav1.NamespaceDefault, read)
}

// KubeconfigRules returns a hub's rules for the kubeconfig of a Cluster. serviceHost is the address of the hub's API server within
// its own cluster, or empty. insecure permits to skip the verification of certificates.
func KubeconfigRules(settings config.Config, serviceHost string, cluster *fleet.Cluster, insecure bool, now time.Time) foreign.Options {
	rules := foreign.Options{
		AnyAddress: settings.AllowLocalKubeconfigs || clusterrules.IsLocal(cluster, settings.Bootstrap), Insecure: insecure,
		Refused: settings.RefusedNetworks(), Now: now,
	}
	if own, err := netip.ParseAddr(serviceHost); err == nil {
		rules.Refused = append(rules.Refused, netip.PrefixFrom(own, own.BitLen()))
	}
	return rules
}

// ReadKubeconfig returns what the checks need of a Secret, which may be nil. The hub's rules decide what is refused.
func ReadKubeconfig(secret *corev1.Secret, rules foreign.Options) Kubeconfig {
	if secret == nil {
		return Kubeconfig{}
	}
	document, found := secret.Data[protocol.KubeconfigValueKey]
	k := Kubeconfig{
		Exists: found, Allowed: secret.Annotations[annotation.AllowedWorkspaces],
		URL: string(secret.Data[protocol.APIServerURLKey]), CA: secret.Data[protocol.APIServerCAKey],
	}
	switch {
	case !found:
		return k
	case len(document) > MaxKubeconfig:
		k.Err = kubeconfigs.ErrKubeconfigMalformed
		return k
	}
	if _, k.Err = foreign.Config(document, rules); errors.Is(k.Err, foreign.ErrKubeconfigExpired) {
		k.Err = nil // Expires reports it
	}
	if k.Err == nil {
		_, k.Expires = kubeconfigs.ValidityOf(document)
	}
	return k
}

// KubeconfigFix returns the command that replaces a kubeconfig that the hub refuses.
func KubeconfigFix(cluster *fleet.Cluster, refusal error) string {
	if errors.Is(refusal, foreign.ErrKubeconfigAddress) {
		return remedy.OfRefusedAddress(cluster)
	}
	return remedy.OfCluster(cluster, conditions.ReasonKubeconfigInvalid)
}
