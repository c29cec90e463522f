package kube

import (
	"errors"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/yamlbound"
)

func TestLoadKubeconfig_RefusesAliasesThatStandForTooMuch(t *testing.T) {
	bomb := "a: &a [" + strings.Repeat("x,", 999) + "x]\nb: [" + strings.Repeat("*a,", 999) + "*a]\n" + string(kubeconfig())
	if _, err := LoadKubeconfig([]byte(bomb)); !errors.Is(err, yamlbound.ErrTooLarge) {
		t.Errorf("error = %v", err)
	}
	if _, err := SafeConfig([]byte(bomb)); !errors.Is(err, ErrKubeconfigMalformed) {
		t.Errorf("error = %v", err)
	}
	if _, err := LoadKubeconfig(kubeconfig()); err != nil {
		t.Error(err)
	}
}
