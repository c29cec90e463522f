package agentrelease

import (
	"io"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

func TestReleaseOfAnEarlierProcess_IsReplaced(t *testing.T) {
	text := jointext.Text{
		URL: "https://hub", Workspace: "fleet-default", Token: "t", TokenName: "west", ClientID: "west-1", SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	}
	values, err := Values(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []release.Status{
		"", release.StatusDeployed, release.StatusFailed, release.StatusPendingInstall, release.StatusPendingUpgrade, release.StatusUninstalling, release.StatusUninstalled,
	} {
		memory := driver.NewMemory()
		memory.SetNamespace(names.SystemNamespace)
		config := &action.Configuration{
			Releases: storage.Init(memory), KubeClient: &kubefake.PrintingKubeClient{Out: io.Discard, LogOutput: io.Discard},
			Capabilities: chartutil.DefaultCapabilities, Log: func(string, ...any) {},
		}
		helm := &Helm{config, names.SystemNamespace}
		if status != "" {
			if err := helm.Install(t.Context(), values); err != nil {
				t.Fatal(err)
			}
			last, err := helm.last()
			if err != nil {
				t.Fatal(err)
			}
			last.SetStatus(status, "")
			if err := config.Releases.Update(last); err != nil {
				t.Fatal(err)
			}
		}
		if err := helm.Install(t.Context(), values); err != nil {
			t.Errorf("%s: %v", status, err)
		}
		if got, err := helm.Status(); got != release.StatusDeployed || err != nil {
			t.Errorf("%s: status %s, error %v", status, got, err)
		}
	}
}
