package join

import (
	"bytes"
	"encoding/json"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/e2e/framework/golden"
	"github.com/fleet-hub/fleet/internal/cmd/cli/agentrelease"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
)

func TestResult_IsPrintedInEveryFormat(t *testing.T) {
	joined := Joined{
		Hub: "https://hub.example.com:6443", CA: "sha256:3f1c", Workspace: "fleet-default", Cluster: "west", LastSeen: "2030-01-02T12:00:00Z",
	}
	for _, format := range []output.Format{output.Table, output.JSON, output.YAML, output.Name} {
		for state, already := range map[string]bool{"joined": false, "already": true} {
			joined.Already = already
			var out bytes.Buffer
			o := &options{streams: genericiooptions.IOStreams{Out: &out}, format: format}
			if err := o.print(joined); err != nil {
				t.Fatal(err)
			}
			golden.Expect(t, state+"."+string(format), out.String())
		}
	}
}

func TestNameThatTheHubChose_CannotControlTheTerminal(t *testing.T) {
	for format, want := range map[output.Format]string{
		output.Table: "joined as Cluster fleet-default/a [2Jb of https://hub\n", output.Name: "cluster.fleet.cattle.io/a [2Jb\n",
	} {
		var out bytes.Buffer
		o := &options{streams: genericiooptions.IOStreams{Out: &out}, format: format}
		if err := o.print(Joined{Hub: "https://hub", Workspace: "fleet-default", Cluster: "a\x1b[2Jb"}); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v", format, out.String(), err)
		}
	}
}

func TestPreview_IsOneDocumentInJSON(t *testing.T) {
	values, err := agentrelease.Values(jointext.Text{URL: "https://hub.example.com", Workspace: "w", Token: "t", TokenName: "n", SystemRegistrationNamespace: "r"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	j := &joiner{options: &options{streams: genericiooptions.IOStreams{Out: &out}, format: output.JSON}, namespace: "cattle-fleet-system", values: values}
	if err := j.preview(stepInstall); err != nil {
		t.Fatal(err)
	}
	var list struct {
		Kind  string
		Items []struct{ Kind string }
	}
	if err := json.Unmarshal(out.Bytes(), &list); err != nil || list.Kind != "List" || len(list.Items) < 5 || list.Items[0].Kind != "Namespace" {
		t.Errorf("%v: %s", err, out.String())
	}
}
