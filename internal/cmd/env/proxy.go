package env

import "fmt"

// Variables that tell net/http which hosts to reach without a proxy. If both are set, it uses only the first.
const (
	variableNoProxy      = "NO_PROXY"
	variableNoProxySmall = "no_proxy"
)

// OwnDirectly makes this process reach its own cluster without a proxy. A proxy is meant for other clusters, and
// NO_PROXY often does not contain the address of this cluster's API server. It affects requests that are sent
// afterwards.
func OwnDirectly(environment Environment, set func(name, value string) error) error {
	own := environment("KUBERNETES_SERVICE_HOST")
	if own == "" {
		return nil
	}
	small, large := environment(variableNoProxySmall), environment(variableNoProxy)
	values := map[string]string{}
	if small != "" {
		values[variableNoProxySmall] = small + "," + own
	}
	if large != "" {
		values[variableNoProxy] = large + "," + own
	}
	if len(values) == 0 { // setting it if no_proxy is set would override no_proxy
		values[variableNoProxy] = own
	}
	for name, value := range values {
		if err := set(name, value); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}
