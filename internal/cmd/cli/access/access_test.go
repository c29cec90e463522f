package access

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
)

func TestOpen_NamesTheFilesIfNoContextIsSelected(t *testing.T) {
	const contexts = "apiVersion: v1\nkind: Config\ncontexts: [{name: hub, context: {cluster: hub}}]\nclusters: [{name: hub, cluster: {server: 'https://hub:6443'}}]\n"
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	missing, none := filepath.Join(folder, "missing"), write("none", contexts)
	local := write("local", "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\nclusters: [{name: a, cluster: {server: 'http://localhost:8080'}}]\n")
	const fix = "\nfix: select a context with --context: kubectl config get-contexts\n"
	for name, test := range map[string]struct{ environment, file, context, host, want string }{
		"missing file":             {missing, "", "", "", "error: no kubeconfig with a current context was found in " + missing + fix},
		"several files":            {missing + ":" + none, "", "", "", "error: no kubeconfig with a current context was found in " + missing + ", " + none + fix},
		"given file":               {missing, none, "", "", "error: no kubeconfig with a current context was found in " + none + fix},
		"given context":            {none, "", "hub", "https://hub:6443", ""},
		"context with that server": {local, "", "", "http://localhost:8080", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", test.environment)
			flags := NewFlags()
			*flags.config.KubeConfig, *flags.config.Context = test.file, test.context
			cluster, err := flags.Open()
			if test.want == "" {
				if err != nil || cluster.Config.Host != test.host {
					t.Errorf("%+v: %v", cluster, err)
				}
				return
			}
			if err == nil || exit.Text(err) != test.want || exit.CodeOf(err) != exit.Preflight {
				t.Errorf("got %v, want\n%s", err, test.want)
			}
		})
	}
}
