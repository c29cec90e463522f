package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/yamlbound"
)

func TestAliasesThatStandForTooMuch_AreRefused(t *testing.T) {
	bomb := "a: &a [" + strings.Repeat("x,", 999) + "x]\nb: [" + strings.Repeat("*a,", 999) + "*a]\n"
	if _, _, err := Parse([]byte(bomb), Config{}); !errors.Is(err, yamlbound.ErrTooLarge) {
		t.Errorf("the controllers': error = %v", err)
	}
	if _, _, err := ParseAgent(bomb); !errors.Is(err, yamlbound.ErrTooLarge) {
		t.Errorf("the agent's: error = %v", err)
	}
}
