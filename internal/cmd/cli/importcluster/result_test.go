package importcluster

import (
	"bytes"
	"encoding/json"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
)

func TestResult_IsPrintedInEveryFormat(t *testing.T) {
	imported := Imported{Workspace: "fleet-default", Cluster: "east", Server: "https://192.0.2.7:6443", LastSeen: "2030-01-02T12:00:00Z"}
	for _, format := range []output.Format{output.Table, output.JSON, output.YAML, output.Name} {
		for state, already := range map[string]bool{"imported": false, "already": true} {
			imported.Already = already
			var out bytes.Buffer
			o := &options{streams: genericiooptions.IOStreams{Out: &out}, format: format}
			if err := o.print(imported); err != nil {
				t.Fatal(err)
			}
			golden.Expect(t, state+"."+string(format), out.String())
		}
	}
}

func TestPreview_IsOneDocumentInJSON(t *testing.T) {
	var out bytes.Buffer
	i := &importer{options: &options{streams: genericiooptions.IOStreams{Out: &out}, format: output.JSON, flags: access.NewFlags(), name: "east", asIs: true}}
	if err := i.preview(stepCreate); err != nil {
		t.Fatal(err)
	}
	var list struct {
		Kind  string
		Items []struct{ Kind string }
	}
	if err := json.Unmarshal(out.Bytes(), &list); err != nil || list.Kind != "List" || len(list.Items) != 2 || list.Items[1].Kind != "Cluster" {
		t.Errorf("%v: %s", err, out.String())
	}
}
