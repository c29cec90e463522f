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

func TestIs(t *testing.T) {
	for text, want := range map[string]bool{
		string(kubetest.Kubeconfig()): true,
		`{"clusters":[{"name":"c","cluster":{"server":"https://a.example"}}],"users":[{"name":"u","user":{"token":"t"}}]}`: true,
		`{"clusters":[{"name":"c","cluster":{"server":"https://a.example"}}]}`:                                             false,
		"clusters: [a]\nusers: [b]\n":                              false,
		`{"auths":{"registry.example.com":{"auth":"dTpw"}}}`:       false,
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-": false,
		"": false, "kubeconfig": false, "\x00\xff": false,
	} {
		if got := Is([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
