package agentrelease

import (
	"errors"
	"io"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// counting is a cluster that counts the objects that are created.
type counting struct {
	kubefake.PrintingKubeClient

	created int
}

// Create counts the objects.
func (c *counting) Create(resources kube.ResourceList) (*kube.Result, error) {
	c.created++
	return c.PrintingKubeClient.Create(resources)
}

// The chart's hooks create an object to delete it.
func TestUninstall_RunsHooksOnlyIfWanted(t *testing.T) {
	values, err := Values(jointext.Text{
		URL: "https://hub", Workspace: "fleet-default", Token: "t", TokenName: "west", SystemRegistrationNamespace: "cattle-fleet-clusters-system",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, uninstall := range map[string]func(*Helm) error{"with hooks": (*Helm).Uninstall, "without": (*Helm).UninstallWithoutHooks} {
		memory := driver.NewMemory()
		memory.SetNamespace(names.SystemNamespace)
		cluster := &counting{PrintingKubeClient: kubefake.PrintingKubeClient{Out: io.Discard, LogOutput: io.Discard}}
		helm := &Helm{&action.Configuration{
			Releases: storage.Init(memory), KubeClient: cluster, Capabilities: chartutil.DefaultCapabilities, Log: func(string, ...any) {},
		}, names.SystemNamespace}
		if _, err := helm.Install(t.Context(), values, false); err != nil {
			t.Fatal(err)
		}
		cluster.created = 0
		if err := uninstall(helm); err != nil || (cluster.created > 0) != (name == "with hooks") {
			t.Errorf("%s: %d objects created, error %v", name, cluster.created, err)
		}
	}
}

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
			if _, err := helm.Install(t.Context(), values, false); err != nil {
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
		created, err := helm.Install(t.Context(), values, false)
		if want := status == "" || status == release.StatusUninstalled; err != nil || created != want {
			t.Errorf("%s: created %v, error %v", status, created, err)
		}
		if got, err := helm.Status(); got != release.StatusDeployed || err != nil {
			t.Errorf("%s: status %s, error %v", status, got, err)
		}
	}
}

// changing is a cluster that refuses a number of updates with an error.
type changing struct {
	kubefake.PrintingKubeClient

	err     error
	refused int
}

// Update returns the error as long as updates are refused.
func (c *changing) Update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	if c.refused--; c.refused >= 0 {
		return &kube.Result{}, c.err
	}
	return c.PrintingKubeClient.Update(original, target, force)
}

func TestUpgrade_IsTriedAgainOnlyIfTheAgentHasDeletedAnObject(t *testing.T) {
	values, err := Values(jointext.Text{URL: "https://hub", Workspace: "fleet-default", Token: "t", TokenName: "west"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	deleted, errDenied := errors.New(`cannot patch "fleet-agent-bootstrap" with kind Secret: secrets "fleet-agent-bootstrap" not found`), errors.New("admission webhook denied the request")
	for name, test := range map[string]struct {
		err     error
		refused int
		want    error
	}{
		"deleted once":  {deleted, 1, nil},
		"deleted twice": {deleted, 2, deleted},
		"denied":        {errDenied, 1, errDenied},
	} {
		memory := driver.NewMemory()
		memory.SetNamespace(names.SystemNamespace)
		cluster := &changing{PrintingKubeClient: kubefake.PrintingKubeClient{Out: io.Discard, LogOutput: io.Discard}}
		helm := &Helm{&action.Configuration{
			Releases: storage.Init(memory), KubeClient: cluster, Capabilities: chartutil.DefaultCapabilities, Log: func(string, ...any) {},
		}, names.SystemNamespace}
		if _, err := helm.Install(t.Context(), values, false); err != nil {
			t.Fatal(err)
		}
		cluster.err, cluster.refused = test.err, test.refused
		if _, err := helm.Install(t.Context(), values, false); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
