package kube

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// FleetClient returns a client for Fleet's kinds on the server of cfg. It uses the connections of through, if
// that is not nil.
func FleetClient(cfg *rest.Config, through *http.Client) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := fleet.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering Fleet's kinds: %w", err)
	}
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion = "/apis", &fleet.SchemeGroupVersion
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	if through == nil {
		return rest.RESTClientFor(cfg)
	}
	return rest.RESTClientForConfigAndClient(cfg, through)
}
