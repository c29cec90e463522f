package kubeconfig

import (
	"errors"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/kube/kubetest"
	"github.com/fleet-hub/fleet/internal/yamlbound"
)

func TestLoadKubeconfig_RefusesAliasesThatStandForTooMuch(t *testing.T) {
	bomb := "a: &a [" + strings.Repeat("x,", 999) + "x]\nb: [" + strings.Repeat("*a,", 999) + "*a]\n" + string(kubetest.Kubeconfig())
	if _, err := Load([]byte(bomb)); !errors.Is(err, yamlbound.ErrTooLarge) {
		t.Errorf("error = %v", err)
	}
	if _, err := Safe([]byte(bomb)); !errors.Is(err, ErrKubeconfigMalformed) {
		t.Errorf("error = %v", err)
	}
	if _, err := Load(kubetest.Kubeconfig()); err != nil {
		t.Error(err)
	}
}
