package env

import "fmt"

// Variables that tell net/http what is reached without a proxy. Where both are set it looks at the first alone.
const (
	variableNoProxy      = "NO_PROXY"
	variableNoProxySmall = "no_proxy"
)

// OwnDirectly makes this process reach the cluster it runs in without a proxy: one that is set is for the hub, and what
// it is not for is written with the addresses in mind that clusters have as a rule. It works for requests made after it.
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
	if len(values) == 0 { // set beside the other, it would hide what that says
		values[variableNoProxy] = own
	}
	for name, value := range values {
		if err := set(name, value); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}
