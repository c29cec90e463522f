package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/internal/pack/charts"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// offline are options whose charts are never fetched.
func offline() Options {
	return Options{Name: "demo", Namespace: "ws", Concurrency: 2, Charts: Charts{
		Fetch: func(context.Context, charts.Source, string) error { return errors.New("offline") },
		Complete: func(_ context.Context, dir string, _ charts.Auth, _ io.Writer) (string, func(), error) {
			return dir, func() {}, nil
		},
	}}
}

func packed(t *testing.T, files map[string]string, options Options, folders ...Folder) ([]*Bundle, error) {
	t.Helper()
	t.Chdir(folder(t, files))
	return Pack(t.Context(), folders, options)
}

func TestPack_KeepsTheOrderOfFolders(t *testing.T) {
	files := map[string]string{".hidden/x.yaml": "", "empty/.fleetignore": "*"}
	var folders []Folder
	var want []string
	for i := range 20 {
		name := fmt.Sprintf("f%02d", i)
		files[name+"/cm.yaml"] = "x: 1"
		folders, want = append(folders, Folder{Path: name}, Folder{Path: ".hidden"}, Folder{Path: "empty"}), append(want, "demo-"+name)
	}
	bundles, err := packed(t, files, offline(), folders...)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, bundle := range bundles {
		got = append(got, bundle.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("Bundles %q, want %q", got, want)
	}
}

func TestName_IsMadeOfArgumentFolderAndOptions(t *testing.T) {
	p := &packer{Options: Options{Name: "demo"}}
	for _, test := range []struct {
		folder Folder
		want   string
	}{
		{Folder{Path: "."}, "demo"},
		{Folder{Path: "./app"}, "demo-app"},
		{Folder{Path: "app", Options: "env/prod.yaml"}, "demo-app-env-prod"},
		{Folder{Path: "Upper"}, "demo-upper-2d348761"},
		{Folder{Path: "a--b"}, "demo-a-b"},
	} {
		if got := p.id(test.folder); got != test.want {
			t.Errorf("%+v: %s, want %s", test.folder, got, test.want)
		}
	}
}

func TestOptionsFile_IsNamedOrFound(t *testing.T) {
	files := map[string]string{
		"a/fleet.yaml": "name: a", "a/fleet.yml": "name: b", "a/x": "", "b/fleet.yml": "name: b", "c/x": "", "c/own.yaml": "name: own",
	}
	for name, test := range map[string]struct {
		folder Folder
		input  string
		want   string
		fails  string
	}{
		"fleet.yaml wins":     {Folder{Path: "a"}, "", "a", ""},
		"fleet.yml":           {Folder{Path: "b"}, "", "b", ""},
		"none":                {Folder{Path: "c"}, "", "demo-c", ""},
		"named":               {Folder{Path: "c", Options: "own.yaml"}, "", "own", ""},
		"named, but missing":  {Folder{Path: "c", Options: "gone.yaml"}, "", "", `failed to open file "gone.yaml": open c/gone.yaml: no such file or directory`},
		"standard input wins": {Folder{Path: "a"}, "name: in", "in", ""},
	} {
		t.Run(name, func(t *testing.T) {
			options := offline()
			if test.input != "" {
				options.Input = []byte(test.input)
			}
			bundles, err := packed(t, files, options, test.folder)
			if test.fails != "" {
				if err == nil || err.Error() != test.fails {
					t.Errorf("error %v, want %q", err, test.fails)
				}
				return
			}
			if err != nil || len(bundles) != 1 || bundles[0].Name != test.want {
				t.Errorf("Bundles %v, error %v, want %s", bundles, err, test.want)
			}
		})
	}
}

func TestWarningsOfABundle_NameTheirFiles(t *testing.T) {
	options := offline()
	options.Charts.Fetch = func(_ context.Context, _ charts.Source, to string) error {
		return os.WriteFile(to+"/.fleetignore", []byte("a/b\n"), 0o600)
	}
	bundles, err := packed(t, map[string]string{
		"app/fleet.yaml": "nmae: x\nhelm: {repo: http://h, chart: web}\n", "app/sub/.fleetignore": "a/b\n", "app/sub/x": "",
	}, options, Folder{Path: "app"})
	if err != nil || len(bundles) != 1 {
		t.Fatal(bundles, err)
	}
	var got []string
	for _, warning := range bundles[0].Warnings {
		got = append(got, fmt.Sprintf("%s:%d", warning.File, warning.Line))
	}
	if want := []string{"app/fleet.yaml:1", "app/sub/.fleetignore:1"}; !slices.Equal(got, want) {
		t.Errorf("warnings %v, want %v", got, want)
	}
	if text := (Warning{File: "a", Text: "b"}).String(); text != "a: b" {
		t.Errorf("text %q", text)
	}
}

func TestValuesFileThatReplacesTheValuesOfAChart_IsReported(t *testing.T) {
	options := offline()
	options.Charts.Fetch = func(_ context.Context, source charts.Source, to string) error {
		to = filepath.Join(to, source.Version)
		err := os.MkdirAll(to, 0o700)
		for _, name := range []string{"Chart.yaml", "values.yaml"} {
			err = errors.Join(err, os.WriteFile(filepath.Join(to, name), nil, 0o600))
		}
		return err
	}
	const lost = "app/fleet.yaml: a values file is called values.yaml, so the file values.yaml of the chart does not become a resource and its defaults have no effect; rename the values file"
	own := map[string]string{"app/Chart.yaml": "", "app/values.yaml": "", "app/env/values.yaml": "", "app/env/more.yaml": ""}
	for name, test := range map[string]struct {
		options string
		want    []string
	}{
		"of a downloaded chart":             {"helm: {chart: http://h/web, valuesFiles: [./values.yaml]}", []string{lost}},
		"of an archive with a top folder":   {"helm: {chart: http://h/web, version: web, valuesFiles: [values.yaml]}", nil},
		"of the folder, with the same name": {"helm: {chart: ., valuesFiles: [env/values.yaml]}", []string{lost}},
		"for one target":                    {"helm: {chart: .}\ntargets: [{clusterName: a, helm: {valuesFiles: [values.yaml]}}]", []string{lost}},
		"it is a values file itself":        {"helm: {chart: ., valuesFiles: [values.yaml]}", nil},
		"another name":                      {"helm: {chart: ., valuesFiles: [env/more.yaml]}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(own)
			files["app/fleet.yaml"] = test.options
			bundles, err := packed(t, files, options, Folder{Path: "app"})
			if err != nil || len(bundles) != 1 {
				t.Fatal(bundles, err)
			}
			var got []string
			for _, warning := range bundles[0].Warnings {
				got = append(got, warning.String())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("warnings %q, want %q", got, test.want)
			}
		})
	}
}

