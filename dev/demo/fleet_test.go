package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const secretText = "fleet-join-v1:0123456789SECRET"

// fake returns a command line whose program fleet is this shell script, and where it prints.
func fake(t *testing.T, script string) (*commandLine, *bytes.Buffer) {
	t.Helper()
	c := &commandLine{folder: t.TempDir(), kubeconfig: "/the/kubeconfig"}
	if err := os.WriteFile(filepath.Join(c.folder, fleetProgram), []byte("#!/bin/sh\n"+script), 0o700); err != nil { //nolint:gosec // an executable
		t.Fatal(err)
	}
	var printed bytes.Buffer
	c.report = newReporter(&printed)
	return c, &printed
}

func TestCommand_IsPrintedWithItsOutputAndWithoutSecrets(t *testing.T) {
	c, printed := fake(t, `read text; echo "$text"; echo "with $KUBECONFIG"; printf "last $*"`)
	stdout, err := c.run(t.Context(), secretText, fleetProgram, "join", "--context", "west")
	if err != nil {
		t.Fatal(err)
	}
	if want := secretText + "\nwith /the/kubeconfig\nlast join --context west"; stdout != want {
		t.Errorf("returned %q, want %q", stdout, want)
	}
	want := `    $ fleet join --context west <<'JOIN'
    fleet-join-v1:0123456789…
    JOIN
    fleet-join-v1:0123456789…
    with /the/kubeconfig
    last join --context west
`
	if diff := cmp.Diff(want, printed.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

func TestCommandThatFails_IsAnErrorWithItsExitCode(t *testing.T) {
	c, printed := fake(t, "echo 'error: no' >&2; exit 3")
	stdout, err := c.run(t.Context(), "", fleetProgram, "import", "east")
	if err == nil || stdout != "" || err.Error() != "running fleet import east: exit status 3 (its output is above)" {
		t.Errorf("%q, %v", stdout, err)
	}
	if want := "    $ fleet import east\n    error: no\n"; printed.String() != want {
		t.Errorf("printed %q, want %q", printed.String(), want)
	}
}

func TestMissing_ReturnsTheWordsThatAreNotThere(t *testing.T) {
	listed := "NAMESPACE       NAME    STATE\nfleet-local     local   Ready\nfleet-default   east    Ready\n"
	if got := strings.Join(missing(listed, "local", "east", "west"), " "); got != "west" {
		t.Errorf("got %q", got)
	}
	if got := missing("east\nwest\n:4\n", "east", "west"); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}
