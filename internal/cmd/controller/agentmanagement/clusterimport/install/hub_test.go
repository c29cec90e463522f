package install

import (
	"strings"
	"testing"
)

const otherHub = "5f6c0a52-1d7e-4f0b-9d1b-0a8f0c3d2e1f"

func TestInvalidHubMark_IsNotShown(t *testing.T) {
	for mark, says := range map[string]string{otherHub: otherHub, "<b>": ": unknown", strings.Repeat("a", 9000): ": unknown", otherHub + "\nx": ": unknown"} {
		message := (&AnotherHubError{namespace: "n", uid: mark}).Message()
		if !strings.Contains(message, says) || !strings.Contains(message, "run on the downstream cluster: kubectl") || len(message) > 500 {
			t.Errorf("%q", message)
		}
	}
}
