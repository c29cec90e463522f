package deploy

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
)

var notForFiles = regexp.MustCompile(`[^a-zA-Z0-9]+`)

// expectGolden compares text with testdata/<test>/<name>.golden, named after the running test.
func expectGolden(t *testing.T, text string) {
	t.Helper()
	test, name, _ := strings.Cut(t.Name(), "/")
	golden.Expect(t, filepath.Join(test, strings.Trim(notForFiles.ReplaceAllString(name, "-"), "-")+".golden"), text)
}