func TestChart_IsDownloadedUnlessTheFolderHasIt(t *testing.T) {
	dir := folder(t, map[string]string{"web/Chart.yaml": ""})
	spec := &fleet.BundleSpec{Targets: make([]fleet.BundleTarget, 5)}
	spec.Helm = &fleet.HelmOptions{Chart: "web"}
	for i, helm := range []*fleet.HelmOptions{
		nil, {}, {Chart: "web", Repo: "http://h", Version: "1.x"}, {Chart: "http://h/web.tgz"}, {Chart: "web", Repo: "http://h", Version: "1.x"},
	} {
		spec.Targets[i].Helm = helm
	}
	var got []string
	for _, one := range directories(dir, spec) {
		if one.chart == nil {
			got = append(got, one.prefix)
			continue
		}
		got = append(got, one.chart.Chart+" "+one.chart.Repo)
	}
	if want := []string{".", "web http://h", "http://h/web.tgz "}; !slices.Equal(got, want) {
		t.Errorf("directories %q, want %q", got, want)
	}
	if got := ChartPrefix(&fleet.HelmOptions{Chart: "web", Repo: "http://127.0.0.1:18879", Version: "1.1.x"}); !strings.HasPrefix(got, ".chart/a43555fc") || !strings.HasSuffix(got, "6fdc") {
		t.Errorf("prefix %s", got)
	}
}

