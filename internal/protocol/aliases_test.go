package protocol

import (
	"errors"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/yamlbound"
)

func TestAliasesThatStandForTooMuch_AreRefused(t *testing.T) {
	bomb := "a: &a [" + strings.Repeat("x,", 999) + "x]\nb: [" + strings.Repeat("*a,", 999) + "*a]\n"
	if _, _, err := textEntries([]byte(bomb)); !errors.Is(err, yamlbound.ErrTooLarge) {
		t.Errorf("error = %v", err)
	}
}
