package gather

import (
	"errors"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/hub"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubconfig"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	kubeconfigs "github.com/fleet-hub/fleet/internal/kube/kubeconfig"
	"github.com/fleet-hub/fleet/internal/protocol"
)

// readKubeconfig returns what the checks need of a kubeconfig Secret. The hub's rules decide what is refused.
func readKubeconfig(data map[string][]byte, options foreign.Options) hub.Kubeconfig {
	document, found := data[protocol.KubeconfigValueKey]
	switch {
	case !found:
		return hub.Kubeconfig{}
	case len(document) > check.MaxKubeconfig:
		return hub.Kubeconfig{Exists: true, Err: kubeconfigs.ErrKubeconfigMalformed}
	}
	result := hub.Kubeconfig{Exists: true}
	if _, err := foreign.Config(document, options); err != nil && !errors.Is(err, foreign.ErrKubeconfigExpired) {
		result.Err = err
		return result
	}
	cfg, err := kubeconfigs.SafeOrInsecure(document, true)
	if err != nil {
		result.Err = err
		return result
	}
	token := cfg.BearerToken
	if len(token) > check.MaxToken {
		token = ""
	}
	_, result.Expires = kubeconfigs.Validity(cfg.CertData, token)
	return result
}

// rulesOf returns the hub's rules for kubeconfigs.
func rulesOf(f *hub.Facts) foreign.Options {
	return foreign.Options{
		Now: f.Now, AnyAddress: f.Config.AllowLocalKubeconfigs, Insecure: hubconfig.AllowsInsecure(f.Controllers()...), Refused: f.Config.RefusedNetworks(),
	}
}