func TestLabels_OfTheFolderWin(t *testing.T) {
	p := &packer{Options: Options{Labels: map[string]string{"a": "1", "b": "1"}}}
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "2", "c": "2"}, p.labels(map[string]string{"b": "2", "c": "2"})); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if got := (&packer{}).labels(nil); got != nil {
		t.Errorf("labels %v", got)
	}
}

func TestTargets_OfTheRepositoryAreAddedUnlessOverridden(t *testing.T) {
	own := []fleet.BundleTarget{{Name: "own", ClusterName: "a"}}
	repository := []fleet.BundleTarget{{ClusterGroup: "b"}}
	restrictions := []fleet.BundleTargetRestriction{{ClusterGroup: "b"}}
	for name, test := range map[string]struct {
		own          []fleet.BundleTarget
		repository   bool
		override     []fleet.BundleTargetRestriction
		namespace    string
		want         []fleet.BundleTarget
		restrictions []fleet.BundleTargetRestriction
	}{
		"none":       {want: []fleet.BundleTarget{{Name: "default", ClusterGroup: "default"}}},
		"own":        {own: own, want: own},
		"repository": {own: own, repository: true, want: append(slices.Clone(own), repository...), restrictions: restrictions},
		"overridden": {
			repository: true, override: []fleet.BundleTargetRestriction{{Name: "o", ClusterName: "c"}},
			want: []fleet.BundleTarget{{Name: "o", ClusterName: "c"}}, restrictions: []fleet.BundleTargetRestriction{{Name: "o", ClusterName: "c"}},
		},
		"overridden by nothing": {
			repository: true, override: []fleet.BundleTargetRestriction{}, want: []fleet.BundleTarget{{Name: "default", ClusterGroup: "default"}},
		},
		"namespace": {
			namespace: "ns",
			want:      []fleet.BundleTarget{{Name: "default", ClusterGroup: "default", BundleDeploymentOptions: fleet.BundleDeploymentOptions{TargetNamespace: "ns"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &packer{}
			if test.repository {
				p.Targets, p.Restrictions = repository, restrictions
			}
			p.Settings.TargetNamespace = test.namespace
			spec := &fleet.BundleSpec{Targets: slices.Clone(test.own)}
			p.addTargets(spec, test.override)
			if diff := cmp.Diff(test.want, spec.Targets); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.restrictions, spec.TargetRestrictions); diff != "" {
				t.Errorf("restrictions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSettings_SwitchOnButNeverOff(t *testing.T) {
	on := fleet.BundleSpec{Paused: true}
	on.KeepResources, on.DeleteNamespace, on.ServiceAccount, on.TargetNamespace = true, true, "own", "own"
	on.CorrectDrift = &fleet.CorrectDrift{Force: true}
	same := on
	same.ForceSyncGeneration = 7
	Settings{}.apply(&same)
	if diff := cmp.Diff(on, same); diff != "" {
		t.Errorf("no settings (-want +got):\n%s", diff)
	}
	var spec fleet.BundleSpec
	settings := Settings{
		Paused: true, KeepResources: true, DeleteNamespace: true, CorrectDrift: &fleet.CorrectDrift{Force: true}, ServiceAccount: "own",
		TargetNamespace: "own", SyncGeneration: 3,
	}
	settings.apply(&spec)
	on.ForceSyncGeneration = 3
	if diff := cmp.Diff(on, spec); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if spec.CorrectDrift == settings.CorrectDrift {
		t.Error("Bundles share the settings")
	}
}

func TestImageScans_AreNamedByTheirPosition(t *testing.T) {
	scans, err := imageScans("demo-app", []imageScan{
		{imageScanSpec: imageScanSpec{Image: "a", TagName: "a"}}, {imageScanSpec: imageScanSpec{TagName: "no image"}},
		{imageScanSpec: imageScanSpec{Image: "b", TagName: "b"}},
	})
	if err != nil || len(scans) != 2 || scans[0].GetName() != "imagescan-demo-app-0" || scans[1].GetName() != "imagescan-demo-app-2" {
		t.Errorf("scans %v, error %v", scans, err)
	}
	if _, err := imageScans("demo", []imageScan{{imageScanSpec: imageScanSpec{Image: "a"}}}); err == nil || err.Error() != "the name of scan is required" {
		t.Errorf("error %v", err)
	}
}
