package takeover_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// controllers is the hub's controllers in the audit log.
const controllers = "system:serviceaccount:cattle-fleet-system:fleet-controller"

// entry is a line of the audit log.
type entry struct {
	Stage, Verb    string
	User           struct{ Username string }
	ObjectRef      *struct{ Resource, Namespace, Name, Subresource string }
	ResponseStatus struct{ Code int }
}

// writes are what the controllers have changed on the hub, apart from leases and Events, past the first so many; each
// as often as it was. A write that came too late and was made again is not counted.
func (h *hub) writes(t *testing.T, past int) []string {
	t.Helper()
	content, err := os.ReadFile(h.Plane.Hub.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, len(content)+1)
	for lines.Scan() {
		var e entry
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Stage != "ResponseComplete" || e.User.Username != controllers || e.ObjectRef == nil {
			continue // the line that is being written, or another one's
		}
		if slices.Contains([]string{"get", "list", "watch"}, e.Verb) || e.ObjectRef.Resource == "leases" || e.ObjectRef.Resource == "tokenreviews" || e.ResponseStatus.Code == 409 {
			continue
		}
		if e.Verb == "update" && e.ObjectRef.Name == names.HubDocument { // signed again at each start, and when a workspace gets a token
			continue
		}
		resource := strings.TrimSuffix(e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/")
		found = append(found, fmt.Sprintf("%s %s %s/%s", e.Verb, resource, e.ObjectRef.Namespace, e.ObjectRef.Name))
	}
	return found[min(past, len(found)):]
}

// sorted has each line once.
func sorted(lines []string) []string {
	lines = slices.Clone(lines)
	slices.Sort(lines)
	return slices.Compact(lines)
}
